"""A listener with TLS, client certificates and passwords, on a broker of its own."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import millstream
from millstream.query.results import Rows
from tests.certified import authority
from tests.kafka.run import cluster

USER, PASSWORD = "millstream", "correct horse"
SECURED = "listener.name.secured"
PROTOCOLS = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SECURED:SASL_SSL"
LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required"


@pytest.fixture(scope="module")
def secured(
    servers: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[str, dict[str, str]]]:
    """The address of the listener, and a client's credentials for it. `servers`: like the other
    tests, this one does not start a broker without a request for one."""
    folder = tmp_path_factory.mktemp("secured")
    signing = authority("authority", folder)
    ours, theirs = (str(signing.signed(name, folder)) for name in ("client", "broker"))
    port, open_port = free_port(), free_port()
    listeners = f"PLAINTEXT://127.0.0.1:{open_port},SECURED://127.0.0.1:{port}"
    settings = {
        "listeners": f"{listeners},CONTROLLER://127.0.0.1:{open_port + 1000}",
        "advertised.listeners": listeners,
        "listener.security.protocol.map": PROTOCOLS,
        f"{SECURED}.ssl.keystore.type": "PEM",
        f"{SECURED}.ssl.keystore.location": theirs,
        f"{SECURED}.ssl.truststore.type": "PEM",
        f"{SECURED}.ssl.truststore.location": str(signing.file),
        f"{SECURED}.ssl.client.auth": "required",
        f"{SECURED}.sasl.enabled.mechanisms": "PLAIN",
        f"{SECURED}.plain.sasl.jaas.config": f'{LOGIN} user_{USER}="{PASSWORD}";',
    }
    given = [text for name, value in settings.items() for text in ("--set", f"{name}={value}")]
    with cluster(1, "--port", str(open_port), *given):
        yield (
            f"127.0.0.1:{port}",
            {
                "security.protocol": "sasl_ssl",
                "sasl.mechanism": "PLAIN",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(signing.file),
                "ssl.certificate.location": ours,
                "ssl.key.location": ours,
            },
        )


def free_port() -> int:
    """A port of this machine without a listener."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def counts(
    address: str, settings: Mapping[str, str], state: Path, service: str
) -> list[dict[str, object]]:
    with millstream.connect(
        str(state), kafka=address, kafka_settings=dict(settings), service_id=service
    ) as db:
        db.execute(
            "SET 'auto.offset.reset' = 'earliest';"
            "CREATE STREAM clicks (who STRING KEY, page STRING)"
            f" WITH (kafka_topic='clicks-{service}', value_format='JSON', partitions=2);"
            "CREATE TABLE pages AS SELECT page, COUNT(*) AS n FROM clicks GROUP BY page;"
            "INSERT INTO clicks VALUES ('a', 'x'); INSERT INTO clicks VALUES ('b', 'x');"
            "INSERT INTO clicks VALUES ('a', 'y');"
        )
        db.wait()
        rows = db.execute("SELECT * FROM pages ORDER BY page;")
        assert isinstance(rows, Rows)
        return rows.table.to_pylist()


def test_every_client_shows_what_it_must(
    secured: tuple[str, dict[str, str]], kind: str, tmp_path: Path
) -> None:
    address, settings = secured
    assert counts(address, settings, tmp_path / "state.db", kind) == [
        {"PAGE": "x", "N": 2},
        {"PAGE": "y", "N": 1},
    ]


@pytest.mark.parametrize(
    "wrong",
    [
        {"sasl.password": "wrong battery"},
        {"security.protocol": "plaintext"},
        {"ssl.ca.location": ""},
    ],
)
def test_a_refused_client_gets_an_error_without_its_secrets(
    secured: tuple[str, dict[str, str]], wrong: dict[str, str], tmp_path: Path
) -> None:
    address, settings = secured
    given = {name: value for name, value in {**settings, **wrong}.items() if value}
    with pytest.raises(millstream.UnavailableError) as refused:
        counts(address, given, tmp_path / "state.db", "refused")
    told = f"{refused.value} {refused.value.detail} {refused.value.hint}"
    assert "security settings" in told
    assert PASSWORD not in told and "wrong battery" not in told
