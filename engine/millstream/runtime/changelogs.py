"""Checks the position of a state on its changelog, and whether it can continue from there."""

from __future__ import annotations

from typing import Protocol

from millstream.log.log import Batch, Log
from millstream.model.errors import CorruptionError
from millstream.runtime.tasks import TaskId


class Clearing(Protocol):
    """The part of an executor or replica that discards state."""

    def clear(self, partition: int, position: int) -> None:
        """See `ports.Executor`."""


def check_position(task: TaskId, changelog: str, position: int, end: int) -> None:
    """Raise CorruptionError if a task's state is ahead of its changelog."""
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
    """The position to continue from. If the state lacks records that are deleted, a snapshot
    replaces them, and the state starts anew with the changelog's first record."""
    start = log.start_offset(changelog, partition)
    if position < start:
        state.clear(partition, start)
    return max(position, start)
