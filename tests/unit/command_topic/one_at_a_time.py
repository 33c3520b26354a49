"""A simulated log for instances that work in several threads."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any

import pyarrow as pa

from millstream.log.simulated import SimulatedLog


class OneAtATime(SimulatedLog[pa.Table]):
    """A `SimulatedLog` on which one thread works at a time, as a broker orders what it is sent.

    The simulated log itself knows no threads. Without this, two appends at once may get the same
    offsets, and a reader then misses the records of one of them.
    """

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        self._at_work = threading.RLock()
        super().__init__(*arguments, **settings)


def _guarded(method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    def call(self: OneAtATime, *arguments: Any, **named: Any) -> Any:
        with self._at_work:
            return method(self, *arguments, **named)

    return call


for _name, _method in list(vars(SimulatedLog).items()):
    if callable(_method) and not _name.startswith("_"):
        setattr(OneAtATime, _name, _guarded(_method))
