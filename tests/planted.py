"""Bugs that tests plant."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def planted(where: Any, name: str, bug: Callable[..., Any]) -> Iterator[None]:
    """Have `bug` called in place of a function of a module or class. It gets that function, and the
    arguments."""
    right = getattr(where, name)
    setattr(where, name, lambda *given, **named: bug(right, *given, **named))
    try:
        yield
    finally:
        setattr(where, name, right)
