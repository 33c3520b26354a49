"""A schema registry elsewhere, which may be slow, silent, wrong, or refuse."""

from __future__ import annotations

import json
import pickle
import ssl
import struct
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import Database, MillstreamError, StatementError, UnavailableError
from millstream.model.schema_text import Reference, SchemaText
from millstream.schemas import remote, requests
from millstream.schemas.client_settings import client_settings
from millstream.schemas.remote import RemoteRegistry
from tests.appending import append
from tests.certified import authority
from tests.other_registry import OtherRegistry, served
from tests.patience import PATIENCE_S, until

ONE = '{"type": "record", "name": "r", "fields": [{"name": "n", "type": "int"}]}'
INT = SchemaText("AVRO", '"int"')
READING = (
    "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO');"
    "CREATE STREAM t WITH (VALUE_FORMAT='JSON') AS SELECT * FROM s;"
)
QUICK = {"max.retries": "0", "timeout": "3"}
pytestmark = pytest.mark.timeout(PATIENCE_S)


@pytest.fixture
def other() -> OtherRegistry:
    return OtherRegistry()


@pytest.fixture
def url(other: OtherRegistry) -> Iterator[str]:
    with served(other) as url:
        yield url


def opened(url: str, path: str = ":memory:", **more: str) -> Database:
    return millstream.connect(
        path,
        schema_registry={"url": url, **QUICK, **more},
        properties={"auto.offset.reset": "earliest"},
    )


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


def payload(schema_id: int, n: int) -> bytes:
    return struct.pack(">bIB", 0, schema_id, 2 * n)


@pytest.mark.parametrize("form", ["AVRO", "PROTOBUF", "JSON_SR"])
def test_columns_come_from_it_and_schemas_go_there(
    other: OtherRegistry, url: str, form: str, tmp_path: Path
) -> None:
    path = str(tmp_path / "m.db")
    with opened(url, path) as db:
        db.execute(
            f"CREATE STREAM s (id STRING KEY, n INT, tags ARRAY<STRING>) WITH (KAFKA_TOPIC='s',"
            f" PARTITIONS=1, FORMAT='{form}');"
            "CREATE TABLE t AS SELECT id, COUNT(*) AS times FROM s GROUP BY id;"
        )
        assert set(other.subjects) == {"s-key", "s-value", "T-key", "T-value"}
        db.insert("s", [("a", 1, ["x"]), ("b", 2, [])])
        db.wait()
        assert db.engine.log.topic("_millstream_schemas") is None
    with opened(url, path) as db:
        db.execute(f"CREATE STREAM again WITH (KAFKA_TOPIC='s', FORMAT='{form}');")
        db.execute("INSERT INTO s (id, n) VALUES ('a', 3);")
        db.wait()
        assert sorted(rows(db, "SELECT * FROM t")) == [("a", 2), ("b", 1)]
        assert rows(db, "SELECT n FROM again") == [(1,), (2,), (3,)]
        db.execute("DROP TABLE t DELETE TOPIC;")
        assert set(other.subjects) == {"s-key", "s-value"}
        db.execute("CREATE TABLE t AS SELECT id, COUNT(*) AS times FROM s GROUP BY id;")
        assert "T-value" in other.subjects, "what the client remembers of it is not asked"


def test_statements_name_what_does_not_answer_and_change_nothing(
    other: OtherRegistry, url: str
) -> None:
    with opened(url) as db:
        for status, body in ((500, None), (503, None), (200, b"<html>"), (200, b'{"id": "x"}')):
            other.status, other.body = status, body
            for sql in (READING, READING.replace(" (n INT)", "")):
                with pytest.raises(UnavailableError, match=f"The schema registry at {url}"):
                    db.execute(sql)
        assert not db.engine.catalog.sources
        other.status = other.body = None
        db.execute(READING)


def test_a_schema_that_is_not_compatible_is_refused_with_its_reason(
    other: OtherRegistry, url: str
) -> None:
    other.incompatible = "the field n has no default"
    with opened(url) as db:
        with pytest.raises(StatementError, match=r"refuses .* s-value: the field n has no default"):
            db.execute(READING)
        assert not db.engine.catalog.sources


def test_queries_go_on_with_what_they_know_while_it_hangs(other: OtherRegistry, url: str) -> None:
    """A payload with a schema that nobody knows holds up its own query only."""
    for subject in ("s-value", "u-value"):
        other.register(subject, ONE)
    with opened(url) as db:
        db.execute(READING)
        db.execute(READING.replace("'s'", "'u'").replace(" s", " u").replace(" t ", " v "))
        append(db, "s", payload(101, 1))
        db.wait()
        assert rows(db, "SELECT * FROM t") == [(1,)]
        unknown = other.register("u-value", ONE.replace('"r"', '"other"'))
        other.held = threading.Event()
        append(db, "u", payload(unknown, 5))
        for n in range(2, 20):
            append(db, "s", payload(101, n))
        until(lambda: len(rows(db, "SELECT * FROM t")) == 19)
        missing = "has not answered yet (schema 102)"
        until(lambda: any(missing in status.error for status in db.engine.statuses()))
        states = {status.query_id.split("_")[1]: status.error for status in db.engine.statuses()}
        assert states["T"] == "" and states["V"]
        other.held.set()
        until(lambda: rows(db, "SELECT * FROM v") == [(5,)])
        assert db.processing_log().num_rows == 0


def test_a_query_goes_on_by_itself_when_a_schema_appears(other: OtherRegistry, url: str) -> None:
    other.register("s-value", ONE)
    with opened(url) as db:
        db.execute(READING)
        append(db, "s", payload(102, 7))
        until(lambda: "Schema 102 is not in the registry at" in db.engine.statuses()[0].error)
        assert other.register("s-value", ONE.replace('"r"', '"other"')) == 102
        until(lambda: rows(db, "SELECT * FROM t") == [(7,)])


def test_a_statement_does_not_wait_for_ever(
    other: OtherRegistry, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "STATEMENT_SECONDS", 0.1)
    other.held = threading.Event()
    with opened(url) as db:
        with pytest.raises(UnavailableError, match="has not answered yet"):
            db.execute(READING)
        assert not db.engine.catalog.sources


def test_threads_that_wait_are_bounded(
    other: OtherRegistry, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "STATEMENT_SECONDS", 0.01)
    monkeypatch.setattr(requests, "UNDER_WAY_MAX", 3)
    other.held = threading.Event()
    registry = RemoteRegistry.open({"url": url, **QUICK})
    before = threading.active_count()
    for number in range(20):
        with pytest.raises(UnavailableError, match="has not answered yet"):
            registry.by_id(number)
    # Three requests, and the threads of the test's server that answer them.
    assert threading.active_count() <= before + 6


def test_several_callers_wait_for_one_request(other: OtherRegistry, url: str) -> None:
    number = other.register("s", '"int"')
    other.held = threading.Event()
    registry = RemoteRegistry.open({"url": url, **QUICK})
    found: list[SchemaText] = []
    threads = [
        threading.Thread(target=lambda: found.append(registry.by_id(number))) for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    until(lambda: len(other.requests) == 1)
    other.held.set()
    for thread in threads:
        thread.join()
    assert found == [INT] * 5 and len(other.requests) == 1


def test_subjects_and_ids_that_it_loses(other: OtherRegistry, url: str) -> None:
    registry = RemoteRegistry.open({"url": url, **QUICK})
    first = registry.id_of("a-value", INT)
    assert registry.has("a-value", first) and registry.has(None, first)
    assert registry.has("a-value", None) and not registry.has("b-value", None)
    assert not registry.has("b-value", first) and not registry.has(None, 999)
    other.subjects.clear()
    other.texts.clear()
    other.register("others", '"string"')
    assert registry.prompt().id_of("a-value", INT) == first, "records have it already"
    assert registry.by_id(first) == INT
    second = registry.id_of("a-value", INT)
    assert second != first, "a statement registers what is not there"
    registry.delete("nothing")
    assert registry.latest("nothing") is None


def test_what_a_schema_imports(other: OtherRegistry, url: str) -> None:
    registry = RemoteRegistry.open({"url": url, **QUICK})
    other.register("x.proto", "x", "PROTOBUF")
    own = {"name": "x.proto", "subject": "x.proto", "version": 1}
    number = other.register("y", "y", "PROTOBUF", references=[own])
    text = registry.by_id(number)
    assert text == SchemaText("PROTOBUF", "y", (Reference("x.proto", "x.proto", 1),))
    assert registry.imported(text) == {"x.proto": "x"}
    with pytest.raises(StatementError, match="version 9 of x, which does not exist"):
        registry.imported(SchemaText("PROTOBUF", "z", (Reference("x", "x", 9),)))


def test_schemas_that_import_themselves(other: OtherRegistry, url: str) -> None:
    registry = RemoteRegistry.open({"url": url, **QUICK})
    for name, imported in (("x", "y"), ("y", "x")):
        reference = {"name": imported, "subject": imported, "version": 1}
        other.register(name, f"text of {name}", "PROTOBUF", references=[reference])
    wanted = SchemaText("PROTOBUF", "z", (Reference("x", "x", 1),))
    assert registry.imported(wanted) == {"x": "text of x", "y": "text of y"}


@pytest.mark.parametrize("kind", ["user", "url", "token"])
def test_credentials(other: OtherRegistry, url: str, kind: str) -> None:
    given: Mapping[str, str]
    if kind == "token":
        other.token = given_token = "s3cret"
        given, wrong = {"bearer.auth.token": given_token}, {"bearer.auth.token": "wr0ng"}
    else:
        other.user = "ann:s3cret"
        given, wrong = {"basic.auth.user.info": "ann:s3cret"}, {"basic.auth.user.info": "ann:wr0ng"}
    if kind == "url":
        given = {"url": url.replace("//", "//ann:s3cret@")}
        wrong = {"url": url.replace("//", "//ann:wr0ng@")}
    assert RemoteRegistry.open({"url": url, **QUICK, **given}).id_of("a", INT) == 101
    for refused in (wrong, {"url": url}):
        with pytest.raises(StatementError, match=r"does not let this server .* 401") as caught:
            RemoteRegistry.open({"url": url, **QUICK, **refused}).id_of("a", INT)
        assert "wr0ng" not in str(caught.value)


def test_the_next_of_several_urls_answers(url: str) -> None:
    with served(OtherRegistry()) as gone:
        pass
    assert RemoteRegistry.open({"url": f"{gone}, {url}", **QUICK}).id_of("a", INT) == 101


def test_certificates(other: OtherRegistry, tmp_path: Path) -> None:
    signing, unknown = authority("authority", tmp_path), authority("other", tmp_path)
    pem, mine = (str(signing.signed(name, tmp_path)) for name in ("server", "client"))
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(pem)
    tls.load_verify_locations(str(signing.file))
    tls.verify_mode = ssl.CERT_REQUIRED
    good = {
        "ssl.truststore.location": str(signing.file),
        "ssl.truststore.type": "PEM",
        "ssl.keystore.location": mine,
    }
    with served(other, tls) as url:
        url = url.replace("127.0.0.1", "localhost")
        assert RemoteRegistry.open({"url": url, **QUICK, **good}).id_of("a", INT) == 101
        without = {"ssl.ca.location": str(signing.file)}
        for wrong in (without, {**good, "ssl.truststore.location": str(unknown.file)}, {}):
            with pytest.raises(UnavailableError, match=f"registry at {url} cannot be used"):
                RemoteRegistry.open({"url": url, **QUICK, **wrong}).id_of("a", INT)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({}, "have no url"),
        ({"url": "localhost:8081"}, "'localhost:8081' is not the URL of a schema registry"),
        ({"url": "ftp://u:pw@host"}, "'ftp://host' is not the URL"),
        ({"url": "http://h", "basic.auth.user.inf": "a:b"}, "no setting 'basic.auth.user.inf'"),
        ({"url": "http://h", "timeout": "long"}, "'timeout' is no number: 'long'"),
        ({"url": "http://h", "timeout": "inf"}, "'timeout' is no number"),
        ({"url": "http://h", "basic.auth.user.info": "a"}, "refuses its settings"),
        ({"url": "http://h", "ssl.keystore.type": "JKS"}, "is JKS, and only PEM can be read"),
        ({"url": "http://h", "ssl.ca.location": "/none"}, "refuses its settings"),
        ({"url": "http://h", "basic.auth.credentials.source": "SASL_INHERIT"}, "SASL_INHERIT here"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(StatementError, match=message) as caught:
        RemoteRegistry.open(settings)
    assert "pw" not in str(caught.value)
    with pytest.raises(MillstreamError):
        millstream.connect(schema_registry=settings or {"timeout": "1"})


def test_settings_by_the_names_of_java() -> None:
    made = client_settings(
        {
            "schema.registry.url": "https://a, https://b",
            "basic.auth.credentials.source": "USER_INFO",
            "basic.auth.user.info": "ann:pw",
            "ssl.keystore.location": "mine.pem",
        }
    )
    assert made["url"] == "https://a, https://b"
    assert made["ssl.certificate.location"] == "mine.pem"
    assert float(str(made["timeout"])) > 0, "the client waits for ever by itself"


def test_another_process_asks_by_itself(url: str) -> None:
    registry = RemoteRegistry.open({"url": url, **QUICK})
    number = registry.id_of("a", INT)
    assert pickle.loads(pickle.dumps(registry)).by_id(number) == INT


def test_a_file_without_registry_settings_keeps_its_own(url: str, tmp_path: Path) -> None:
    path = str(tmp_path / "m.db")
    with millstream.connect(path) as db:
        db.execute(READING)
    with opened(url, path) as db:
        db.insert("s", [(1,)])
        db.wait()
        assert json.dumps(rows(db, "SELECT * FROM t")) == "[[1]]"


def test_describe_names_the_newest_schemas(other: OtherRegistry, url: str) -> None:
    with opened(url) as db:
        db.execute(READING)

        def described() -> dict[str, str]:
            return dict(rows(db, "DESCRIBE s EXTENDED;"))

        assert described()["Value schema"] == "s-value, version 1, id 101"
        assert "Key schema" not in described()
        other.register("s-value", ONE)
        assert described()["Value schema"] == "s-value, version 2, id 102"
        other.subjects.clear()
        assert described()["Value schema"] == "s-value has none"
        other.status = 500
        assert "answers with 500" in described()["Value schema"]
