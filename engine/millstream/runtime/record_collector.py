"""Where the outputs of a query go: to the log at once, with the commit, or to a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from typing import Generic

from millstream.log.log import Appended, Batch, Outcome, TopicPartition, Writer
from millstream.model.errors import MillstreamError
from millstream.runtime.spec import Guarantee, QuerySpec, RuntimeSettings


class RecordCollector(Generic[Batch]):
    """The writer of one query, and the outputs that wait for its commit (exactly once)."""

    def __init__(self, spec: QuerySpec[Batch], open_writer: Callable[[], Writer[Batch]]) -> None:
        self.spec = spec
        self._open_writer = open_writer
        self.pending: list[Appended[Batch]] = []
        self.kept = 0
        """Bytes of output that the executors keep until the commit."""
        self._writer: Writer[Batch] | None = None

    def open(self) -> None:
        """Settle what an earlier writer of the same identity left open, and fence it."""
        self._writer = self._open_writer()

    @property
    def writer(self) -> Writer[Batch]:
        """The query's writer; opened when it is first needed."""
        if self._writer is None:
            self.open()
        assert self._writer is not None
        return self._writer

    @property
    def holds(self) -> bool:
        """Whether outputs wait for the commit."""
        return not self.spec.transient and self.spec.guarantee is Guarantee.EXACTLY_ONCE

    def deliver(self, outputs: Sequence[Appended[Batch]], kept: int) -> None:
        """Take the outputs of a run, and note how many bytes of them the executor has kept."""
        self.kept += kept
        if self.spec.transient:
            self.hand_out(outputs)
        elif self.holds:
            self.pending.extend(outputs)
        elif outputs:
            self.writer.append(outputs)

    def hand_out(self, outputs: Iterable[Appended[Batch]]) -> None:
        """Give a transient query's outputs to its client; those between its sub-topologies go
        through the log."""
        outputs = tuple(outputs)
        inner = tuple(output for output in outputs if output.topic in self.spec.repartitions)
        outer = tuple(output for output in outputs if output.topic not in self.spec.repartitions)
        if inner:
            self.writer.append(inner)
        if outer and self.spec.on_outputs is not None:
            self.spec.on_outputs(outer)

    def transact(
        self, flushed: tuple[Appended[Batch], ...], positions: dict[TopicPartition, int]
    ) -> Outcome:
        """Make everything up to `positions` durable. At least once, the outputs of runs are so
        already; changelogs go with the positions there too, or somebody who has lost his tasks
        could still write over what their new owner wrote."""
        return self.writer.transact(self.spec.group, (*self.pending, *flushed), positions)

    def full(self, settings: RuntimeSettings) -> bool:
        """Whether so much is waiting that the commit should not wait for its time."""
        waiting = self.kept + sum(output.bytes for output in self.pending)
        records = sum(output.count for output in self.pending)
        return waiting > settings.max_pending_bytes or records > settings.max_pending_records

    def settled(self) -> None:
        """Nothing is waiting any more."""
        self.pending.clear()
        self.kept = 0

    def discard(self) -> None:
        """Drop what was waiting and give up the writer."""
        self.settled()
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(MillstreamError):
                writer.close()
