"""Runs a bounded run in this process, one task after another."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from contextlib import ExitStack, closing

from millstream.functions.function import Catalogue
from millstream.history.exchange import Cell, in_order
from millstream.history.reading import Source
from millstream.history.splits import Run
from millstream.history.stage import Stage, cell_of, stages
from millstream.history.task import Produced
from millstream.history.workspace import Workspaces
from millstream.log.log import Appended


def run_local(
    run: Run, source: Source, functions: Catalogue, workspaces: Workspaces | None = None
) -> Iterator[Produced]:
    """The rows for the sink or the client, in the order in which they are produced.

    Rows between sub-topologies are buffered in memory, compressed. `workspaces`: those of an engine
    that has many runs. Raises the error that stops the query.
    """
    spools: dict[tuple[int, int], list[Cell]] = defaultdict(list)
    with ExitStack() as stack:
        if workspaces is None:
            workspaces = stack.enter_context(closing(Workspaces()))
        workspace = stack.enter_context(workspaces.lent(functions, run.memory_limit))
        for stage in stages(run):
            for partition in range(stage.kind.sub.partitions):
                cells = in_order(spools.pop((stage.kind.sub.index, partition), []))
                # No variable for the output: where a reader stops early, it would keep the task's
                # state in use until the workspace has been given back.
                yield from _kept(
                    stage.run(partition, iter(cells), source, workspace),
                    run,
                    stage,
                    partition,
                    spools,
                )


def _kept(
    made: Iterator[Produced],
    run: Run,
    stage: Stage,
    partition: int,
    spools: dict[tuple[int, int], list[Cell]],
) -> Iterator[Produced]:
    """Return the output; the rest is spooled for the sub-topology that reads it."""
    number = 0
    for item in made:
        if isinstance(item, Appended) and item.topic in run.inner:
            spools[run.reader_of(item.topic), item.partition].append(
                cell_of(item, partition, number)
            )
            number += 1
        else:
            yield item
