"""The progress of a bounded run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import uuid4

if TYPE_CHECKING:
    from pyspark import SparkContext


@dataclass(frozen=True, slots=True)
class StageProgress:
    """`done` of `total` records or tasks."""

    name: str
    done: int
    total: int


def new_group() -> str:
    """A name for the jobs of a run, by which they are watched and cancelled."""
    return f"millstream-{uuid4().hex}"


def spark_stages(context: SparkContext, group: str) -> tuple[StageProgress, ...]:
    """How many tasks of each stage of the jobs of a group are done; none where the JVM has ended,
    for which the reader of its rows gets an error."""
    try:
        return tuple(_stages(context.statusTracker(), group))
    except Exception:
        return ()


def _stages(tracker: Any, group: str) -> Iterator[StageProgress]:
    for job in sorted(tracker.getJobIdsForGroup(group)):
        seen = tracker.getJobInfo(job)
        for number in sorted(seen.stageIds) if seen is not None else ():
            stage = tracker.getStageInfo(number)
            if stage is not None and stage.numTasks:
                done = min(stage.numCompletedTasks, stage.numTasks)
                yield StageProgress(f"stage {number}", done, stage.numTasks)
