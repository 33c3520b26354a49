"""Tasks: one partition of one sub-topology, and the states it goes through.

```
            open          changelog replayed
  CREATED ------> RESTORING ---------> RUNNING
     |              |   ^                 |
     |        pause |   | resume          | pause
     |              v   |                 |
     |            SUSPENDED <-------------+
     v                |
  CLOSED <------------+     (and from RESTORING and RUNNING: fenced, failed, discarded)
```
A closed task never comes back: opening again makes a new one.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


@dataclass(frozen=True, slots=True, order=True)
class TaskId:
    """Sub-topology and partition, printed `0_3`."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"


class TaskState(Enum):
    """The state of a task; the picture above shows the legal transitions."""

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    CLOSED = "CLOSED"


LEGAL: dict[TaskState, frozenset[TaskState]] = {
    TaskState.CREATED: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.RESTORING: frozenset({TaskState.RUNNING, TaskState.SUSPENDED, TaskState.CLOSED}),
    TaskState.RUNNING: frozenset({TaskState.SUSPENDED, TaskState.CLOSED}),
    TaskState.SUSPENDED: frozenset({TaskState.RESTORING, TaskState.CLOSED}),
    TaskState.CLOSED: frozenset(),
}


class IllegalTransitionError(RuntimeError):
    """A transition that the picture does not show: a bug of the runtime."""


@dataclass(slots=True)
class Task:
    """One task's state and how far its changelog is replayed.

    `restored` is the changelog position that its state corresponds to, `target` the one to reach
    before it may run; both are 0 without a changelog.
    """

    id: TaskId
    state: TaskState = TaskState.CREATED
    restored: int = 0
    target: int = 0

    def move(self, state: TaskState) -> None:
        """Change state; raises IllegalTransitionError for a move that is not in the picture."""
        if state not in LEGAL[self.state]:
            raise IllegalTransitionError(
                f"Task {self.id} cannot go from {self.state.value} to {state.value}"
            )
        self.state = state

    def suspend(self) -> None:
        """Pause the task, keeping its state and position."""
        if self.state in (TaskState.RESTORING, TaskState.RUNNING):
            self.move(TaskState.SUSPENDED)

    def resume(self) -> None:
        """Continue where `suspend` stopped: with the replay if it was not finished."""
        if self.state is TaskState.SUSPENDED:
            self.move(TaskState.RESTORING)
            self.arrive()

    def arrive(self) -> None:
        """Start running if the changelog is replayed up to the target."""
        if self.state is TaskState.RESTORING and self.restored >= self.target:
            self.move(TaskState.RUNNING)

    def close(self) -> None:
        """Close it for good; no error when closed already."""
        if self.state is not TaskState.CLOSED:
            self.move(TaskState.CLOSED)
