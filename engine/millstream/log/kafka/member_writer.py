"""The appending side of a member of a query's group on Kafka."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

import pyarrow as pa

from millstream.log.kafka.writer import KafkaWriter
from millstream.log.log import Appended, Outcome
from millstream.log.log import TopicPartition as Place
from millstream.log.membership import Assignment
from millstream.model.errors import FencedError, UnavailableError


class Holder(Protocol):
    """Who knows what is held; see `KafkaMember`."""

    def claim(self) -> Assignment:
        """What is to be held now; FencedError when another process has the member's name."""
        ...

    def holds(self, epoch: int) -> bool:
        """Whether what was claimed at `epoch` has not been lost."""
        ...


class MemberWriter:
    """`Writer` for what a member claimed at one epoch."""

    def __init__(self, member: Holder, epoch: int, writer: KafkaWriter) -> None:
        self._member = member
        self._epoch = epoch
        self._writer = writer

    def append(self, appended: Sequence[Appended[pa.Table]]) -> None:
        """Durable and readable when this returns; UnavailableError when that is not known, or
        when the claim was lost."""
        try:
            self._writer.append(appended)
        except FencedError as error:
            self._member.claim()
            raise UnavailableError(str(error)) from error

    def transact(
        self, group: str, appended: Sequence[Appended[pa.Table]], positions: Mapping[Place, int]
    ) -> Outcome:
        """Records and positions, both or neither; ABORTED when the claim was lost.

        The identity is this process's alone. That a newer writer has it means no more than that
        somebody took this process for dead: who owns the tasks is what the group says.
        """
        if not self._member.holds(self._epoch):
            return Outcome.ABORTED
        try:
            return self._writer.transact(group, appended, positions)
        except FencedError:
            self._member.claim()
            return Outcome.UNKNOWN

    def close(self) -> None:
        """Give up the identity; idempotent."""
        self._writer.close()
