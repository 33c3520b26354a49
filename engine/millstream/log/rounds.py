"""Commit rounds: the transactions of several writers, committed together where the log can.

A log that can commit several writers' transactions as one does so all or none. If that fails and
nothing was written, it tries the halves, so that one writer that cannot commit is found in a few
attempts and holds back nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from millstream.log.log import Batch, Outcome, Participant, Result

Part = TypeVar("Part")
"""What one writer contributes to a round."""


def one_by_one(participants: Sequence[Participant[Batch]]) -> list[Result]:
    """A transaction for each participant."""
    return [_alone(participant) for participant in participants]


def _alone(participant: Participant[Batch]) -> Result:
    try:
        return participant.writer.transact(
            participant.group, participant.appended, participant.positions
        )
    except Exception as error:
        return error


def in_halves(
    participants: Sequence[Part],
    attempt: Callable[[Sequence[Part]], Outcome],
    shared: Callable[[Exception], bool],
) -> list[Result]:
    """The results of a round. `attempt` commits all or none, and raises where nothing was written;
    `shared`: whether its error is that of every participant."""
    if not participants:
        return []
    try:
        return [attempt(participants)] * len(participants)
    except Exception as error:
        if len(participants) == 1 or shared(error):
            return [error] * len(participants)
    middle = len(participants) // 2
    first = in_halves(participants[:middle], attempt, shared)
    return [*first, *in_halves(participants[middle:], attempt, shared)]
