"""Connectors over HTTP: entities, rules, the shell of a server."""

from __future__ import annotations

import io
from collections.abc import Iterator

import httpx
import pytest
from rich.console import Console

from millstream.model.clock import now_ms
from millstream.model.settings import ConnectSettings, EngineSettings
from millstream.remote.http import Credentials
from millstream.service.execution import open_engine
from millstream_cli.prompt.shell import run_parts
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.sessions.remote import RemoteSession
from millstream_parser.statements import Listing
from millstream_server.auth.access import Access, read_rules
from millstream_server.auth.needs import Kind, Need, Operation
from millstream_server.auth.principal import Principal
from millstream_server.auth.visible import VisibleCatalog
from millstream_server.entities.connectors import connector_list
from millstream_server.entities.view import View
from tests.served import served
from tests.unit.connectors.worker import Worker, serving

MADE = (
    "CREATE SOURCE CONNECTOR c WITH ('connector.class'='org.example.NumbersSource',"
    " 'topic'='n', 'connection.password'='s3cret');"
)
SOURCE = "CREATE STREAM n (v INT) WITH (KAFKA_TOPIC='n', PARTITIONS=1, VALUE_FORMAT='JSON');"


@pytest.fixture
def worker() -> Iterator[Worker]:
    with serving() as found:
        yield found


@pytest.fixture
def url(worker: Worker) -> Iterator[str]:
    """A server whose connectors are at that worker."""
    settings = EngineSettings(kafka_connect=ConnectSettings(worker.url))
    engine = open_engine(":memory:", settings, now_ms)
    engine.start()
    with served(engine) as door:
        yield door.url
    engine.close()


def test_entities(worker: Worker, url: str) -> None:
    with httpx.Client(base_url=url) as http:

        def ksql(text: str) -> dict[str, object]:
            answer = http.post("/ksql", json={"ksql": text})
            assert answer.status_code == 200, answer.text
            (entity,) = answer.json()
            assert entity["statementText"] == text
            return dict(entity)

        made = ksql(MADE)
        assert made["@type"] == "connector_info" and made["info"] == {
            "name": "C",
            "config": {
                "connector.class": "org.example.NumbersSource",
                "topic": "n",
                "connection.password": "***",
                "name": "C",
            },
            "tasks": [{"connector": "C", "task": 0}, {"connector": "C", "task": 1}],
            "type": "source",
        }
        assert worker.connectors["C"]["connection.password"] == "s3cret"
        listed = ksql("SHOW SOURCE CONNECTORS;")
        assert listed["@type"] == "connector_list" and listed["connectors"] == [
            {
                "name": "C",
                "type": "source",
                "className": "org.example.NumbersSource",
                "state": "RUNNING (2/2 tasks RUNNING)",
            }
        ]
        assert ksql("SHOW SINK CONNECTORS;")["connectors"] == []
        plugins = ksql("SHOW CONNECTOR PLUGINS;")
        assert plugins["@type"] == "connector_plugins_list"
        assert plugins["connectorsPlugins"][0] == {  # type: ignore[index]
            "className": "org.example.NumbersSource",
            "type": "source",
            "version": "1.0",
        }
        ksql(SOURCE)
        worker.topics["C"] = ["n"]
        about = ksql("DESCRIBE CONNECTOR c;")
        assert about["@type"] == "connector_description"
        assert about["connectorClass"] == "org.example.NumbersSource"
        assert about["topics"] == ["n"]
        assert [source["name"] for source in about["sources"]] == ["N"]  # type: ignore[attr-defined]
        assert about["status"]["tasks"][1] == {  # type: ignore[index]
            "id": 1,
            "state": "RUNNING",
            "worker_id": "w:1",
            "trace": None,
        }
        again = ksql(MADE.replace("CONNECTOR ", "CONNECTOR IF NOT EXISTS "))
        assert again["@type"] == "warning_entity"
        assert ksql("DROP CONNECTOR c;") == {
            "@type": "drop_connector",
            "statementText": "DROP CONNECTOR c;",
            "connectorName": "C",
            "warnings": [],
        }
        assert ksql("DROP CONNECTOR IF EXISTS c;")["@type"] == "warning_entity"


def test_refusals(worker: Worker, url: str) -> None:
    with httpx.Client(base_url=url) as http:

        def refused(text: str) -> tuple[int, int]:
            answer = http.post("/ksql", json={"ksql": text})
            assert "s3cret" not in answer.json()["message"]
            return answer.status_code, answer.json()["error_code"]

        http.post("/ksql", json={"ksql": MADE})
        assert refused(MADE) == (409, 40900)
        assert refused("DROP CONNECTOR x;") == (400, 40001)
        # Nothing of a request is executed if a later statement is wrong.
        assert refused("DROP CONNECTOR c; DROP STREAM nothing;") == (400, 40001)
        assert list(worker.connectors) == ["C"]
        worker.broken = 500, b""
        assert refused("SHOW CONNECTORS;") == (503, 50300)


def test_the_shell(worker: Worker, url: str) -> None:
    shown = io.StringIO()
    out = Output(Console(file=shown, width=200))
    session = RemoteSession.connect(url, Credentials())
    terminal = Terminal(session, out, out)
    worker.failed.add("C")
    text = f"{MADE} SHOW CONNECTORS; DESCRIBE CONNECTOR c; DROP CONNECTOR c;"
    assert run_parts(terminal, text), shown.getvalue()
    session.close()
    for part in (
        "Created connector C",
        "RUNNING (1/2 tasks RUNNING)",
        "FAILED java.lang.RuntimeException: no disk",
        "Dropped connector C",
    ):
        assert part in shown.getvalue()


def test_who_sees_which(worker: Worker) -> None:
    """A list has the connectors that the caller may describe."""
    settings = EngineSettings(kafka_connect=ConnectSettings(worker.url))
    engine = open_engine(":memory:", settings, now_ms)
    try:
        config = {"connector.class": "org.example.NumbersSource"}
        worker.connectors |= {"mine": config, "theirs": config}
        rules = read_rules("allow role:reader DESCRIBE connector:mine")
        bob = Principal("bob", frozenset({"reader"}))
        sight = VisibleCatalog(engine.catalog, Access(rules), bob)
        view = View(engine, engine.metrics.now(), "host:1", sight, ())
        (seen,) = connector_list(Listing.CONNECTORS, view)["connectors"]
        assert seen["name"] == "mine"
        describe = Need(Kind.CONNECTOR, "theirs", Operation.DESCRIBE)
        assert not Access(rules).allows(bob, describe)
    finally:
        engine.close()
