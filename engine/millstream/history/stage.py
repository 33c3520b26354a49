"""One sub-topology of a bounded run, whoever runs its tasks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import pyarrow as pa

from millstream.functions.function import Catalogue
from millstream.history.exchange import Cell, Exchange
from millstream.history.reading import Source, pieces_of
from millstream.history.splits import Run, Split
from millstream.history.task import Produced, TaskKind, run_task
from millstream.log.log import Appended, TopicPartition
from millstream.topology.topology import SourceInput


@dataclass(frozen=True, slots=True)
class Stage:
    """The tasks of a sub-topology: plain data that travels to who runs them."""

    kind: TaskKind
    splits: Mapping[TopicPartition, Split]
    """Those of its own sources."""

    def run(
        self, partition: int, cells: Iterator[Cell], source: Source, functions: Catalogue
    ) -> Iterator[Produced]:
        """Run one task. `cells`: what the stages before it have sent to it, in order."""
        inputs = self.kind.sub.inputs
        read = [item.topic for item in inputs if isinstance(item, SourceInput)]
        moved = [item.topic for item in inputs if not isinstance(item, SourceInput)]
        splits = {topic: self.splits.get((topic, partition)) for topic in read}
        exchange = Exchange(cells, moved)
        pieces = {topic: pieces_of(source, split) for topic, split in splits.items()}
        pieces |= {topic: exchange.pieces(topic) for topic in moved}
        starts = {topic: split.start for topic, split in splits.items() if split is not None}
        return run_task(self.kind, partition, pieces, starts, functions)


def stages(run: Run) -> tuple[Stage, ...]:
    """The stages of a run, each behind those that send to it."""
    return tuple(
        Stage(
            TaskKind(
                run.topology.query_id,
                sub if run.changes else replace(sub, changelog=None),
                run.widths_of(sub),
                run.cached,
                run.fatal,
            ),
            {
                place: split
                for place, split in run.splits.items()
                if any(isinstance(i, SourceInput) and i.topic == place[0] for i in sub.inputs)
            },
        )
        for sub in run.topology.subtopologies
    )


def cell_of(appended: Appended[pa.Table], sender: int, number: int) -> Cell:
    """What a task has sent to another one."""
    (content,) = appended.batch["value"].to_pylist()
    (moment,) = appended.batch["timestamp"].to_pylist()
    return Cell(appended.topic, appended.partition, moment, sender, number, content)
