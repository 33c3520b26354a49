"""Whether another process has the name of this instance."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Collection

from millstream.log.assignment.group_assignment import instance_of, member_name
from millstream.model.errors import FencedError

_SUCCESSOR_SECONDS = 4.0
"""How soon the other processes detect a running process."""
_RELEASE_SECONDS = 60.0
"""How long a name that the broker considers in use may belong to an earlier process of this
instance."""
_LOOK_SECONDS = 0.1


class NameDispute:
    """What the brokers have said of the name of this instance, and what is true of it."""

    def __init__(self, instance: str, process: str, superseded: Callable[[], bool]) -> None:
        """`process`: the incarnation. `superseded`: see `Membership`."""
        self.instance = instance
        self._process = process
        self._superseded = superseded
        self._unreleased_since: float | None = None

    def new_member(self) -> str:
        """A name for this process as a member, which none has had before."""
        return member_name(self.instance, self._process, secrets.token_hex(8))

    def over(self) -> None:
        """The brokers have taken this process as the one of the name."""
        self._unreleased_since = None

    def unreleased_for_long(self) -> bool:
        """The broker may not have detected yet that an earlier process of this name has ended."""
        now = time.monotonic()
        self._unreleased_since = self._unreleased_since or now
        return now > self._unreleased_since + _RELEASE_SECONDS

    def has_successor(self, closing: Callable[[], bool]) -> bool:
        """Whether another process has our name. A join request that was sent twice, because the
        response was slow, also makes the brokers report a second process."""
        deadline = time.monotonic() + _SUCCESSOR_SECONDS
        while not closing() and time.monotonic() < deadline:
            if self._superseded():
                return True
            time.sleep(_LOOK_SECONDS)
        return False

    def taken(self, members: Collection[str], closing: Callable[[], bool]) -> bool:
        """Whether another process of the name is among the members, after this one was removed."""
        instances = {instance_of(member) for member in members}
        return bool(self.instance) and self.instance in instances and self.has_successor(closing)

    def error(self) -> FencedError:
        """The error for the process that has to stop."""
        return FencedError(
            f"Another process runs with instance id '{self.instance}'",
            hint="Give each process an instance id of its own, or none.",
        )
