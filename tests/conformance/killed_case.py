"""One conformance case in an engine that is killed again and again on the way.

The seed determines where it dies: in a statement, with records consumed and not committed, after a
commit, between the log's commit and the state's, at any other effect, while it restores. Memory is
lost each time, sometimes the state as well. At the end the output topics must hold the expected
records of the case. Otherwise they must hold the output of an engine that was never killed and
received the same pieces of input, some of them together: work that a kill undoes is repeated
together with input that has arrived since, and records of different topics that arrive out of time
order may then join differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import pairwise, product
from random import Random
from typing import Any

from millstream.log.faults import SimulatedCrash
from millstream.query.session import Session
from millstream.scripts.text import ParsedStatement
from millstream.service.engine import Engine
from tests.conformance.cases import Case, Record
from tests.conformance.engine_case import (
    BY_TIME,
    CONFIGURATION,
    append,
    drive,
    execute,
    judged,
    prepare,
    settle,
)
from tests.conformance.judge import StopError, records_of
from tests.conformance.lives import COMMITTED, EmbeddedWorld, SimulatedWorld, World

SMALL = 6
"""Cases of so many records are killed after each of them now and then."""
EXACTLY_ONCE = {"processing.guarantee": "exactly_once_v2"}
"""At least once, the default, a kill may repeat outputs; exactly once it must not show at all."""
LOGS = {
    "simulated": {**BY_TIME, **EXACTLY_ONCE},
    "embedded": {**CONFIGURATION, **EXACTLY_ONCE},
    "checkpoints": {**CONFIGURATION, **EXACTLY_ONCE},
}
"""The configuration of the engine on each: the last one is embedded, too."""
Topics = dict[str, list[tuple[Any, ...]]]


class End(Enum):
    """What became of a killed case."""

    RECOVERED = "recovered"
    AS_UNKILLED = "as unkilled"
    """Not what the case expects, but what an engine writes that is never killed."""
    MISMATCH = "mismatch"
    REFUSED = "refused"
    """The engine does not accept its statements, killed or not."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`reason`: in what the output differs from that of the case. `deaths`: where it was killed."""

    end: End
    reason: str = ""
    deaths: Counter[str] = field(default_factory=Counter)
    loaded: int = 0
    """Tasks whose state was loaded from checkpoints."""


def new_world(log: str, rnd: Random) -> World:
    """An empty world of the kind."""
    if log == "simulated":
        return SimulatedWorld(markers=rnd.random() < 0.5)
    return EmbeddedWorld(checkpoints=log == "checkpoints")


def run_killed(case: Case, log: str, seed: int) -> Outcome:
    """Run a case with kills, and without them where its output is not the expected one."""
    name = f"{seed} {log} {case.id}"
    rnd = Random(name)
    pieces = cut(case.inputs, rnd)
    world = new_world(log, rnd)
    mortal = Mortal(case, world, rnd, LOGS[log])
    try:
        reason = mortal.run(pieces)
        if not reason:
            return Outcome(End.RECOVERED, "", mortal.deaths, world.loaded)
        killed = reason, topics(mortal.engine)
    finally:
        world.close()
    for together in groupings(pieces):
        if run_whole(case, log, together, name) == killed:
            refused = reason.startswith("statement:")
            return Outcome(
                End.REFUSED if refused else End.AS_UNKILLED, reason, mortal.deaths, world.loaded
            )
    return Outcome(End.MISMATCH, reason, mortal.deaths, world.loaded)


def groupings(pieces: Sequence[Sequence[Record]]) -> Iterator[list[list[Record]]]:
    """The pieces, with neighbours put together in all ways, from none to all."""
    for joints in product((False, True), repeat=len(pieces) - 1):
        groups = [list(pieces[0])]
        for joined, piece in zip(joints, pieces[1:], strict=True):
            if joined:
                groups[-1] += piece
            else:
                groups.append(list(piece))
        yield groups


def run_whole(
    case: Case, log: str, pieces: Sequence[Sequence[Record]], name: str
) -> tuple[str, Topics]:
    """The same without kills: its error, and all its output."""
    world = new_world(log, Random(name))
    try:
        engine = world.open()
        stopped = drive(case, pieces, engine, LOGS[log])
        return judged(case, stopped, engine), topics(engine)
    finally:
        world.close()


def topics(engine: Engine) -> Topics:
    """Everything on topics that are not the engine's own, without the offsets."""
    fields = ("key", "value", "timestamp", "headers")
    return {
        topic.name: [
            tuple(str(record[field]) for field in fields)
            for record in records_of(topic.name, engine)
        ]
        for topic in engine.log.topics()
        if not topic.name.startswith(engine.settings.internal_prefix)
    }


def cut(records: Sequence[Record], rnd: Random) -> list[Sequence[Record]]:
    """Pieces of the input with a kill after each: one or two, or each record on its own."""
    if len(records) <= SMALL and rnd.random() < 0.25:
        return [[record] for record in records]
    cuts = sorted({rnd.randint(0, len(records)) for _ in range(rnd.choice((1, 1, 2)))})
    edges = [0, *cuts, len(records)]
    return [records[low:high] for low, high in pairwise(edges)]


class Mortal:
    """The client of an engine that is killed and started again."""

    def __init__(
        self, case: Case, world: World, rnd: Random, configuration: Mapping[str, str]
    ) -> None:
        self.case = case
        self.configuration = configuration
        self.world = world
        self.rnd = rnd
        self.deaths: Counter[str] = Counter()
        self.engine = world.open()

    def run(self, pieces: Sequence[Sequence[Record]]) -> str:
        """Statements and records, with kills in between; the error at the end."""
        try:
            session, statements = prepare(self.case, self.engine, self.configuration)
            for statement in statements:
                self._execute(statement, session)
            for records in pieces[:-1]:
                append(records, self.engine)
                self._live_and_die()
            append(pieces[-1], self.engine)
            settle(self.engine)
        except StopError as stopped:
            return judged(self.case, stopped, self.engine)
        try:
            return judged(self.case, None, self.engine)
        except StopError as lacking:
            # An engine that has forgotten a statement may have processed all records before.
            return f"{lacking.phase}: {lacking}"

    def _execute(self, statement: ParsedStatement, session: Session) -> None:
        """A client whose connection broke checks whether its statement was executed."""
        before = self.engine.command_topic.log.next_offset
        if self.rnd.random() < 0.5:
            self.world.trap.set(self.rnd.randint(1, 10))
        if self._dies(lambda: execute(statement, session, self.engine)):
            self._restart("in a statement")
            if self.engine.command_topic.log.next_offset == before:
                execute(statement, session, self.engine)

    def _live_and_die(self) -> None:
        """One life, and perhaps short ones that end while the next restores."""
        moment = self.rnd.choice(("consumed", "committed", "torn", "effect"))
        trap = self.world.trap
        match moment:
            case "consumed":
                self._step(self.rnd.randint(1, 8))
                self._restart("records consumed, not committed")
                return
            case "torn":
                trap.set(self.rnd.choice((1, 1, 2)), COMMITTED)
            case "effect":
                trap.set(self.rnd.randint(1, 25))
        died = self._dies(lambda: settle(self.engine))
        torn = moment == "torn"
        where = "between the log's commit and the state's" if torn else "at any effect"
        self._restart(where if died else "after a commit")
        while self.rnd.random() < 0.3:
            trap.set(self.rnd.randint(1, 10))
            if self._dies(lambda: settle(self.engine)):
                self._restart("while it went on after a kill")

    def _step(self, steps: int) -> None:
        for _ in range(steps):
            self.engine.runtime.step(0)

    def _dies(self, action: Callable[[], None]) -> bool:
        """Whether the process dies in it."""
        try:
            action()
        except SimulatedCrash:
            return True
        finally:
            self.world.trap.clear()
        return False

    def _restart(self, where: str) -> None:
        """Kill the process, start it again, and check that its queries exist."""
        self.deaths[where] += 1
        self.world.die(self.engine, wipe=self.rnd.random() < 0.4)
        self.engine = self.world.open()
        failed = self.engine.registry.failed
        running = {status.query_id for status in self.engine.statuses()}
        lost = sorted(self.engine.catalog.queries.keys() - running)
        if failed or lost:
            raise StopError("reopening", f"queries {lost} do not run: {failed}")
