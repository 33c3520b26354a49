"""Collects the outputs of a query, which go to the log at once, with the commit, or to a client."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Generic

from millstream.log.log import Appended, Batch, Outcome, Participant, TopicPartition, Writer
from millstream.model.errors import MillstreamError
from millstream.runtime.hand_over import HandOver
from millstream.runtime.ports import Background, Started
from millstream.runtime.spec import Guarantee, QuerySpec, RuntimeSettings
from millstream.runtime.subtopology_runners import Flushed

CARRIED_BYTES = 64 << 10
"""Up to so much a transaction costs more than what it writes."""
ALONE_BYTES = 1 << 20
"""From so much on outputs are committed alone: the other queries of a round would wait for them."""


@dataclass(frozen=True, slots=True)
class Prepared(Generic[Batch]):
    """What a commit makes durable: the records flushed by each sub-topology, and positions."""

    flushed: Flushed[Batch]
    positions: dict[TopicPartition, int]

    @property
    def records(self) -> tuple[Appended[Batch], ...]:
        """The records of all sub-topologies."""
        return tuple(output for outputs in self.flushed for output in outputs)


class RecordCollector(Generic[Batch]):
    """The writer of one query, and the outputs that are buffered until its commit (exactly
    once)."""

    def __init__(
        self,
        spec: QuerySpec[Batch],
        open_writer: Callable[[], Writer[Batch]],
        background: Background,
        hand_over: HandOver[Batch],
    ) -> None:
        self.spec = spec
        self.hand_over = hand_over
        self._open_writer = open_writer
        self._background = background
        self._under_way: Started | None = None
        """The last outputs, if they may not be written yet."""
        self.pending: list[Appended[Batch]] = []
        self.kept = 0
        """Bytes of output that the executors buffer until the commit."""
        self._requested = False
        """Whether a processor has asked for a commit."""
        self._writer: Writer[Batch] | None = None

    def open(self) -> None:
        """Resolve what an earlier writer of the same identity left open, and fence it."""
        self._writer = self._open_writer()

    @property
    def writer(self) -> Writer[Batch]:
        """The query's writer; opened on first use."""
        if self._writer is None:
            self.open()
        assert self._writer is not None
        return self._writer

    @property
    def holds(self) -> bool:
        """Whether outputs are buffered for the commit."""
        return not self.spec.transient and self.spec.guarantee is Guarantee.EXACTLY_ONCE

    @property
    def holds_moved(self) -> bool:
        """The same of those that another sub-topology reads."""
        return self.holds and not self.hand_over.active

    def deliver(
        self,
        outputs: Sequence[Appended[Batch]],
        kept: int,
        *,
        soon: bool,
        commits: bool = False,
    ) -> None:
        """Collect the outputs of a run, note how many bytes the executor has buffered, and whether
        a processor asks for a commit. `soon`:
        a commit is near, so a few outputs wait for it, which then follows at once, and save a
        transaction; except those that another sub-topology reads before."""
        self.kept += kept
        self._requested |= commits
        outputs = self.hand_over.take(outputs)
        if self.spec.transient:
            self.hand_out(outputs)
        elif self.holds:
            self.pending.extend(outputs)
        elif self.pending or (soon and sum(output.bytes for output in outputs) <= CARRIED_BYTES):
            inner, outer = self._parted(outputs)
            self.pending.extend(outer)
            self._append(inner)
        else:
            inner, _ = self._parted(outputs)
            if inner:
                self._append(outputs)
            else:
                self._append_beside(outputs)

    def _append(self, outputs: Sequence[Appended[Batch]]) -> None:
        """Write outputs at once (at least once): after those before them, by the same writer."""
        if outputs:
            self._arrived()
            self._write(self.writer, outputs)

    def _append_beside(self, outputs: Sequence[Appended[Batch]]) -> None:
        """Write outputs that nothing in this query reads, while it goes on. They are on the log
        before the next ones, and before the positions behind their input."""
        if outputs:
            self._arrived()
            size = sum(output.bytes for output in outputs)
            # Here, because the writer may have to be opened.
            write = partial(self._write, self.writer, outputs)
            self._under_way = self._background.start(write, size)

    def _arrived(self) -> None:
        """Wait until all outputs are written. Raises the error of writing them."""
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.wait()

    def _write(self, writer: Writer[Batch], outputs: Sequence[Appended[Batch]]) -> None:
        streams = [output for output in outputs if output.topic in self.spec.streams]
        tables = [output for output in outputs if output.topic not in self.spec.streams]
        if streams:
            writer.send(streams)
        if tables:
            writer.append(tables)

    def hand_out(self, outputs: Iterable[Appended[Batch]]) -> None:
        """Deliver a transient query's outputs to its client; outputs between its sub-topologies go
        through the log unless they are handed over."""
        inner, outer = self._parted(self.hand_over.take(tuple(outputs)))
        if inner:
            self.writer.append(inner)
        if outer and self.spec.on_outputs is not None:
            self.spec.on_outputs(outer)

    def _parted(self, outputs: Sequence[Appended[Batch]]) -> tuple[list[Appended[Batch]], ...]:
        """The outputs on repartition topics, and the others."""
        inner = [output for output in outputs if output.topic in self.spec.repartitions]
        return inner, [output for output in outputs if output.topic not in self.spec.repartitions]

    def transact(
        self, flushed: tuple[Appended[Batch], ...], positions: dict[TopicPartition, int]
    ) -> Outcome:
        """Make everything up to `positions` durable. At least once, the outputs of runs are durable
        already; changelogs are still written in one transaction with the positions. Otherwise an
        instance that lost its tasks could overwrite what their new owner wrote."""
        self._arrived()
        return self.writer.transact(self.spec.group, (*self.pending, *flushed), positions)

    def participant(
        self, flushed: tuple[Appended[Batch], ...], positions: dict[TopicPartition, int]
    ) -> Participant[Batch]:
        """The same as a participant of a commit round."""
        self._arrived()
        return Participant(self.writer, self.spec.group, (*self.pending, *flushed), positions)

    @property
    def size(self) -> int:
        """About how many bytes of output are buffered."""
        return self.kept + self.hand_over.bytes + sum(output.bytes for output in self.pending)

    @property
    def large(self) -> bool:
        """Whether so much is buffered that it should not be committed with other queries."""
        return self.size >= ALONE_BYTES

    def full(self, settings: RuntimeSettings) -> bool:
        """Whether to commit before the interval is over: enough is buffered, a processor has asked
        for it, or outputs wait that would have been written at once."""
        if self._requested or (self.pending and not self.holds):
            return True
        records = sum(output.count for output in self.pending)
        return self.size > settings.max_pending_bytes or records > settings.max_pending_records

    def settled(self) -> None:
        """Note that nothing is buffered any more."""
        self.pending.clear()
        self.kept = 0
        self._requested = False

    def discard(self) -> None:
        """Drop the buffered outputs and close the writer."""
        self.settled()
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.give_up()
        writer, self._writer = self._writer, None
        if writer is not None:
            with suppress(MillstreamError):
                writer.close()
