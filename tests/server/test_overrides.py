"""Which properties clients may set: one rule for streamsProperties, SET and /is_valid_property."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from millstream.model.clock import now_ms
from millstream.model.errors import StatementError
from millstream.model.overrides import Overrides
from millstream.model.properties import PROPERTIES
from millstream.model.settings import EngineSettings
from millstream.service.execution import open_engine
from millstream_server.bootstrap.config import load_config
from millstream_server.bootstrap.wiring import overrides
from millstream_server.server import ServerSettings
from tests.served import served
from tests.server.conftest import RunningServer

DENYING = {
    "ksql.properties.overrides.denylist": "auto.offset.reset,ksql.streams.commit.interval.ms"
}
ALLOWING = {
    "ksql.properties.overrides.validation.mode": "allowlist",
    "ksql.properties.overrides.allowlist": "ksql.streams.auto.offset.reset, num.stream.threads",
    "ksql.properties.overrides.denylist": "auto.offset.reset",
}


@pytest.fixture(params=[{}, DENYING, ALLOWING], ids=["all", "denylist", "allowlist"])
def rule(request: pytest.FixtureRequest) -> Overrides:
    return overrides(load_config(flags=request.param))


@pytest.fixture
def door(rule: Overrides) -> Iterator[RunningServer]:
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    settings = ServerSettings(overrides=rule)
    with served(engine, settings=settings) as found, ExitStack() as stack:
        yield RunningServer(engine, found, stack)
    engine.close()


def test_every_way_to_set_a_property_agrees(door: RunningServer, rule: Overrides) -> None:
    names = [item.name for item in PROPERTIES]
    names += [f"ksql.streams.{name}" for name in names]
    names += ["nonsense", "KSQL.STREAMS", "auto.offset.reset.", "listeners", "a b", "ü"]
    values = {item.name: item for item in PROPERTIES}
    verdicts = set()
    for name in names:
        known = values.get(name.removeprefix("ksql.streams."))
        value = "0" if known is None else known.default or known.kind.split("|")[0]
        value = {"int": "1", "bool": "true"}.get(value, value)
        asked = door.http.get(f"/is_valid_property/{name}")
        given = door.http.post(
            "/ksql", json={"ksql": "SHOW TYPES;", "streamsProperties": {name: value}}
        )
        said = door.http.post("/ksql", json={"ksql": f"SET '{name}' = '{value}';"})
        assert asked.status_code == given.status_code == said.status_code, (name, said.text)
        verdicts.add(asked.status_code)
        if asked.status_code == 200:
            assert asked.json() is True and rule.check(name)
        else:
            assert asked.json()["error_code"] == 40000
            assert asked.json()["@type"] == "generic_error" and name in asked.json()["message"]
            assert given.json()["message"] == asked.json()["message"]
            with pytest.raises(StatementError):
                rule.check(name)
    assert verdicts == {200, 400}


@pytest.mark.parametrize(
    ("flags", "allowed", "denied"),
    [
        ({}, ["auto.offset.reset", "ksql.streams.auto.offset.reset"], ["nonsense"]),
        (DENYING, ["num.stream.threads"],
         ["auto.offset.reset", "ksql.streams.auto.offset.reset", "commit.interval.ms"]),
        (ALLOWING, ["auto.offset.reset", "ksql.streams.auto.offset.reset", "num.stream.threads"],
         ["commit.interval.ms", "nonsense"]),
        ({"ksql.properties.overrides.validation.mode": "allowlist"}, [], ["auto.offset.reset"]),
    ],
)  # fmt: skip
def test_the_lists(flags: dict[str, str], allowed: list[str], denied: list[str]) -> None:
    rule = overrides(load_config(flags=flags))
    for name in allowed:
        rule.check(name)
    for name in denied:
        with pytest.raises(StatementError):
            rule.check(name)


def test_a_mode_that_does_not_exist() -> None:
    flags = {"ksql.properties.overrides.validation.mode": "some"}
    with pytest.raises(StatementError, match="denylist or allowlist"):
        overrides(load_config(flags=flags))
