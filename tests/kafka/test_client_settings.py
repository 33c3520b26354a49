"""Settings of the client by users: for every client, and secrets stay secret."""

from __future__ import annotations

import uuid

import pytest

pytest.importorskip("confluent_kafka")

import millstream
from millstream import StatementError
from millstream.log.kafka.client import (
    Membership,
    admin_config,
    consumer_config,
    member_config,
    producer_config,
)
from millstream_cli.main import main

NOWHERE = "127.0.0.1:1"
SECRET = "xyzzy-plugh"


def refusal(**settings: str) -> str:
    given = {name.replace("_", "."): value for name, value in settings.items()}
    with pytest.raises(StatementError) as raised:
        millstream.connect(kafka=NOWHERE, kafka_settings=given)
    return str(raised.value)


def test_an_unknown_name_is_refused_in_the_clients_own_words() -> None:
    assert 'No such configuration property: "no.such.thing"' in refusal(no_such_thing="1")


@pytest.mark.parametrize(
    "name", ["isolation.level", "transactional.id", "acks", "plugin.library.paths"]
)
def test_what_guarantees_rest_on_cannot_be_changed(name: str) -> None:
    assert f"'{name}' cannot be changed" in refusal(**{name: "0"})


@pytest.mark.parametrize("name", ["ssl.key.pem", "enable.sasl.oauthbearer.unsecure.jwt"])
def test_a_secret_is_not_repeated(name: str) -> None:
    message = refusal(**{name: SECRET, "security.protocol": "ssl", "ssl.key.password": SECRET})
    assert "refuses its settings" in message
    assert SECRET not in message


def test_a_secret_is_not_shown_anywhere(servers: str) -> None:
    settings = {"sasl.password": SECRET, "sasl.username": SECRET, "client.id": "mill"}
    service = f"set-{uuid.uuid4().hex[:8]}"
    with millstream.connect(kafka=servers, service_id=service, kafka_settings=settings) as db:
        shown = [str(list(db.execute(f"SHOW {what};"))) for what in ("PROPERTIES", "TOPICS")]
        shown += [repr(db.engine.log), repr(vars(db.engine.writer))]
    assert not [text for text in shown if SECRET in text]


def test_each_client_gets_them() -> None:
    given = {"security.protocol": "ssl", "linger.ms": "7"}
    for config in (
        admin_config(NOWHERE, given),
        consumer_config(NOWHERE, "g", given),
        member_config(NOWHERE, "g", Membership(), given),
        producer_config(NOWHERE, "w", given, 60.0),
    ):
        assert given.items() <= config.items()


def test_settings_need_a_cluster() -> None:
    with pytest.raises(StatementError, match="no kafka"):
        millstream.connect(kafka_settings={"client.id": "x"})


def test_the_commands_option(capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--kafka", NOWHERE, "--kafka-setting", "client.id=a", "--kafka-setting"]
    assert main([*options, "no.such=b", "-e", "SHOW STREAMS"]) == 1
    assert '"no.such"' in capsys.readouterr().err
    with pytest.raises(SystemExit):
        main([*options, SECRET])
    assert SECRET not in capsys.readouterr().err
