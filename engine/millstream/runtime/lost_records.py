"""Goes on behind records that were deleted before a query had read them."""

from __future__ import annotations

from millstream.log.log import Batch, Log, Reader
from millstream.model.errors import CorruptionError
from millstream.model.problem import Problem
from millstream.runtime.spec import QuerySpec, RuntimeSettings
from millstream.runtime.subtopology_runner import SubTopologyRunner


def poll(
    runner: SubTopologyRunner[Batch],
    spec: QuerySpec[Batch],
    reader: Reader[Batch],
    settings: RuntimeSettings,
    room: int,
    log: Log[Batch],
) -> tuple[Problem, ...]:
    """`SubTopologyRunner.poll`; if the query is to go on where records are gone that it has not
    read, what was lost."""
    try:
        runner.poll(reader, settings, room)
    except CorruptionError as error:
        lost = _skip(log, runner) if spec.skips_lost and error.code == "E-GAP" else ()
        if not lost:
            raise
        runner.poll(reader, settings, room)
        return lost
    return ()


def _skip(log: Log[Batch], runner: SubTopologyRunner[Batch]) -> tuple[Problem, ...]:
    """Move the tasks of a sub-topology to the earliest records that are left of the topics which
    the query does not write itself; what was lost, for the processing log."""
    problems = []
    for topic_partition, position in tuple(runner.positions.items()):
        topic, partition = topic_partition
        if topic in runner.channels.senders or topic_partition in runner.sender_buffers:
            continue
        known = runner.buffer.get(topic_partition)
        start = log.start_offset(topic, partition)
        if position >= start or (known is not None and known.count):
            continue
        runner.positions[topic_partition] = start
        runner.buffer.pop(topic_partition, None)
        lost = start - position
        message = (
            f"{lost} records were deleted before they were read: those of topic '{topic}',"
            f" partition {partition}, from offset {position} to {start - 1}"
        )
        problems.append(Problem("LOST", message, topic, partition, position, count=lost))
    return tuple(problems)
