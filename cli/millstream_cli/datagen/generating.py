"""Inserts rows of a preset at a rate."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Protocol

from millstream.connectors.presets import Preset, Row
from millstream.model.clock import now_ms

PAUSE_SECONDS = 0.1
"""How long rows wait for each other, so that one insert takes several."""
MOST_ROWS = 1000
"""In one insert."""
RATE = 10.0
"""Rows a second, if nothing else is said."""


class Target(Protocol):
    """A database in this process or on a server."""

    def insert(self, target: str, data: list[Row]) -> int:
        """Insert rows; returns their number."""


@dataclass(frozen=True, slots=True)
class Plan:
    """`rate`: rows a second; 0 for as many as possible. `iterations`: how many rows in all; None
    until the end. The same `seed` gives the same rows, apart from their times."""

    preset: Preset
    name: str
    rate: float = RATE
    iterations: int | None = None
    seed: int | None = None


def generate(database: Target, plan: Plan, ended: threading.Event) -> Iterator[tuple[Row, ...]]:
    """Insert rows until the plan is carried out or `ended` is set, and yield what was inserted
    each time. Raises MillstreamError if an insert fails."""
    random, done, began = Random(plan.seed), 0, time.monotonic()
    while not ended.is_set() and done != plan.iterations:
        left = MOST_ROWS if plan.iterations is None else plan.iterations - done
        due = MOST_ROWS
        if plan.rate:
            due = int((time.monotonic() - began) * plan.rate) + 1 - done
        count = min(due, left, MOST_ROWS)
        if count <= 0:
            ended.wait(PAUSE_SECONDS)
            continue
        now = now_ms()
        rows = [plan.preset.row(random, done + at, now) for at in range(count)]
        database.insert(plan.name, rows)
        done += count
        yield tuple(rows)
        if plan.rate:
            ended.wait(PAUSE_SECONDS)
