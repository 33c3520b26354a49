"""What the runtime needs from outside, besides the log: an executor for each sub-topology, for
those whose state is followed elsewhere a replica, and who does that.

The runtime never looks into a batch. Production hands in DuckDB executors and Arrow tables, most
simulations hand in small pure-Python ones and lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from millstream.log.log import Appended, Batch, Fetched
from millstream.model.event_time import END
from millstream.model.problem import Problem


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Batch]):
    """What one run did. `consumed` maps (topic, partition) to the position reached, which may be
    short of what was handed in (input held back until another partition catches up): what was
    left is read again and handed in with the next run. A partition that is missing from it was
    not consumed at all.

    `watermark`: the event time up to which everything is consumed that the partitions will bring;
    END where all were at their ends. `first`: the least event time of what was consumed. `kept`:
    bytes of output that will leave with `flush`.
    """

    outputs: tuple[Appended[Batch], ...]
    consumed: Mapping[tuple[str, int], int]
    problems: tuple[Problem, ...] = ()
    watermark: int = END
    first: int = END
    kept: int = 0

    @property
    def productive(self) -> bool:
        """Whether it made any output, handed out or kept."""
        return bool(self.outputs) or self.kept > 0


@dataclass(frozen=True, slots=True)
class Snapshots:
    """What a flush did to shorten changelogs: partitions of which it wrote the first piece of a
    snapshot, and those of which it wrote the last one (perhaps the same one). Once the last piece
    is committed, nothing that lay on the changelog before the first one is needed any more."""

    begun: frozenset[int] = frozenset()
    complete: frozenset[int] = frozenset()


class Executor(Protocol[Batch]):
    """Runs one sub-topology for all partitions its thread holds. State changes stay invisible and
    undoable until `commit`.

    ```
    open(p) -> clear(p)? -> restore(p, ..)* -> run* -> flush -> commit -> run* -> ...     -> close
                    any time: discard, then open(p) again
    ```
    """

    def open(self, partition: int) -> int:
        """Take a partition; returns the changelog position its stored state corresponds to
        (0 without state)."""

    def restore(self, partition: int, fetched: Fetched[Batch]) -> None:
        """Apply changelog records; `fetched.next_offset` becomes the position. The same records
        may come again after a crash: the last one of a key wins."""

    def clear(self, partition: int, position: int) -> None:
        """Forget the state of a partition that is being restored: what it misses is no longer on
        the changelog, whose records from `position` on tell everything."""

    def run(self, inputs: Sequence[Fetched[Batch]], *, together: bool = False) -> RunResult[Batch]:
        """Process records of any of the restored partitions. `together`: what it sends through
        lanes goes into the first of them, whichever task sends it.

        There is exactly one `Fetched` for each input topic and restored partition, ordered by
        partition and then in the order of the inputs; it may hold no record, and then its `end`
        says that nothing more is there to wait for, and its `until` up to when nothing more is.
        Raises MillstreamError for what stops the query; nothing of the run may then be kept (the
        runtime calls `discard`).
        """

    def flush(self) -> tuple[Appended[Batch], ...]:
        """At the commit barrier: outputs that were kept, then the changelog of all changes since
        the last commit, then perhaps a piece of a snapshot, also on the changelog."""

    def snapshots(self) -> Snapshots:
        """The snapshots that the last flush began or completed."""

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """Make the state durable together with the changelog position of each open partition
        (of a restoring one: the position restored to; without a changelog: 0).
        Called only after the log has committed."""

    def discard(self) -> None:
        """Forget everything not committed; all partitions are closed and must be opened again."""

    def close(self) -> None:
        """Release resources; idempotent."""


class Replica(Protocol[Batch]):
    """Follows the changelogs of a sub-topology into the state that its executor works on: the part
    of
    `Executor` that replaying takes, so that an executor of its own can serve. It may be used while
    the executor processes other partitions; one partition is never open on both sides.

    ```
    open(p) -> clear(p)? -> (restore(p, ..) -> commit)* -> open(p) again, or never more
                    any time: discard, then open(p) again
    ```
    """

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
        """Those of the partitions `wanted` that the caller may open now; it holds them until it
        asks without them. The others are being replayed: ask again when told that one is ready.

        To be called when the claim has changed, with all that is claimed, those that are open
        included, after the others were committed (or dropped) and closed; and on each waking for
        which something is missing. What is granted is nearly up to date, not quite: opening it
        has to replay the rest. A transaction that was begun before the call does not see the
        state that is granted by it. Never waits.
        """


class NoRestorer:
    """Leaves all replaying to who processes."""

    def prepare(self, query_id: str, wanted: frozenset[int]) -> frozenset[int]:
        """See `Restorer`."""
        return wanted
