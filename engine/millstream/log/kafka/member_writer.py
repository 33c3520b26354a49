"""The writer of a member of a query's group on Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from millstream.log.kafka.writer import KafkaWriter
from millstream.log.log import Appended, Assignment, Outcome
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import FencedError, UnavailableError


class Holder(Protocol):
    """The owner of the assignment; see `KafkaMember`."""

    def assignment(self) -> Assignment:
        """The current assignment; raises FencedError when another process has the member's name."""
        ...

    def holds(self, epoch: int) -> bool:
        """Whether the assignment of `epoch` has not been lost."""
        ...


class MemberWriter:
    """`Writer` for a member's assignment at one epoch."""

    def __init__(self, member: Holder, epoch: int, writer: KafkaWriter) -> None:
        self._member = member
        self._epoch = epoch
        self._writer = writer

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Durable and readable when this returns; raises UnavailableError when that is not known,
        or when the assignment was lost."""
        try:
            self._writer.append(appended)
        except FencedError as error:
            self._member.assignment()
            raise UnavailableError(str(error)) from error

    def transact(
        self, group: str, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Outcome:
        """Records and positions, both or neither; ABORTED when the assignment was lost.

        The identity belongs to this process alone. A newer writer of it only means that another
        process took this one for dead: the group decides which process owns the tasks.
        """
        if not self._member.holds(self._epoch):
            return Outcome.ABORTED
        try:
            return self._writer.transact(group, appended, positions)
        except FencedError:
            self._member.assignment()
            return Outcome.UNKNOWN

    def close(self) -> None:
        """Give up the identity; idempotent."""
        self._writer.close()
