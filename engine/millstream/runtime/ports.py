"""What the runtime needs from outside, besides the log: a kernel for each sub-topology.

The runtime never looks into a batch. Production hands in DuckDB kernels and Arrow tables, most
simulations hand in small pure-Python ones and lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from millstream.log.log import Appended, Batch, Fetched
from millstream.model.problem import Problem


@dataclass(frozen=True, slots=True)
class RunResult(Generic[Batch]):
    """What one run did. `consumed` maps (topic, partition) to the position reached, which may be
    short of what was handed in (input held back until another partition catches up)."""

    outputs: tuple[Appended[Batch], ...]
    consumed: Mapping[tuple[str, int], int]
    problems: tuple[Problem, ...] = ()


class Kernel(Protocol[Batch]):
    """Runs one sub-topology for all partitions its thread holds. State changes stay invisible and
    undoable until `commit`."""

    def open(self, partition: int) -> int:
        """Take a partition; returns the changelog position its stored state corresponds to."""

    def restore(self, partition: int, fetched: Fetched[Batch]) -> None:
        """Apply changelog records; `fetched.next_offset` becomes the position."""

    def run(self, inputs: Sequence[Fetched[Batch]]) -> RunResult[Batch]:
        """Process records of any of the open partitions. Raises MillstreamError for what stops
        the query; nothing of the run may then be kept (call `discard`)."""

    def flush(self) -> tuple[Appended[Batch], ...]:
        """At the commit barrier: coalesced outputs, then the changelog of all changes since the
        last commit."""

    def commit(self, changelog_positions: Mapping[int, int]) -> None:
        """Make the state durable together with the changelog position of each partition.
        Called only after the log has committed."""

    def discard(self) -> None:
        """Forget everything not committed; all partitions are closed and must be opened again."""

    def close(self) -> None:
        """Release resources; idempotent."""
