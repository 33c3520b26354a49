"""Where a state stands on its changelog, and whether it can go on from there."""

from __future__ import annotations

from typing import Protocol

from millstream.log.log import Batch, Log
from millstream.model.errors import CorruptionError
from millstream.runtime.tasks import TaskId


class Clearing(Protocol):
    """The side of an executor or replica that forgets."""

    def clear(self, partition: int, position: int) -> None:
        """See `ports.Executor`."""


def check_position(task: TaskId, changelog: str, position: int, end: int) -> None:
    """CorruptionError if the state of a task has seen more than its changelog holds."""
    if position > end:
        raise CorruptionError(
            f"The state of task {task} is at {position} of changelog {changelog}, which ends at"
            f" {end}",
            hint="The state belongs to another log or the log was restored from an older"
            " copy. Delete the state to rebuild it from the changelog.",
            code="E-STATE-AHEAD",
        )


def skip_truncated(
    log: Log[Batch], state: Clearing, changelog: str, partition: int, position: int
) -> int:
    """The position to go on from: if the state lacks records that are gone, a snapshot has taken
    their place, and it starts anew with the changelog's first record."""
    start = log.start_offset(changelog, partition)
    if position < start:
        state.clear(partition, start)
    return max(position, start)
