"""A query as others see it."""

from __future__ import annotations

from dataclasses import replace

from millstream.log.log import Batch, TopicPartition
from millstream.model.errors import MillstreamError
from millstream.runtime.execution import Execution
from millstream.runtime.spec import QueryStatus, TaskStatus


def status_of(execution: Execution[Batch]) -> QueryStatus:
    """A snapshot of a query; asks the log for the ends of its inputs."""
    positions = execution.positions()
    return QueryStatus(
        query_id=execution.spec.query_id,
        state=execution.state,
        transient=execution.spec.transient,
        error=execution.error,
        code=execution.code,
        tasks=tuple(
            TaskStatus(task.id, task.state, max(0, task.target - task.restored))
            for stage in execution.stages
            for task in stage.tasks
        ),
        positions=positions,
        lag={place: _lag(execution, place, position) for place, position in positions.items()},
        metrics=replace(execution.metrics),
    )


def _lag(execution: Execution[Batch], place: TopicPartition, position: int) -> int:
    try:
        return max(0, execution.log.end_offset(*place) - position)
    except MillstreamError:
        return -1
