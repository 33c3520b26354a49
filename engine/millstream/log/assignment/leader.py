"""What the leader of a service does: it makes the assignments."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from millstream.log.assignment.agreement import next_assignment
from millstream.log.assignment.group_assignment import (
    Copies,
    GroupAssignment,
    Limits,
    instance_of,
)
from millstream.log.assignment.member_tasks import MemberTasks


@dataclass(frozen=True, slots=True)
class _Situation:
    """What an assignment depends on. `probe`: grows with time while copies are brought up to
    date."""

    read: int
    starting: frozenset[str]
    probe: int


class Leader:
    """Makes an assignment when the situation has changed; times are in seconds."""

    def __init__(
        self,
        copies: Callable[[Collection[str]], Copies],
        limits: Limits,
        *,
        restart_seconds: float,
        probing_seconds: float,
    ) -> None:
        """`copies`: where the members have the state of tasks at the moment; called only to make an
        assignment, and must not block. `limits`: see there. `restart_seconds`: how long an
        instance that comes back may take to run its queries again. `probing_seconds`: how often to
        look whether copies are up to date."""
        self._copies = copies
        self._limits = limits
        self._restart_seconds = restart_seconds
        self._probing_seconds = probing_seconds
        self._considered: _Situation | None = None
        self._seen: dict[str, float] = {}
        """Since when this leader has known each member."""

    def retry(self) -> None:
        """Make the last assignment again: it may not have been written."""
        self._considered = None

    def stop(self) -> None:
        """Another member is the leader now."""
        self._considered = None
        self._seen.clear()

    def next(self, tasks: MemberTasks, now: float) -> GroupAssignment | None:
        """The assignment to write now, if any."""
        self._seen = {name: self._seen.get(name, now) for name in tasks.owners.members}
        starting = frozenset(
            instance_of(name)
            for name, since in self._seen.items()
            if instance_of(name) and now < since + self._restart_seconds
        )
        probe = int(now / self._probing_seconds) if tasks.known.assignment.warmups else 0
        situation = _Situation(tasks.known.read, starting, probe)
        if situation == self._considered:
            return None
        self._considered = situation
        copies = self._copies(tasks.owners.members)
        return next_assignment(tasks.known, copies, self._limits, starting)
