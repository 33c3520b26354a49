"""Seeds in which windows close because a query is idle.

A sub-topology holds rows back until its windows close, which no row can bring about here: only the
decision of the runtime does. A row that was on the log when its window was closed must not be late,
wherever it was then: unread, held back by a run, or held back by another sub-topology or instance.
The number of a record is its time; `BLOCK` of them are a window.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from millstream.log.log import Appended, Fetched
from millstream.runtime.idle_closing import IdleClosing
from millstream.runtime.ports import Executor, RunResult
from millstream.runtime.subtopology_runner import SubTopologyRunner
from tests.simulation.faults import FaultyExecutor
from tests.simulation.pure import Job, PureExecutor, Rows, Shape, appended
from tests.simulation.world import Host, Mutant, Verdict, World

BLOCK = 16
CLOCK, BOUND = -1, -2
"""Keys of the state besides the numbers of records: up to which time windows are closed, and up to
when everything that was sent had to be there."""
RELEASED, LATE, LOST = -1, -2, -3
"""What became of a record; its key while it is held back. LOST: late by a decision that should have
waited for it."""
LAG_INTERVAL_MS = 5

HELD = Job(("rep",), "out", changelog="changelog")
CLOSING_SHAPES = (
    Shape("held", (Job(("in",), "rep", rekey=True), HELD), ("in",), by_key=False),
    Shape("held in lanes", (Job(("in",), "rep", rekey=True, channels=True), HELD), ("in",), False),
    Shape(
        "held twice", (Job(("in",), "rep", rekey=True, changelog="before"), HELD), ("in",), False
    ),
    Shape(
        "held twice in lanes",
        (Job(("in",), "rep", rekey=True, changelog="before", channels=True), HELD),
        ("in",),
        False,
    ),
    Shape("held by key", (Job(("in",), "out", changelog="changelog"),), ("in",), by_key=True),
)


class HoldingExecutor(PureExecutor):
    """Holds all rows back until their windows close."""

    def __init__(self, pure: PureExecutor, world: ClosingWorld, host: Host) -> None:
        super().__init__(pure.job, pure.partitions, pure.disk, pure.rnd, pure.hold)
        self.world = world
        self.host = host

    def hand_back(
        self, topic: str, partition: int, first: int, records: Sequence[Appended[Rows]]
    ) -> Sequence[Appended[Rows]]:
        return records

    def run(
        self, inputs: Sequence[Fetched[Rows]], *, together: bool = False, closing: bool = False
    ) -> RunResult[Rows]:
        if closing:
            assert not any(fetched.batch for fetched in inputs)
            return self._closed(together=together)
        consumed: dict[tuple[str, int], int] = {}
        ahead: dict[tuple[str, int], dict[int, int]] = {}
        for partition, key, number in self._taken(inputs, consumed, ahead):
            rows = self.state[partition]
            if number in rows:
                continue  # At least once, it may be sent again.
            fate = key
            if number // BLOCK <= rows.get(CLOCK, -1):
                fate = LOST if self.world.sent_at[number] < rows[BOUND] else LATE
            self._write(partition, number, fate)
        return RunResult((), consumed, ahead=ahead)

    def _write(self, partition: int, number: int, fate: int) -> None:
        self.state[partition][number] = self.changes[partition][number] = fate

    def _closed(self, *, together: bool) -> RunResult[Rows]:
        outputs: dict[tuple[str, int], list[Any]] = {}
        for partition, rows in self.state.items():
            held = sorted((number, key) for number, key in rows.items() if key >= 0 <= number)
            for number, key in held:
                to = key % self.partitions if self.job.rekey else partition
                if self.job.channels and not together:
                    to += (partition + 1) * self.partitions
                outputs.setdefault((self.job.target, to), []).append((key, number))
                self._write(partition, number, RELEASED)
            if held:
                self._write(partition, CLOCK, held[-1][0] // BLOCK)
                self._write(partition, BOUND, self.world.bound(self.host))
                self.world.stats["closed"] += 1
        made = tuple(appended(at, rows) for at, rows in outputs.items())
        return RunResult(made, {}, closed=bool(made))


class ClosingMutant(Mutant):
    """A planted bug of the decision."""

    def __init__(self, kind: type[IdleClosing[Any]]) -> None:
        self.kind = kind


class ClosingWorld(World):
    """A world with a query that holds rows back."""

    def __init__(self, seed: int, mutant: ClosingMutant | None = None) -> None:
        self.sent_at: list[int] = []
        self.began: dict[int, int] = {}
        """When each host has begun its last step."""
        super().__init__(seed, mutant)
        self.closing = IdleClosing if mutant is None else mutant.kind
        self.settings = replace(self.settings, lag_interval_ms=LAG_INTERVAL_MS)
        self.idle_window_close_ms = self.rnd.choice((5, 20, 60))

    def choose_shape(self) -> Shape:
        return self.rnd.choice(CLOSING_SHAPES)

    def holds_results(self, job: Job) -> bool:
        return job.changelog is not None

    def executor(self, job: int, host: Host) -> Executor[Any]:
        shape = self.shape.jobs[job]
        pure = PureExecutor(shape, self.partitions, host.disks[job], self.rnd, self.hold)
        holding = HoldingExecutor(pure, self, host) if shape.changelog else pure
        return FaultyExecutor(holding, self)

    def start(self, host: Host) -> None:
        super().start(host)
        assert host.instance is not None
        for execution in host.instance._queries.values():
            execution.closing.__class__ = self.closing

    def turn(self, host: Host) -> None:
        self.began[host.number] = self.now
        super().turn(host)

    def bound(self, host: Host) -> int:
        """Records that were sent before this time must have been read when a host closes windows.
        What other instances have read is known a lag interval later."""
        delay = 0 if self.coordinator is None else LAG_INTERVAL_MS
        return self.began[host.number] - delay

    def batch(self, key: int, payload: int) -> Any:
        self.sent_at.append(self.now)
        return super().batch(key, payload)

    def _done(self, host: Host) -> bool:
        if host.instance is None or not super()._done(host):
            return False
        (query,) = host.instance._queries.values()
        return not any(runner.open_windows for runner in query.runners)

    def judged(self) -> Iterator[str]:
        fates: dict[int, int] = {}
        for job in self.shape.jobs:
            if job.changelog is not None:
                before, fates = fates, self._fates(job.changelog)
                fates |= {number: fate for number, fate in before.items() if fate != RELEASED}
        for number in range(self.sent):
            fate = fates.get(number)
            if fate is None:
                yield f"record {number} was lost"
            elif fate == LOST:
                yield f"record {number} was late by a decision that came after it"
            elif fate >= 0:
                yield f"record {number} is held back for ever"
        wanted = Counter(number for number, fate in fates.items() if fate == RELEASED)
        got = Counter(number for rows in self.rows("out") for _, number in rows)
        if wanted - got:
            yield f"released, but not written: {sorted(wanted - got)[:8]}"
        if self.exactly_once and got - wanted:
            yield f"written, but not released: {sorted(got - wanted)[:8]}"

    def _fates(self, changelog: str) -> dict[int, int]:
        rows = (row for rows in self.rows(changelog) for row in rows)
        return {number: fate for number, fate in rows if number >= 0}


class AheadOfHeldRows(IdleClosing[Any]):
    """A watermark that runs ahead of the rows that a sub-topology before holds back."""

    def due(self, now: int, since: int) -> Iterator[SubTopologyRunner[Any]]:
        return iter(tuple(super().due(now, since))[::-1])

    def _closes(self, runner: SubTopologyRunner[Any]) -> bool:
        return runner.open_windows


class AheadOfTheInput(IdleClosing[Any]):
    """Does not look whether there is more to read, or rows are held back."""

    def _idle(self, now: int) -> bool:
        return self._runners.remote_upstreams.idle(now) and not any(
            runner.buffered for runner in self._runners
        )


class AheadOfOthers(IdleClosing[Any]):
    """Does not look what other instances have yet to do."""

    def _idle(self, now: int) -> bool:
        return all(runner.idle for runner in self._runners)


CLOSING_MUTANTS = {
    "a watermark that runs ahead of held rows": ClosingMutant(AheadOfHeldRows),
    "windows closed before the input is read": ClosingMutant(AheadOfTheInput),
    "windows closed before other instances are done": ClosingMutant(AheadOfOthers),
}
"""By name, the fault of each."""


def play_closing(seed: int, mutant: ClosingMutant | None = None) -> Verdict:
    """One seed, from nothing to verdict."""
    return ClosingWorld(seed, mutant).run()
