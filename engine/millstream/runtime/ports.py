"""The ports of the runtime besides the log: an executor for each sub-topology, a replica where its
state is followed elsewhere, the restorer that replays, and threads in the background.

The runtime never inspects a batch. Production passes DuckDB executors and Arrow tables, most
simulations pass small pure-Python ones and lists.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, Protocol

from millstream.log.log import Appended, Batch, Fetched
from millstream.model.event_time import END, NEVER
from millstream.model.problem import Problem
from millstream.runtime.calls import NO_CALLS, Calls


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Batch]):
    """The result of one run. `consumed` maps (topic, partition) to the position reached. It may be
    short of the input (records held back until another partition catches up); the rest is read
    again and passed to the next run. A partition that is missing from it was not consumed at all.

    `ahead`: in partitions whose records say who has sent them, the offsets before which those of a
    sender are consumed, for all senders for which that is behind the position in `consumed`.
    `watermark`: everything that the partitions will bring up to this event time is consumed; END
    where all were at their ends. `first`: the least event time consumed, or released by closing;
    `last`: the greatest one consumed.
    `kept`: bytes of output that will leave with `flush`. `closed`: whether a run that closes
    windows had any to close. `commits`: whether a processor has asked for a commit. `calls`:
    those of functions in Python.
    """

    outputs: tuple[Appended[Batch], ...]
    consumed: Mapping[tuple[str, int], int]
    problems: tuple[Problem, ...] = ()
    watermark: int = END
    first: int = END
    last: int = NEVER
    kept: int = 0
    closed: bool = False
    commits: bool = False
    calls: Calls = NO_CALLS
    ahead: Mapping[tuple[str, int], Mapping[int, int]] = field(default_factory=dict)

    @property
    def productive(self) -> bool:
        """Whether it made any output, returned or kept, or closed windows."""
        return bool(self.outputs) or self.kept > 0 or self.closed


@dataclass(frozen=True, slots=True)
class Snapshots:
    """What a flush did to compact changelogs: the partitions whose first snapshot piece it wrote,
    and those whose last piece it wrote (perhaps the same piece). Once the last piece is committed,
    everything on the changelog before the first one is obsolete."""

    begun: frozenset[int] = frozenset()
    complete: frozenset[int] = frozenset()


class Executor(Protocol[Batch]):
    """Runs one sub-topology for all partitions that its thread holds. State changes stay invisible,
    and can be undone, until `commit`.

    ```
    open(p) -> clear(p)? -> restore(p, ..)* -> run* -> flush -> commit -> run* -> ...     -> close
                    any time: discard, then open(p) again
    ```
    """

    def open(self, partition: int) -> int:
        """Open a partition; returns the changelog position that its stored state corresponds to (0
        without state)."""

    def restore(self, partition: int, fetched: Fetched[Batch]) -> None:
        """Apply changelog records; `fetched.next_offset` becomes the position. Records may repeat
        after a crash: the last one of a key wins."""

    def clear(self, partition: int, position: int) -> None:
        """Discard the state of a partition that is being restored: the records it lacks are no
        longer on the changelog, whose records from `position` on are complete."""

    def run(
        self, inputs: Sequence[Fetched[Batch]], *, together: bool = False, closing: bool = False
    ) -> RunResult[Batch]:
        """Process records of any of the restored partitions. `together`: output to exchange
        channels goes into the first channel, whichever task sends it. `closing`: there are no
        records, and stream time passes everything that waits for it. The state holds the new stream
        time: rows below it are late from now on.

        There is exactly one `Fetched` for each input topic and restored partition, ordered by
        partition and then in the order of the inputs. It may hold no record; its `end` then says
        that nothing more is pending, and its `until` up to which time nothing is. Raises
        MillstreamError for an error that stops the query; nothing of the run may then be kept (the
        runtime calls `discard`).
        """

    def hand_back(
        self, topic: str, partition: int, first: int, records: Sequence[Appended[Batch]]
    ) -> Sequence[Appended[Batch]]:
        """Take note that records of a partition, which were handed over with the offsets from
        `first` on and are not all processed, will be read from the log instead, at other offsets.
        Returns what to write: the records without those rows of the first one that are processed.
        """

    def flush(self) -> tuple[Appended[Batch], ...]:
        """Return what to write at the commit barrier: kept outputs, then the changelog of all
        changes since the last commit, then perhaps a piece of a snapshot, also on the changelog."""

    def snapshots(self) -> Snapshots:
        """The snapshots that the last flush began or completed."""

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """Make the state durable together with the changelog position of each open partition
        (of a restoring one: the position restored to; without a changelog: 0).
        Called only after the log has committed."""

    def discard(self) -> None:
        """Discard everything that is not committed; all partitions are closed and must be opened
        again."""

    def close(self) -> None:
        """Release resources; idempotent."""


class Punctuator(Protocol):
    """The part of an executor that calls functions by the clock of the wall."""

    @property
    def interval_ms(self) -> int:
        """How often a function may be due."""

    def punctuate(self, now: int) -> None:
        """With the next run, which may have no records, call the functions that are due, for all
        open partitions. The result is `closed` if they have done anything."""


class Replica(Protocol[Batch]):
    """Replays the changelogs of a sub-topology into the state that its executor works on. It is the
    part of `Executor` that replaying needs, so an executor of its own can serve. It may be used
    while the executor processes other partitions; one partition is never open on both sides.

    ```
    open(p) -> clear(p)? -> (restore(p, ..) -> commit)* -> open(p) again, or never more
                    any time: discard, then open(p) again
    ```
    """

    def position(self, partition: int) -> int:
        """How far the stored state of a partition is on its changelog; 0 without any. Changes
        nothing, and may be called at any time."""

    def open(self, partition: int) -> int:
        """See `Executor`; nothing stays open in the store when this returns."""

    def restore(self, partition: int, fetched: Fetched[Batch]) -> None:
        """See `Executor`."""

    def clear(self, partition: int, position: int) -> None:
        """See `Executor`; durable when this returns."""

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """Make what was restored durable together with these partitions' changelog positions."""

    def discard(self) -> None:
        """See `Executor`."""

    def close(self) -> None:
        """See `Executor`."""


class Restorer(Protocol):
    """Brings the state of tasks up to date before they are processed."""

    def prepare(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """The subset of the partitions `wanted` that the caller may open now; it holds them until
        it calls again without them. The others are being replayed: call again after the restorer
        reports one.

        Call this when the assignment has changed, with all assigned partitions including the open
        ones, after the others were committed (or dropped) and closed; and on each wake-up while
        partitions are missing. A granted partition is nearly up to date: opening it replays the
        rest. A transaction that began before the call does not see the state that the call grants.
        Never blocks.
        """


class NoRestorer:
    """Leaves all replaying to the query runner."""

    def prepare(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """See `Restorer`."""
        return wanted


class Started(Protocol):
    """A call that was started in the background."""

    def wait(self) -> None:
        """Return when it has ended; raises its error."""

    def give_up(self) -> None:
        """Have it never made, or, if it has begun, wait for its end; its error is dropped."""


class Background(Protocol):
    """Makes calls beside the caller."""

    def start(self, call: Callable[[], None], size: int) -> Started | None:
        """Start a call that writes `size` bytes, for the caller to wait for; None where it has been
        made here, because nothing would be gained. Its error is raised then."""


class NoBackground:
    """Makes each call where it is started."""

    def start(self, call: Callable[[], None], size: int) -> Started | None:
        """See `Background`."""
        call()
        return None
