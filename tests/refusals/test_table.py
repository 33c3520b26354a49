"""Every template words the refusal of some statement: of one in the table, of a mutant of our own
statements, or of one that takes another road."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import httpx
import pyarrow as pa
import pytest

import millstream
from millstream import Database
from millstream.formats.codec import write_payload
from millstream.formats.payload import Layout, Subject
from millstream.model.errors import ConflictError, MillstreamError, StatementError
from millstream.model.overrides import Overrides
from millstream.model.schema import Column
from millstream.model.types import STRING
from millstream.query.results import Stream
from millstream.query.session import Bounds, Session
from tests.patience import PATIENCE_S
from tests.refusals.families import TEMPLATES, families_of, pattern
from tests.refusals.sources import opened, refusal
from tests.refusals.table import ROWS
from tests.refusals.table.row import Refused
from tests.refusals.test_refusals import GOLDEN, Refusal, tried
from tests.served import NO_AUTHORITIES, served
from tests.server.test_peeking import TOPOLOGY

WHOLE = {
    "catalog.TIMESTAMP_FORMAT_MISSING": "the property is not there",
    "model.WRONG_KIND": "the kind and the name do not go together",
    "query.WHERE_MISSING": "there is no WHERE",
    "query.ONE_SELECT": "it is another statement",
    "query.RECURSION": "the tree of more SQL than the dialect has keeps no places",
    "query.NESTED_TOO_DEEP": "the tree of more SQL than the dialect has keeps no places",
    "query.NOT_QUERIED": "the tree of more SQL than the dialect has keeps no places",
    "query.NOT_ALLOWED": "the tree of more SQL than the dialect has keeps no places",
    "query.FOR_VERSION": "the tree of more SQL than the dialect has keeps no places",
    "query.UNREADABLE": "sqlglot cannot read it",
    "query.PULL_FAILED": "DuckDB refuses it as a whole",
    "statements.ALTER_SYSTEM": "there is no such statement here",
    "model.SCHEMA_NOT_OF_FORMAT": "the name may be one within a STRUCT",
    "service.SPOOL": "there is no such statement here",
    "statements.EXPLAINED_KIND": "there is no such statement here",
    "service.RUN_SCRIPT": "there is no such statement over a network",
    "service.BACKUP_OVER_NETWORK": "there is no such statement over a network",
    "statements.COPY_OVER_NETWORK": "there is no such statement over a network",
    "statements.INSERTS_DISABLED": "the statement is switched off",
    "statements.PULL_DISABLED": "the statement is switched off",
    "statements.PULL_ON_STREAM": "the statement is switched off",
    "ddl.IDLE_WINDOWS_BY_ARRIVAL": "two properties of the session do not go together",
    "ddl.WALL_CLOCK_BY_ARRIVAL": "a property of the session and a processor do not go together",
    "statements.INSERTED_TWICE": "a list of names keeps no places",
    "statements.INSERT_INTO_WINDOWED": "the message names nothing, as ksqlDB's does not",
    "statements.ASSERTION_FAILED": "the topic is not as all of it says",
}.keys()
"""Refusals that point at no part of the statement."""
EXEMPT = {
    "ddl.NO_ORDER_OF_ARRIVAL": "of topics on Kafka, and of files that version 0.1 made",
    "statements.PULL_OF_SOURCE_FAILED": "DuckDB fails, for lack of memory for example",
    "statements.ROWS_UNREADABLE": "of Database.insert (test_bulk_inserts.py), as the next ones",
    "statements.ROWS_REFUSED": "of Database.insert",
    "statements.ROW_UNREADABLE": "of Database.insert",
    "statements.QUERY_OF_MANY": "of Database.executemany",
    "statements.ROW_OF_PARAMETERS": "of Database.executemany",
    "statements.ROW_OF_DATA": "of Database.insert",
    "query.ROWS_WITHOUT_COLUMN": "another instance asks for what no instance asks for",
    "service.CATALOG_FROM_FILE": "of databases that are made from a file (test_headless.py)",
    "query.ROWS_UNREADABLE": "another instance asks, and DuckDB fails",
    "ddl.UPGRADE_OF_STATE": "a guard: check_upgrade refuses all that is known to change state",
}.keys()
"""Templates that no statement meets in one process without a broker."""


@pytest.fixture(scope="module")
def database() -> Iterator[Database]:
    with opened() as database:
        yield database


def parameters_of(error: MillstreamError, family: str) -> Mapping[str, str]:
    """The parameters of a template; those of the parser, which has none, from its message."""
    if error.code != "E-SYNTAX":
        return {name: str(value) for name, value in error.parameters.items()}
    message = _PLACE.sub("", error.message)
    found = pattern(TEMPLATES[family]).fullmatch(message)
    assert found is not None, message
    return found.groupdict()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row.family}: {row.marked[:60]}")
def test_a_statement_is_refused_by_its_template(database: Database, row: Refused) -> None:
    error = refusal(database, Session(dict(row.given), local=row.local), row.text)
    assert families_of(error.message) == [row.family], error.message
    assert parameters_of(error, row.family) == row.parameters
    span = error.span
    assert (None if span is None else (span.start, span.end)) == row.place
    if span is not None:
        before = row.text[: span.start]
        place = before.count("\n") + 1, span.start - before.rfind("\n")
        assert (span.line, span.column) == place


def test_only_refusals_of_whole_statements_point_at_nothing() -> None:
    assert {row.family for row in ROWS if row.place is None} == WHOLE


_PLACE = re.compile(r"(Failed to prepare statement: )?line \d+:\d+: ")
Road = Callable[[Database, Path], MillstreamError]


def _files(_: Database, folder: Path, text: str) -> MillstreamError:
    """How a database is refused that was made by a file of statements with another text."""
    path = folder / "app.sql"
    path.write_text(
        "CREATE STREAM s (a INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    millstream.connect(str(folder / "app.db"), queries_file=str(path)).close()
    path.write_text(text)
    with pytest.raises((StatementError, ConflictError)) as caught:
        millstream.connect(str(folder / "app.db"), queries_file=str(path))
    return caught.value


def _changed_file(database: Database, folder: Path) -> MillstreamError:
    return _files(database, folder, "CREATE TYPE t AS INT;")


def _other_file(database: Database, folder: Path) -> MillstreamError:
    return _files(database, folder, "DROP STREAM s;")


def _columns(database: Database, folder: Path) -> MillstreamError:
    path = folder / "orders.csv"
    path.write_text("id,colour\n1,red\n")
    return refusal(database, Session(), f"COPY orders FROM '{path}';")


def _prohibited(database: Database, _: Path) -> MillstreamError:
    session = Session(overrides=Overrides(frozenset({"auto.offset.reset"})))
    return refusal(database, session, "SET 'auto.offset.reset' = 'latest';")


def _without_connectors(database: Database, _: Path) -> MillstreamError:
    database.engine.connectors, found = None, database.engine.connectors
    try:
        return refusal(database, Session(), "SHOW CONNECTORS;")
    finally:
        database.engine.connectors = found


def _bounded(database: Database, _: Path) -> MillstreamError:
    return refusal(database, Session(bounds=Bounds(rows=0)), "SELECT * FROM orders;")


def _signature(_: Database, __: Path) -> MillstreamError:
    with pytest.raises(StatementError) as caught:
        millstream.udf("f", "STRING ->", len)
    return caught.value


def _subscribed(database: Database, _: Path) -> MillstreamError:
    with pytest.raises(StatementError) as caught:
        database.subscribe("SELECT * FROM orders;")
    return caught.value


def _fetched(database: Database, _: Path) -> MillstreamError:
    stream = database.execute("SELECT * FROM orders EMIT CHANGES;")
    assert isinstance(stream, Stream)
    with stream, pytest.raises(StatementError) as caught:
        stream.fetchall()
    return caught.value


def _peeked(_: Database, __: Path) -> MillstreamError:
    with millstream.connect() as database:
        (query_id,) = database.deploy(TOPOLOGY, "doubling").queries
        return refusal(database, Session(), f"PEEK {query_id} AT nothing;")


def _unfit(database: Database, folder: Path) -> MillstreamError:
    """A schema that has changed since the statement that names it was checked."""
    schemas = database.engine.schemas
    assert schemas is not None
    subject = Subject(schemas, "texts-value", "X", is_key=False)
    columns = (Column("W", STRING),)
    layout = Layout(columns, properties={"schemaId": "4"}, subject=subject)
    with pytest.raises(StatementError) as caught:
        write_payload(database.engine.store.cursor(), [pa.array(["x"])], layout, "AVRO", 1)
    return caught.value


def _without_registry(database: Database, folder: Path) -> MillstreamError:
    engine, kept = database.engine, database.engine.schemas
    engine.schemas = engine.registry.schemas = None
    try:
        return refusal(database, Session(), "ASSERT SCHEMA ID 1 TIMEOUT 0 SECONDS;")
    finally:
        engine.schemas = engine.registry.schemas = kept


ROADS: dict[str, tuple[Road, Mapping[str, str]]] = {
    "model.SIGNATURE": (_signature, {"name": "f", "signature": "STRING ->"}),
    "model.SETTING_PROHIBITED": (_prohibited, {"name": "auto.offset.reset"}),
    "query.ANSWER_TOO_LONG": (_bounded, {"most": "0", "unit": "rows"}),
    "query.FETCHED_WITHOUT_END": (_fetched, {}),
    "service.SUBSCRIBED_KIND": (_subscribed, {}),
    "model.SCHEMA_NOT_OF_COLUMNS": (
        _unfit,
        {"id": "4", "reason": "the schema needs V, which no column has"},
    ),
    "connectors.CONNECT_MISSING": (_without_connectors, {}),
    "catalog.REGISTRY_NEEDED": (_without_registry, {"what": "ASSERT SCHEMA"}),
    "statements.PEEKED_NODE_MISSING": (
        _peeked, {"query_id": "CSAS_DOUBLED_1", "node": "nothing"}
    ),
    "statements.FILE_COLUMNS": (_columns, {"path": "{folder}/orders.csv", "unknown": "colour"}),
    "service.QUERIES_FILE_DIFFERS": (_changed_file, {"path": "{folder}/app.sql"}),
    "service.QUERIES_FILE_STATEMENT": (
        _other_file, {"what": "queries file", "statement": "DROP STREAM s"}
    ),
}  # fmt: skip
"""What is refused elsewhere than in a statement alone, and the parameters of the template."""


@pytest.mark.parametrize("family", ROADS)
def test_other_roads(database: Database, tmp_path: Path, family: str) -> None:
    road, wanted = ROADS[family]
    error = road(database, tmp_path)
    assert families_of(error.message) == [family], error.message
    parameters = {name: value.replace("{folder}", str(tmp_path)) for name, value in wanted.items()}
    assert parameters_of(error, family) == parameters


INSERTS = {
    "statements.ROWS_INTO_UNKNOWN": (
        "nothing",
        {},
        "Cannot insert values into an unknown stream: ",
    ),
    "statements.ROWS_INTO_TABLE": ("people", {}, "Cannot insert into a table"),
    "statements.INSERTED_HEADER": ("heads", {}, "Cannot insert into HEADER columns: H"),
    "statements.ROW_REFUSED": ("orders", {"ID": "x"}, "Failed to insert into ORDERS: "),
}
"""What is refused of rows that a client sends: the stream, a row, and how the message starts."""


@pytest.mark.parametrize("family", INSERTS)
def test_rows_over_the_network(database: Database, family: str) -> None:
    target, row, start = INSERTS[family]
    content = "\n".join(map(json.dumps, ({"target": target}, row)))
    with (
        served(database.engine) as found,
        httpx.Client(
            base_url=found.url, verify=NO_AUTHORITIES, http1=False, http2=True, timeout=PATIENCE_S
        ) as client,
    ):
        answer = client.post("/inserts-stream", content=content)
    message = json.loads(answer.text.splitlines()[0])["message"]
    first = message.splitlines()[0]
    assert families_of(first) == [family] and first.startswith(start), message


def test_every_template_is_met() -> None:
    met = {row.family for row in ROWS} | ROADS.keys() | INSERTS.keys()
    for path in GOLDEN:
        for _, _, error in tried(path.read_text().split("\n--- ")[0], {}, 1):
            if isinstance(error, Refusal):
                met.update(families_of(error.message))
    assert sorted(TEMPLATES.keys() - met - EXEMPT) == []
    assert sorted(met & EXEMPT) == [] and TEMPLATES.keys() >= EXEMPT and len(EXEMPT) <= 12
