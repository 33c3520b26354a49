"""CREATE, DROP, SHOW and DESCRIBE of connectors, with a worker that answers from memory."""

from __future__ import annotations

import socket
from collections.abc import Iterator

import pytest

import millstream
from millstream.model.errors import ConflictError, StatementError, UnavailableError
from millstream.model.settings import ConnectSettings
from tests.unit.connectors.worker import Worker, serving

NUMBERS = """CREATE SOURCE CONNECTOR numbers WITH (
  'connector.class'='org.example.NumbersSource', 'topic'='n', 'tasks.max'=2, 'pretty'=TRUE);"""
SHOWN = ("SHOW CONNECTORS;", "SHOW CONNECTOR PLUGINS;")
FILES = """CREATE SINK CONNECTOR "files/1" WITH (
  'connector.class'='org.example.FilesSink', 'topic'='n');"""


@pytest.fixture
def worker() -> Iterator[Worker]:
    with serving() as found:
        yield found


@pytest.fixture
def db(worker: Worker) -> Iterator[millstream.Database]:
    with millstream.connect(kafka_connect=worker.url) as found:
        yield found


def test_the_life_of_a_connector(worker: Worker, db: millstream.Database) -> None:
    assert "Created connector NUMBERS" in str(db.execute(NUMBERS))
    assert worker.connectors == {
        "NUMBERS": {
            "connector.class": "org.example.NumbersSource",
            "topic": "n",
            "tasks.max": "2",
            "pretty": "true",
            "name": "NUMBERS",
        }
    }
    db.execute(FILES)
    assert "GET /connectors/files%2F1" in worker.paths
    shown = db.execute("SHOW CONNECTORS;").fetchall()
    assert shown == [
        ("NUMBERS", "SOURCE", "org.example.NumbersSource", "RUNNING (2/2 tasks RUNNING)"),
        ("files/1", "SINK", "org.example.FilesSink", "RUNNING (2/2 tasks RUNNING)"),
    ]
    assert [row[0] for row in db.execute("SHOW SOURCE CONNECTORS;")] == ["NUMBERS"]
    assert [row[0] for row in db.execute("LIST SINK CONNECTORS;")] == ["files/1"]
    assert db.execute("SHOW CONNECTOR PLUGINS;").fetchall() == [
        ("org.example.NumbersSource", "SOURCE", "1.0"),
        ("org.example.FilesSink", "SINK", "1.0"),
    ]
    db.execute("DROP CONNECTOR numbers;")
    assert list(worker.connectors) == ["files/1"]


def test_a_description(worker: Worker, db: millstream.Database) -> None:
    """With the error of a task, and the streams and tables on its topics."""
    db.execute(NUMBERS)
    db.execute("CREATE STREAM n (v INT) WITH (KAFKA_TOPIC='n', PARTITIONS=1, FORMAT='JSON');")
    worker.topics["NUMBERS"] = ["other", "n"]
    worker.failed.add("NUMBERS")
    found = db.execute("DESCRIBE CONNECTOR numbers;").fetchall()
    assert ("Task 1", "FAILED java.lang.RuntimeException: no disk") in found
    assert [value for name, value in found if name == "Topic"] == ["n", "other"]
    assert ("Source", "N") in found and ("State", "RUNNING") in found
    (shown,) = db.execute("SHOW CONNECTORS;").fetchall()
    assert shown[3] == "RUNNING (1/2 tasks RUNNING)"


def test_names_in_use_and_names_of_nothing(worker: Worker, db: millstream.Database) -> None:
    db.execute(NUMBERS)
    with pytest.raises(ConflictError, match="'NUMBERS' exists already") as refused:
        db.execute(NUMBERS)
    assert refused.value.code == "E-CONNECTOR-EXISTS"
    again = NUMBERS.replace("CONNECTOR ", "CONNECTOR IF NOT EXISTS ")
    assert "exists already" in str(db.execute(again))
    for statement in ("DROP CONNECTOR x;", "DESCRIBE CONNECTOR x;"):
        with pytest.raises(StatementError, match="Connector 'X' does not exist"):
            db.execute(statement)
    assert "does not exist" in str(db.execute("DROP CONNECTOR IF EXISTS x;"))
    assert len(worker.connectors) == 1


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ("'topic'='n'", "'connector.class' is missing"),
        ("'connector.class'='org.example.NumbersSource'", "topic: Missing required configuration"),
        ("'connector.class'='org.example.Nothing'", "Failed to find any class"),
    ],
)
def test_what_is_wrong_with_a_configuration_is_told(
    worker: Worker, db: millstream.Database, properties: str, says: str
) -> None:
    with pytest.raises(StatementError) as refused:
        db.execute(f"CREATE SOURCE CONNECTOR c WITH ({properties});")
    assert says in refused.value.message + refused.value.detail
    assert worker.connectors == {}


@pytest.mark.parametrize(
    ("status", "content"),
    [(500, b'{"message": "out of memory"}'), (502, b"<html>"), (200, b"{"), (200, b"\xff\xfe")],
)
def test_a_worker_that_fails(
    worker: Worker, db: millstream.Database, status: int, content: bytes
) -> None:
    """It is no fault of the statement, and the next one works."""
    worker.broken = status, content
    for statement in (NUMBERS, "SHOW CONNECTORS;", "DROP CONNECTOR x;", "DESCRIBE CONNECTOR x;"):
        with pytest.raises(UnavailableError) as refused:
            db.execute(statement)
        assert refused.value.code == "E-CONNECT-UNAVAILABLE"
    worker.broken = None
    db.execute(NUMBERS)


@pytest.mark.parametrize("content", [b"[]", b"3", b'{"a": 3}', b'{"a": {"info": 3}}', b"null"])
def test_answers_of_another_shape(worker: Worker, db: millstream.Database, content: bytes) -> None:
    """What can be read of them is no connector, and the error is one of ours."""
    worker.broken = 200, content
    refused = 0
    for statement in (
        "SHOW CONNECTORS;",
        "SHOW CONNECTOR PLUGINS;",
        "DESCRIBE CONNECTOR a;",
        NUMBERS,
    ):
        try:
            db.execute(statement)
        except (UnavailableError, ConflictError):
            refused += 1
    assert refused >= 2


def test_a_worker_that_is_not_there_or_says_nothing() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with (
            millstream.connect(kafka_connect=ConnectSettings(url, timeout_ms=50)) as db,
            pytest.raises(UnavailableError, match="gave no answer"),
        ):
            db.execute("SHOW CONNECTORS;")
    with (
        millstream.connect(kafka_connect=url) as db,
        pytest.raises(UnavailableError, match="gave no answer"),
    ):
        db.execute("SHOW CONNECTORS;")


def test_a_user_and_a_password(worker: Worker) -> None:
    worker.user = "ann:a:bcd"
    with millstream.connect(kafka_connect=ConnectSettings(worker.url, "ann:a:bcd")) as db:
        assert db.execute("SHOW CONNECTORS;").fetchall() == []
    with (
        millstream.connect(kafka_connect=worker.url) as db,
        pytest.raises(StatementError, match="refuses"),
    ):
        db.execute("SHOW CONNECTORS;")
    assert "bcd" not in repr(ConnectSettings(worker.url, "ann:a:bcd"))


@pytest.mark.parametrize("url", ["localhost:8083", "ftp://localhost", "http://[", "http://a b"])
def test_urls_that_cannot_be_used(url: str) -> None:
    with pytest.raises(StatementError, match="The URL of Kafka Connect cannot be used"):
        millstream.connect(kafka_connect=url)


def test_without_kafka_connect_statements_say_what_to_do() -> None:
    with (
        millstream.connect() as db,
        pytest.raises(StatementError, match="cannot be created") as refused,
    ):
        db.execute(NUMBERS)
    assert "kafka_connect" in refused.value.hint
