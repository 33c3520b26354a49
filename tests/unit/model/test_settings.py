"""Kafka Streams' names: they work where they count, or are refused with the reason."""

from __future__ import annotations

import pytest

import millstream
from millstream import StatementError
from millstream.model.settings import UNSUPPORTED, InstanceSettings, shared_settings
from millstream.query.results import Done
from millstream.query.session import Session

PREFIXES = pytest.mark.parametrize("prefix", ["", "ksql.streams."])


@PREFIXES
@pytest.mark.parametrize(
    ("name", "text", "settings"),
    [
        ("num.standby.replicas", "2", InstanceSettings(standby_replicas=2)),
        ("num.standby.replicas", "0", InstanceSettings(standby_replicas=0)),
        ("session.timeout.ms", "6000", InstanceSettings(session_timeout_ms=6_000)),
        ("acceptable.recovery.lag", "0", InstanceSettings(acceptable_recovery_lag=0)),
        ("max.warmup.replicas", "0", InstanceSettings(max_warmup_replicas=0)),
        (
            "probing.rebalance.interval.ms",
            "600000",
            InstanceSettings(probing_rebalance_interval_ms=600_000),
        ),
        ("group.protocol", "CONSUMER", InstanceSettings(group_protocol="consumer")),
        ("group.protocol", "classic", InstanceSettings(group_protocol="classic")),
    ],
)
def test_properties_of_an_instance(
    prefix: str, name: str, text: str, settings: InstanceSettings
) -> None:
    assert shared_settings(None, {prefix + name: text}) == settings
    with pytest.raises(StatementError, match=f"{name} is for instances that share a log"):
        millstream.connect(properties={prefix + name: text})
    with pytest.raises(StatementError, match=f"{name} is a setting of an instance"):
        Session().set(prefix + name, text)


def test_they_go_before_the_given_settings() -> None:
    given = InstanceSettings("one", standby_replicas=1, session_timeout_ms=7_000)
    wanted = InstanceSettings("one", standby_replicas=3, session_timeout_ms=7_000)
    assert shared_settings(given, {"num.standby.replicas": "3"}) == wanted
    assert shared_settings(given, {"auto.offset.reset": "earliest"}) is given
    assert shared_settings(None, {}) is None


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("num.standby.replicas", "-1", "a whole number from 0 on"),
        ("num.standby.replicas", "many", "a whole number from 0 on"),
        ("acceptable.recovery.lag", "-1", "a whole number from 0 on"),
        ("max.warmup.replicas", "-1", "a whole number from 0 on"),
        ("probing.rebalance.interval.ms", "0", "a whole number from 1 on"),
        ("session.timeout.ms", "0", "a whole number from 1 on"),
        ("group.protocol", "streams", "classic, consumer"),
    ],
)
def test_invalid_values(name: str, text: str, allowed: str) -> None:
    with pytest.raises(StatementError, match=f"'{text}' for property {name}: expected {allowed}"):
        shared_settings(None, {name: text})


@PREFIXES
@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_what_there_is_not_is_refused_with_the_reason(prefix: str, name: str) -> None:
    with pytest.raises(StatementError, match=f"{prefix}{name} is not supported: "):
        Session().set(prefix + name, "1")
    with pytest.raises(StatementError, match=f"{name} is not supported"):
        millstream.connect(properties={prefix + name: "1"})


@pytest.mark.parametrize("name", ["num.stream.threads", "processing.threads"])
@PREFIXES
def test_threads_that_are_set_without_effect_say_so(prefix: str, name: str) -> None:
    with millstream.connect(properties={prefix + name: "3"}) as db:
        assert db.engine.settings.processing_threads == 3
        done = db.execute(f"SET '{prefix}{name}' = '5';")
        assert isinstance(done, Done)
        assert "This has no effect" in done.message
        assert db.engine.settings.processing_threads == 3


@PREFIXES
def test_max_task_idle(prefix: str) -> None:
    session = Session()
    assert session.set(f"{prefix}max.task.idle.ms", "5") == ("max.task.idle.ms", "5")
