"""Which sliding windows each row falls into, by keys and times alone.

A window is as long as the size says, with both of its bounds. There is one for each set of rows of
a key that can be in one: the window that ends at a row, and the one that begins right behind it, if
that is not empty (KIP-450). A row is added to the windows around it, and creates up to three: its
own, the one behind the row before it, and the one behind itself. A new window begins with the
earlier rows that are in it, its *seeds*.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise, repeat

import pyarrow as pa

from millstream.model.batch import ROWTIME, SEQ

ARRIVAL = "$arrival"
PAIRS = pa.schema(
    [
        pa.field("$group", pa.int64()),
        pa.field(ARRIVAL, pa.int64()),
        pa.field("WINDOWSTART", pa.int64()),
        pa.field("$at", pa.int64()),
    ]
)
"""One row for each pair of a row and a window that it is added to, in this run. `$at`: the number
of the row whose arrival changes the result of the window; None while a new window gets its
seeds."""


@dataclass(slots=True)
class _Group:
    """The rows of one key so far, and its windows."""

    size: int
    rows: list[tuple[int, int]] = field(default_factory=list)
    """Time and arrival, in the order of the times."""
    starts: list[int] = field(default_factory=list)
    """The starts of its windows, in order."""

    @staticmethod
    def of(size: int, rows: list[tuple[int, int]]) -> _Group:
        """With rows of earlier runs, in the order of their times: their windows follow from them,
        as far as they are open."""
        starts = {max(time - size, 0) for time, _ in rows}
        starts |= {
            time + 1 for (time, _), (later, _) in pairwise(rows) if time < later <= time + 1 + size
        }
        return _Group(size, rows, sorted(starts))

    def has(self, start: int) -> bool:
        """Whether there is a window."""
        place = bisect_left(self.starts, start)
        return place < len(self.starts) and self.starts[place] == start

    def within(self, start: int) -> list[int]:
        """The arrivals of the rows in a window, in order."""
        first = bisect_left(self.rows, (start, -1))
        last = bisect_left(self.rows, (start + self.size + 1, -1))
        return sorted(arrival for _, arrival in self.rows[first:last])

    def around(self, time: int, oldest: int) -> list[int]:
        """The starts of the windows around a time, from the oldest one that is open on."""
        first = bisect_left(self.starts, max(time - self.size, oldest, 0))
        return self.starts[first : bisect_right(self.starts, time)]

    def missing(self, time: int, oldest: int) -> list[int]:
        """The starts of the windows that a row at a time creates."""
        place = bisect_left(self.rows, (time, -1))
        wanted = [max(time - self.size, 0)]
        if place:
            wanted.append(self.rows[place - 1][0] + 1)
        found = [s for s in wanted if s + self.size >= time and s >= oldest and not self.has(s)]
        return sorted(set(found))

    def behind(self, time: int, oldest: int) -> int | None:
        """The start of the window right behind a row, if it is missing and not empty."""
        start = time + 1
        if start < oldest or self.has(start):
            return None
        place = bisect_left(self.rows, (start, -1))
        full = place < len(self.rows) and self.rows[place][0] <= start + self.size
        return start if full else None


@dataclass(slots=True)
class _Pairs:
    """The columns of `PAIRS`."""

    group: list[int] = field(default_factory=list)
    arrival: list[int] = field(default_factory=list)
    start: list[int] = field(default_factory=list)
    at: list[int | None] = field(default_factory=list)

    def to_windows(self, group: int, arrival: int, starts: list[int], at: int) -> None:
        """One row to many windows."""
        self.group += repeat(group, len(starts))
        self.arrival += repeat(arrival, len(starts))
        self.start += starts
        self.at += repeat(at, len(starts))

    def seeds(self, group: int, arrivals: list[int], start: int, at: int | None) -> None:
        """Many rows to one window, which changes with the last of them if `at` is given."""
        self.group += repeat(group, len(arrivals))
        self.arrival += arrivals
        self.start += repeat(start, len(arrivals))
        self.at += repeat(None, len(arrivals) - 1)
        if arrivals:
            self.at.append(at)


def sliding_plan(
    rows: str, stored: str, size: int, grace: int
) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    """The function of a Call: from the rows of a run in `$seq` order (with `$group`, `$arrival` and
    `$time`), and those of earlier runs near them, to `PAIRS`."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        groups, pairs = _known(relations[stored], size), _Pairs()
        given = relations[rows].select(["$group", ROWTIME, ARRIVAL, SEQ, "$time"])
        for number, time, arrival, seq, now in zip(
            *(column.to_pylist() for column in given.columns), strict=True
        ):
            group = groups.setdefault(number, _Group(size))
            _add(group, pairs, (number, time, arrival, seq), now - grace - size)
        columns = (pairs.group, pairs.arrival, pairs.start, pairs.at)
        return pa.Table.from_arrays([pa.array(c, pa.int64()) for c in columns], schema=PAIRS)

    return run


def _known(stored: pa.Table, size: int) -> dict[int, _Group]:
    rows: dict[int, list[tuple[int, int]]] = {}
    columns = (stored[name].to_pylist() for name in ("$group", ROWTIME, ARRIVAL))
    for number, time, arrival in zip(*columns, strict=True):
        rows.setdefault(number, []).append((time, arrival))
    return {number: _Group.of(size, sorted(own)) for number, own in rows.items()}


def _add(group: _Group, pairs: _Pairs, row: tuple[int, int, int, int], oldest: int) -> None:
    """Add a row to its windows. `oldest`: the start of the oldest window that is open."""
    number, time, arrival, seq = row
    created = group.missing(time, oldest)
    for start in created:
        pairs.seeds(number, group.within(start), start, None)
        insort(group.starts, start)
    pairs.to_windows(number, arrival, group.around(time, oldest), seq)
    behind = group.behind(time, oldest)
    if behind is not None:
        pairs.seeds(number, group.within(behind), behind, seq)
        insort(group.starts, behind)
    insort(group.rows, (time, arrival))
