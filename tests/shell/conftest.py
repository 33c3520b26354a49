"""Shells in terminals, ended with the test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.shell.screen import Screen, millstream

Start = Callable[..., Screen]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts the command with options; the prompt is there when it returns."""
    screens: list[Screen] = []

    def begin(*options: str, **settings: Any) -> Screen:
        screen = Screen(millstream(*options), tmp_path, **settings)
        screens.append(screen)
        screen.until("millstream>")
        return screen

    yield begin
    for screen in screens:
        screen.close()
