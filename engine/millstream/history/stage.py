"""One sub-topology of a bounded run, independent of where its tasks run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain

import pyarrow as pa

from millstream.history.exchange import Cell, Exchange
from millstream.history.reading import ReadChunk, Source, pieces_of
from millstream.history.splits import Run, Split, read_by
from millstream.history.task import Produced, TaskKind, run_task
from millstream.history.workspace import Workspace
from millstream.log.log import Appended, TopicPartition
from millstream.topology.topology import SourceInput, with_one_more_channel


@dataclass(frozen=True, slots=True)
class Stage:
    """The tasks of a sub-topology: plain data that is sent to the processes that run them."""

    kind: TaskKind
    splits: Mapping[TopicPartition, Split]
    """The splits of its own inputs and changelog."""

    def run(
        self, partition: int, cells: Iterator[Cell], source: Source, workspace: Workspace
    ) -> Iterator[Produced]:
        """Run one task. `cells`: its input from earlier stages, in order."""
        first = next(cells, None)
        if first is None and self.idle(partition):
            return iter(())
        tasks = self.kind.sub.partitions
        splits = {
            place: split for place, split in self.splits.items() if place[1] % tasks == partition
        }
        cells = cells if first is None else chain([first], cells)
        pieces = self._pieces(partition, cells, splits, source)
        return run_task(self.kind, partition, pieces, splits, workspace)

    def idle(self, partition: int) -> bool:
        """Whether a task reads only what other tasks send to it."""
        places = read_by(self.kind.sub, partition)
        read = (self.splits[place] for place in places if place in self.splits)
        return all(split.start >= split.end for split in read)

    def _pieces(
        self,
        partition: int,
        cells: Iterator[Cell],
        splits: Mapping[TopicPartition, Split],
        source: Source,
    ) -> dict[TopicPartition, Iterator[ReadChunk]]:
        """The input of a task. Cells are ordered already. Where instances use exchange channels,
        cells come in a channel of their own: earlier rows are still in the others."""
        sub = self.kind.sub
        moved = [item.topic for item in sub.inputs if not isinstance(item, SourceInput)]
        pieces = {place: pieces_of(source, splits.get(place)) for place in read_by(sub, partition)}
        exchange = Exchange(cells, moved)
        for topic in moved:
            *_, place = (place for place in pieces if place[0] == topic)
            end = splits[place].end if place in splits else 0
            pieces[place] = chain(pieces[place], exchange.pieces(topic, end))
        changelog = (str(sub.changelog), partition)
        if changelog in splits:
            pieces[changelog] = source.pieces(splits[changelog])
        return pieces


def stages(run: Run) -> tuple[Stage, ...]:
    """The stages of a run, each after those that send to it."""
    return tuple(
        Stage(
            TaskKind(
                run.topology.query_id,
                with_one_more_channel(sub if run.changes else replace(sub, changelog=None)),
                run.widths_of(sub),
                run.cached,
                run.fatal,
                run.by_arrival,
                run.pace,
                run.limit if sub is run.topology.subtopologies[-1] else None,
                run.memory_limit,
                run.schemas,
            ),
            {
                place: split
                for place, split in run.splits.items()
                if place[0] in (sub.changelog, *(item.topic for item in sub.inputs))
            },
        )
        for sub in run.topology.subtopologies
    )


def cell_of(appended: Appended[pa.Table], sender: int, number: int) -> Cell:
    """The cells that a task has sent to another one."""
    (content,) = appended.batch["value"].to_pylist()
    (moment,) = appended.batch["timestamp"].to_pylist()
    return Cell(appended.topic, appended.partition, moment, sender, number, content)
