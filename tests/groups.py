"""Groups of tasks that change at random, for tests that judge what a query makes whatever they
are."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any


@dataclass(frozen=True)
class AnyGroups:
    """A `Grouping` that divides the tasks anew before each run, now and then."""

    random: Random
    groups: Mapping[int, int] = field(default_factory=dict)

    def after(self, rows: Mapping[int, int], statements: int, free: int) -> AnyGroups:
        """See `Grouping`."""
        if self.random.random() < 0.3:
            return self
        count = self.random.randint(1, 3)
        return AnyGroups(self.random, {task: self.random.randrange(count) for task in rows})


@dataclass(frozen=True)
class AnyOrder:
    """`Workers` that make the calls one after the other, in any order."""

    random: Random
    free: int = 2

    def run(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """See `Workers`."""
        results: dict[int, Any] = {}
        for number in self.random.sample(range(len(calls)), len(calls)):
            results[number] = calls[number]()
        return [results[number] for number in range(len(calls))]
