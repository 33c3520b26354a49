"""The schema registry of a database, and statements that use it."""

from __future__ import annotations

import json
import pickle
import struct
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import (
    Database,
    EngineSettings,
    MillstreamError,
    StatementError,
    UnavailableError,
)
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.schema_text import Reference, SchemaText
from millstream.runtime.spec import QueryState
from millstream.schemas.compatibility import Level
from millstream.schemas.embedded import EmbeddedRegistry
from tests.patience import until

INT, TEXT = SchemaText("AVRO", '"int"'), SchemaText("AVRO", '"string"')


def registry(log: EmbeddedLog) -> EmbeddedRegistry:
    return EmbeddedRegistry(log, "schemas", lambda: 0)


def test_versions_ids_and_deletion_last(tmp_path: Path) -> None:
    path = str(tmp_path / "m.db")
    log = EmbeddedLog.open(path)
    made = registry(log)
    made.set_level(Level.NONE)
    assert made.latest("a-value") is None
    assert made.subjects() == ()
    assert [made.id_of("a-value", each) for each in (INT, TEXT, INT)] == [1, 2, 1]
    assert made.register("b-value", TEXT).id == 2, "one id for one text"
    made.register("c-value", INT)
    made.delete("c-value")
    made.delete("nothing")
    made.close()
    log.close()
    log = EmbeddedLog.open(path)
    again = registry(log)
    assert again.subjects() == ("a-value", "b-value")
    assert [(each.version, each.id) for each in again.versions("a-value")] == [(1, 1), (2, 2)]
    assert again.by_id(2) == TEXT
    assert again.has("a-value", 2) and again.has(None, 1) and not again.has("a-value", 3)
    assert again.register("d-value", SchemaText("AVRO", '"long"')).id == 3
    log.close()


def test_nothing_is_written_before_the_first_schema() -> None:
    log = EmbeddedLog.open(":memory:")
    assert registry(log).subjects() == ()
    assert log.topic("schemas") is None


def proto(name: str, *imported: str) -> str:
    lines = [f'import "{other}.proto";' for other in imported]
    return f'syntax = "proto3"; {" ".join(lines)} message {name} {{ int32 n = 1; }}'


def test_references_come_before_what_imports_them() -> None:
    made = registry(EmbeddedLog.open(":memory:"))
    first = made.register("x.proto", SchemaText("PROTOBUF", proto("X")))
    own = (Reference("x.proto", "x.proto", first.version),)
    middle = made.register("y.proto", SchemaText("PROTOBUF", proto("Y", "x"), own))
    both = (Reference("y.proto", "y.proto", middle.version), *own)
    assert list(made.imported(SchemaText("PROTOBUF", "z", both))) == ["x.proto", "y.proto"]
    with pytest.raises(StatementError, match=r"version 9 of x\.proto, which does not exist"):
        made.register("w", SchemaText("PROTOBUF", proto("W"), (Reference("x", "x.proto", 9),)))


def test_imports_that_double_at_each_schema_are_looked_at_once() -> None:
    made = registry(EmbeddedLog.open(":memory:"))
    made.set_level(Level.NONE)
    before: tuple[Reference, ...] = ()
    for n in range(60):
        text = SchemaText("PROTOBUF", proto(f"M{n}"), before)
        version = made.register(f"m{n}", text).version
        before = tuple(Reference(f"m{n}.{side}", f"m{n}", version) for side in "ab")
    found = made.imported(SchemaText("PROTOBUF", proto("Last"), before))
    assert len(found) == 120
    assert list(found)[-1] == "m59.b"


def test_another_process_gets_what_is_known() -> None:
    made = registry(EmbeddedLog.open(":memory:"))
    made.register("a-value", INT)
    sent = pickle.loads(pickle.dumps(made))
    assert (sent.by_id(1), sent.id_of("a-value", INT), sent.has("a-value", 1)) == (INT, 1, True)
    with pytest.raises(UnavailableError, match="not registered before the job"):
        sent.id_of("a-value", TEXT)


def opened(path: str = ":memory:", batch: int = 1_000) -> Database:
    return millstream.connect(
        path,
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest"},
    )


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


CREATED = """
CREATE STREAM orders (id STRING KEY, n INT, price DECIMAL(6, 2), tags ARRAY<STRING>,
    more MAP<STRING, BIGINT>, lives STRUCT<town STRING, zip INT>)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=1, FORMAT='{0}');
CREATE STREAM copies AS SELECT * FROM orders;
CREATE TABLE counted AS SELECT id, COUNT(*) AS times, SUM(n) AS total FROM orders GROUP BY id;
"""
ROWS = [
    ("a", 1, Decimal("1.50"), ["x", "y"], [("k", 5)], {"TOWN": "Bern", "ZIP": 3000}),
    ("b", 2, Decimal("-7.00"), [], [], {"TOWN": "Graz", "ZIP": 8000}),
    ("a", 3, Decimal("0.00"), ["z"], [("p", 1), ("q", 2)], {"TOWN": "", "ZIP": 0}),
]


@pytest.mark.parametrize("form", ["AVRO", "PROTOBUF", "JSON_SR"])
@pytest.mark.parametrize("batch", [1, 2, 1_000])
def test_streams_and_tables_in_each_format(tmp_path: Path, form: str, batch: int) -> None:
    path = str(tmp_path / "m.db")
    names = ("id", "n", "price", "tags", "more", "lives")
    data = [dict(zip(names, (*row[:4], dict(row[4]), row[5]), strict=True)) for row in ROWS]
    with opened(path, batch) as db:
        db.execute(CREATED.format(form))
        db.insert("orders", data[:2])
        db.wait()
    with opened(path, batch) as db:
        db.insert("orders", data[2:])
        db.wait()
        assert rows(db, "SELECT * FROM copies") == ROWS
        assert sorted(rows(db, "SELECT * FROM counted")) == [("a", 2, 4), ("b", 1, 2)]
        assert rows(db, "SELECT * FROM counted WHERE id = 'a'") == [("a", 2, 4)]
        db.execute(f"CREATE STREAM again WITH (KAFKA_TOPIC='COPIES', FORMAT='{form}');")
        found = rows(db, "SELECT n, price, lives->town FROM again")
        assert found == [(n, price, lives["TOWN"]) for _, n, price, _, _, lives in ROWS]


def test_nulls_of_a_protobuf_table_are_zeros_for_every_reader() -> None:
    with opened() as db:
        db.execute(
            "CREATE STREAM s (id STRING KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1,"
            " VALUE_FORMAT='JSON');"
            "CREATE TABLE t WITH (VALUE_FORMAT='PROTOBUF') AS SELECT id, LATEST_BY_OFFSET(n) AS n,"
            " COLLECT_LIST(n) AS l FROM s GROUP BY id;"
            "CREATE TABLE u WITH (VALUE_FORMAT='PROTOBUF', VALUE_PROTOBUF_NULLABLE_REPRESENTATION="
            "'OPTIONAL') AS SELECT id, LATEST_BY_OFFSET(n) AS n FROM s GROUP BY id;"
        )
        db.insert("s", [("a", None)])
        db.wait()
        assert rows(db, "SELECT id, n FROM t") == [("a", 0)]
        assert rows(db, "SELECT id FROM t WHERE n = 0") == [("a",)]
        assert rows(db, "SELECT * FROM u") == [("a", None)]


def append(db: Database, topic: str, *values: bytes) -> None:
    batch = raw_batch([(None, value, 0) for value in values])
    writer = db.engine.log.writer("test")
    writer.append([Appended(topic, 0, batch, len(values), batch.nbytes)])
    db.engine.driver.wake()


def test_bad_payloads_are_reported_and_others_are_read() -> None:
    with opened() as db:
        db.execute(
            "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO',"
            " WRAP_SINGLE_VALUE=false);"
            "CREATE STREAM t WITH (VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=true) AS SELECT * FROM s;"
        )
        schemas = db.engine.schemas
        assert schemas is not None
        other = schemas.register("o", SchemaText("JSON", "{}")).id
        schemas.set_level(Level.NONE)
        wide = schemas.register("s-value", SchemaText("AVRO", '{"type": "array", "items": "int"}'))
        own = struct.pack(">bI", 0, 1)
        bad = [b"", b"\1abcd\2", b"\0\0\0", own, struct.pack(">bI", 0, other) + b"1"]
        bad += [struct.pack(">bI", 0, wide.id) + b"\2\2\0", own + b"\xff" * 11]
        append(db, "s", own + b"\2", *bad, own + b"\4")
        db.wait()
        assert rows(db, "SELECT * FROM t") == [(1,), (2,)]
        problems = db.processing_log().to_pylist()
        assert [p["offset"] for p in problems] == [*range(1, 8)]
        assert all(p["raw_value"] == value for p, value in zip(problems, bad, strict=True))
        texts = [p["message"] for p in problems]
        assert sum("does not begin with a zero and the id of a schema" in t for t in texts) == 3
        assert any("is JSON, not AVRO" in t for t in texts)
        assert any(
            "column N is INTEGER, and the schema has ARRAY<INTEGER> there" in t for t in texts
        )


def test_a_payload_waits_for_its_schema() -> None:
    """A schema that the registry does not have yet is nobody's mistake."""
    with opened() as db:
        db.execute(
            "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO',"
            " WRAP_SINGLE_VALUE=false);"
            "CREATE STREAM t WITH (VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=true) AS SELECT * FROM s;"
        )
        append(db, "s", struct.pack(">bI", 0, 2) + b"\2")
        db.wait()
        (status,) = db.engine.statuses()
        assert "Schema 2 is not in the registry" in str(status.error)
        assert status.state is QueryState.OPENING, "it tries again"
        assert db.engine.schemas is not None
        db.engine.schemas.register("s-value", SchemaText("AVRO", '{"type": "int"}'), 2)
        until(lambda: rows(db, "SELECT * FROM t") == [(1,)])
        assert db.processing_log().num_rows == 0


def test_assert_schema() -> None:
    with opened() as db:
        db.execute(
            "CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO');"
        )
        for held in ("SUBJECT 's-value'", "ID 1", "SUBJECT 's-value' ID 1"):
            db.execute(f"ASSERT SCHEMA {held} TIMEOUT 0 SECONDS;")
        db.execute("ASSERT NOT EXISTS SCHEMA SUBJECT 's-key' TIMEOUT 0 SECONDS;")
        with pytest.raises(StatementError, match="a schema of subject s-value and id 2 does not"):
            db.execute("ASSERT SCHEMA SUBJECT 's-value' ID 2 TIMEOUT 0 SECONDS;")
        db.execute("DROP STREAM s DELETE TOPIC;")
        db.execute("ASSERT NOT EXISTS SCHEMA SUBJECT 's-value' TIMEOUT 0 SECONDS;")


def test_columns_are_part_of_the_statement(tmp_path: Path) -> None:
    """A later schema does not change a stream that was created before."""
    path = str(tmp_path / "m.db")
    one = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
    two = one.replace("}]}", '}, {"name": "b", "type": "string", "default": ""}]}')
    with opened(path) as db:
        assert db.engine.schemas is not None
        db.engine.schemas.register("s-value", SchemaText("AVRO", one))
        db.execute("CREATE STREAM s WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO');")
        db.engine.schemas.register("s-value", SchemaText("AVRO", two))
        db.execute(
            "CREATE STREAM both WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');"
            "CREATE STREAM one WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO',"
            " VALUE_SCHEMA_ID=1);"
        )
    with opened(path) as db:
        shown = {name: str(source.schema) for name, source in db.engine.catalog.sources.items()}
        assert (shown["S"], shown["BOTH"]) == ("`A` INTEGER", "`A` INTEGER, `B` STRING")
        assert shown["ONE"] == "`a` INTEGER", "the names of a schema that is chosen are kept"


def test_rows_are_inserted_by_the_newest_schema_that_there_is() -> None:
    fields = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": "string", "default": "none"},
    ]
    text = json.dumps({"type": "record", "name": "theirs", "fields": fields})
    with opened() as db:
        assert db.engine.schemas is not None
        theirs = db.engine.schemas.register("s-value", SchemaText("AVRO", text))
        db.execute(
            "CREATE STREAM s (id BIGINT) WITH (KAFKA_TOPIC='s', PARTITIONS=1,"
            " VALUE_FORMAT='AVRO');"
            "CREATE STREAM wrong (id STRING) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');"
        )
        db.insert("s", [(1,), (2,)])
        db.execute("INSERT INTO s VALUES (3);")
        with pytest.raises(StatementError, match="Schema 1 does not have the columns"):
            db.insert("wrong", [("x",)])
        assert db.engine.schemas.versions("s-value") == (theirs,)
        db.execute("CREATE STREAM all_ WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO');")
        assert rows(db, "SELECT * FROM all_") == [(n, "none") for n in (1, 2, 3)]


def test_a_file_of_statements_finds_the_columns_again(tmp_path: Path) -> None:
    path, file = str(tmp_path / "m.db"), tmp_path / "queries.sql"
    file.write_text(
        "CREATE STREAM s WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='AVRO');\n"
        "CREATE STREAM t AS SELECT * FROM s;\n"
    )
    text = '{"type": "record", "name": "r", "fields": [{"name": "a", "type": "int"}]}'
    with opened(path) as db:
        assert db.engine.schemas is not None
        db.engine.schemas.register("s-value", SchemaText("AVRO", text))
    for _ in range(2):
        with millstream.connect(path, queries_file=str(file)) as db:
            assert str(db.engine.catalog.sources["T"].schema) == "`A` INTEGER"
    file.write_text(file.read_text().replace("STREAM s WITH", "STREAM s (b INT) WITH"))
    with pytest.raises(MillstreamError, match="queries file"):
        millstream.connect(path, queries_file=str(file)).close()


def test_names_of_a_schema_are_matched_in_any_case_by_every_format() -> None:
    texts = {
        "AVRO": '{"type": "record", "name": "r", "fields": [{"name": "town", "type": {"type":'
        ' "record", "name": "t", "fields": [{"name": "zip", "type": "long"}]}}]}',
        "JSON_SR": '{"type": "object", "properties": {"town": {"type": "object", "properties":'
        ' {"zip": {"type": "integer"}, "more": {"type": "string"}}}, "other": {"type": "number"}}}',
        "PROTOBUF": 'syntax = "proto3"; message M { T town = 1; message T { int64 zip = 1; } }',
    }
    with opened() as db:
        assert db.engine.schemas is not None
        for form, text in texts.items():
            kind = "JSON" if form == "JSON_SR" else form
            db.engine.schemas.register(f"{form}-value", SchemaText(kind, text))
            db.execute(
                f"CREATE STREAM {form} (town STRUCT<zip BIGINT>) WITH (KAFKA_TOPIC='{form}',"
                f" PARTITIONS=1, VALUE_FORMAT='{form}');"
                f"CREATE STREAM wrong_{form} (town BOOLEAN) WITH (KAFKA_TOPIC='{form}',"
                f" VALUE_FORMAT='{form}');"
            )
            db.execute(f"INSERT INTO {form} VALUES (STRUCT(zip := CAST(5 AS BIGINT)));")
            assert rows(db, f"SELECT town->zip FROM {form}") == [(5,)]
            with pytest.raises(StatementError, match=r"does not have the columns: (town|TOWN) is"):
                db.execute(f"INSERT INTO wrong_{form} VALUES (TRUE);")


def test_schemas_that_statements_name() -> None:
    created = "CREATE STREAM {} WITH (KAFKA_TOPIC='{}', FORMAT='AVRO', {}) AS SELECT * FROM s;"
    with opened() as db:
        db.execute(
            "CREATE STREAM s (a STRING KEY, b INT KEY, v DOUBLE) WITH (KAFKA_TOPIC='s',"
            " PARTITIONS=1, FORMAT='AVRO');"
        )
        db.execute(created.format("one", "one", "KEY_SCHEMA_ID=1, VALUE_SCHEMA_ID=2"))
        db.insert("s", [("x", 1, 2.5)])
        db.wait()
        assert rows(db, "SELECT * FROM one") == [("x", 1, 2.5)]
        assert db.engine.schemas is not None
        assert db.engine.schemas.subjects() == ("s-key", "s-value")
        with pytest.raises(StatementError, match="key columns are changed, missing or reordered"):
            db.execute(created.format("two", "two", "KEY_SCHEMA_ID=2"))
        for statement in (
            created.format("three", "three", "VALUE_SCHEMA_ID=99"),
            "CREATE STREAM four WITH (KAFKA_TOPIC='s', VALUE_FORMAT='AVRO', VALUE_SCHEMA_ID=99);",
        ):
            with pytest.raises(StatementError, match=r"Subject: .*-value, id 99"):
                db.execute(statement)
