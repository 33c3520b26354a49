"""The status of a query, for callers outside the runtime."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from millstream.log.log import Batch, TopicPartition
from millstream.runtime.query_runner import QueryRunner
from millstream.runtime.spec import QueryStatus, SubTopologyStatus, TaskStatus
from millstream.runtime.subtopology_runner import SubTopologyRunner
from millstream.runtime.tasks import Task


def status_of(execution: QueryRunner[Batch], ends: Mapping[TopicPartition, int]) -> QueryStatus:
    """A snapshot of a query. `ends`: of its inputs, as far as the log could report them.

    It may be taken while another thread runs the query: the figures are all recent, though not of
    the same instant."""
    positions = execution.positions()
    lag = {
        topic_partition: max(0, ends[topic_partition] - position) if topic_partition in ends else -1
        for topic_partition, position in positions.items()
    } | execution.runners.hand_over.lag(positions)
    return QueryStatus(
        query_id=execution.spec.query_id,
        state=execution.state,
        transient=execution.spec.transient,
        error=execution.retry_state.error,
        code=execution.retry_state.code,
        tasks=tasks_of(execution),
        positions=positions,
        lag=lag,
        metrics=replace(execution.metrics),
        sub_topologies=tuple(_sub_topology(runner, lag) for runner in execution.runners),
    )


def tasks_of(execution: QueryRunner[Batch]) -> tuple[TaskStatus, ...]:
    """The tasks of a query that are open here."""
    return tuple(
        TaskStatus(task.id, task.state, _to_restore(task), task.restored)
        for runner in execution.runners
        for task in tuple(runner.tasks.values())
    )


def _sub_topology(
    runner: SubTopologyRunner[Batch], lag: Mapping[TopicPartition, int]
) -> SubTopologyStatus:
    own = [lag.get(topic_partition, -1) for topic_partition in tuple(runner.positions)]
    return SubTopologyStatus(
        runner.index,
        runner.spec.inputs,
        runner.spec.outputs,
        len(runner.tasks),
        -1 if -1 in own else sum(own),
        sum(_to_restore(task) for task in tuple(runner.tasks.values())),
        replace(runner.metrics, calls=runner.metrics.calls.of(tuple(runner.tasks))),
    )


def _to_restore(task: Task) -> int:
    return max(0, task.target - task.restored)
