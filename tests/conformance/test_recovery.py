"""The recovery run on cases of our own, and whether it would notice an engine that forgets."""

from __future__ import annotations

from typing import Any

import pytest

from millstream.service.engine import Engine
from tests.conformance import killed_case, lives
from tests.conformance.cases import Case
from tests.conformance.killed_case import LOGS, End, run_killed

SEEDS = range(6)
VISITS = """
CREATE STREAM visits (guest STRING KEY, place STRING, stars INT)
    WITH (KAFKA_TOPIC='visits', FORMAT='JSON');
CREATE TABLE places AS SELECT place, COUNT(*) AS n, SUM(stars) AS total FROM visits GROUP BY place;
CREATE STREAM shouted AS SELECT guest, UCASE(place) AS place FROM visits;
"""


def visit(number: int) -> dict[str, Any]:
    value = {"PLACE": f"p{number % 2}", "STARS": number}
    return {"topic": "visits", "key": f"g{number}", "value": value, "ts": number}


def output(topic: str, key: str, value: dict[str, Any], ts: int) -> dict[str, Any]:
    return {"topic": topic, "key": key, "value": value, "ts": ts, "headers": []}


def visits_case() -> Case:
    """Eight visits to two places."""
    totals = [sum(range(number % 2, number + 1, 2)) for number in range(8)]
    counted = [
        output("PLACES", f"p{number % 2}", {"N": number // 2 + 1, "TOTAL": total}, number)
        for number, total in enumerate(totals)
    ]
    shouted = [output("SHOUTED", f"g{n}", {"PLACE": f"P{n % 2}"}, n) for n in range(8)]
    raw = {
        "statements": VISITS.strip().split("\n\n"),
        "inputs": [visit(number) for number in range(8)],
        "outputs": counted + shouted,
    }
    return Case("own/visits", "own", 1, "records", raw)


@pytest.mark.parametrize("log", LOGS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_killed_case_recovers(log: str, seed: int) -> None:
    outcome = run_killed(visits_case(), log, seed)
    assert outcome.end is End.RECOVERED, outcome.reason
    assert outcome.deaths


class LosesPositions(lives.SimulatedWorld):
    """A crash that loses the committed positions."""

    def die(self, engine: Engine, *, wipe: bool) -> None:
        for query_id in engine.catalog.queries:
            engine.log.forget_group(query_id)
        super().die(engine, wipe=wipe)


class LosesChangelogs(lives.SimulatedWorld):
    """A crash that loses the state and its changelog."""

    def die(self, engine: Engine, *, wipe: bool) -> None:
        for topic in engine.log.topics():
            if topic.name.endswith("-changelog"):
                engine.log.delete_topic(topic.name)
        super().die(engine, wipe=True)


class LosesCommands(lives.SimulatedWorld):
    """A crash that loses the statements."""

    def die(self, engine: Engine, *, wipe: bool) -> None:
        engine.log.delete_topic(engine.settings.command_topic)
        super().die(engine, wipe=wipe)


@pytest.mark.parametrize("world", [LosesPositions, LosesChangelogs, LosesCommands])
def test_an_engine_that_forgets_is_found_out(
    world: type[lives.SimulatedWorld], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(killed_case, "new_world", lambda _log, _rnd: world(markers=False))
    ends = {run_killed(visits_case(), "simulated", seed).end for seed in SEEDS}
    assert End.MISMATCH in ends
