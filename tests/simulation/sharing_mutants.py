"""Planted bugs of commit rounds under one membership: what was lost by one query must not be
committed because the process has kept the tasks of another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from millstream.log.fenced_rounds import RefusedCredentialError
from millstream.log.log import Outcome, Participant, Result
from millstream.log.simulated import SimulatedLog
from millstream.log.simulated_group import MemberWriter
from millstream.log.simulated_writer import Part
from tests.simulation.sharing import SharingMutant, SharingWorld
from tests.simulation.world import ROWS


class OneTry(SimulatedLog[Any]):
    """A log with a round of its own, which is tried once."""

    def transact_all(self, participants: Sequence[Participant[Any]]) -> list[Result]:
        shares = [
            (each.writer, each) for each in participants if isinstance(each.writer, MemberWriter)
        ]
        return self.round(shares) if shares else []

    def round(self, shares: list[tuple[MemberWriter[Any], Participant[Any]]]) -> list[Result]:
        raise NotImplementedError

    def sent(self, entries: Sequence[Participant[Any] | None], credential: Any) -> list[Result]:
        """The results of those that have an entry."""
        instances = entries and self._coordinator and self._coordinator.instances
        ready = [entry for entry in entries if entry is not None]
        results = iter(
            self.commit(ready, lambda: bool(instances and credential == instances.generation))
        )
        told = [Outcome.ABORTED if entry is None else next(results) for entry in entries]
        return [Outcome.ABORTED if isinstance(one, RefusedCredentialError) else one for one in told]


class CheckedFirst(OneTry):
    """Checks what was lost before the credential of the round is there."""

    def round(self, shares: list[tuple[MemberWriter[Any], Participant[Any]]]) -> list[Result]:
        entries = [writer.entry(participant) for writer, participant in shares]
        return self.sent(entries, shares[0][0].member.ask(None))


class OneForAll(OneTry):
    """Commits all if the tasks of one were kept."""

    def round(self, shares: list[tuple[MemberWriter[Any], Participant[Any]]]) -> list[Result]:
        credential = shares[0][0].member.ask(None)
        if not any(writer.entry(participant) for writer, participant in shares):
            return [Outcome.ABORTED] * len(shares)
        return self.sent([unchecked(*share) for share in shares], credential)


class RepeatedUnchecked(OneTry):
    """Repeats what was refused with another credential, whatever was lost meanwhile."""

    def round(self, shares: list[tuple[MemberWriter[Any], Participant[Any]]]) -> list[Result]:
        member = shares[0][0].member
        credential = member.ask(None)
        entries = [writer.entry(participant) for writer, participant in shares]
        results = self.sent(entries, credential)
        if all(result is Outcome.ABORTED for result in results):
            results = self.sent(entries, member.ask(credential))
        return results


def unchecked(writer: MemberWriter[Any], participant: Participant[Any]) -> Participant[Any]:
    """The entry of a writer whose tasks may be lost."""
    return Participant(
        writer.writer, participant.group, participant.appended, participant.positions
    )


class ProvedFirst(SimulatedLog[Any]):
    """Has the credential checked before the positions are pending: the next owner of a task may
    read the old ones in between."""

    def transact(
        self, parts: Sequence[Part[Any]], accepted: Callable[[], bool] = lambda: True
    ) -> Outcome:
        if not accepted():
            raise RefusedCredentialError
        self._effect("transact.proved")
        return super().transact(parts)


class NotProved(SimulatedLog[Any]):
    """Moves no position with the credential of the membership: groups without members accept the
    positions of everyone."""

    def transact(
        self, parts: Sequence[Part[Any]], accepted: Callable[[], bool] = lambda: True
    ) -> Outcome:
        return super().transact(parts)


class OtherLog(SharingMutant):
    def __init__(self, kind: type[SimulatedLog[Any]]) -> None:
        self.kind = kind

    def log(self, world: SharingWorld) -> SimulatedLog[Any]:
        return self.kind(
            ROWS, effect=world.effect, fault=world.fault, markers=world.markers, coordinator=world
        )  # type: ignore[arg-type]


SHARING_MUTANTS: dict[str, SharingMutant] = {
    "a loss is looked for before the credential of the round is there": OtherLog(CheckedFirst),
    "positions of lost tasks are committed with those of kept ones": OtherLog(OneForAll),
    "a refused round is repeated without a look at what was lost": OtherLog(RepeatedUnchecked),
    "the membership is proved before the positions are pending": OtherLog(ProvedFirst),
    "positions are moved without a membership": OtherLog(NotProved),
}
"""By name, the fault of each."""
