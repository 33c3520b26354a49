"""Corner cases of the dialect that involve many rooms, through the public API."""

from __future__ import annotations

import pytest

from millstream import Database, History, MillstreamError, Rows
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

WITH = "WITH (KAFKA_TOPIC='t', PARTITIONS=1, FORMAT='JSON')"


def keys(db: Database, topic: str) -> list[bytes | None]:
    """The keys of a topic as they lie in the log."""
    fetched = db.engine.log.read(topic, 0, 0, 100)
    return fetched.batch["key"].to_pylist()


def test_several_partitioning_columns_give_a_record_of_nulls(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, a INT, b INT) {WITH};")
    db.execute("CREATE STREAM o AS SELECT * FROM s PARTITION BY a, b;")
    db.execute("INSERT INTO s (k) VALUES ('x');")
    db.wait()
    assert keys(db, "O") == [b'{"A":null,"B":null}']


def test_a_null_key_stays_null_in_a_projection(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, j INT KEY, a INT) {WITH};")
    db.execute("CREATE STREAM o AS SELECT * FROM s;")
    db.execute("INSERT INTO s (a) VALUES (1);")
    db.wait()
    assert keys(db, "O") == [None]


def test_the_time_of_a_record_without_a_value_is_no_key(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, a INT) {WITH};")
    db.execute("CREATE STREAM o AS SELECT k, ROWTIME AS t, a FROM s PARTITION BY k, ROWTIME;")
    nothing = raw_batch([(b'"x"', None, 5)])
    db.engine.log.writer("test").append([Appended("t", 0, nothing, 1, 10)])
    db.wait()
    assert keys(db, "O") == [b'{"K":"x","T":null}']


@pytest.mark.parametrize(("function", "kept"), [("COLLECT_LIST", [1, 1]), ("COLLECT_SET", [1, 2])])
def test_collections_stop_at_their_limit(db: Database, function: str, kept: list[int]) -> None:
    db.execute(f"SET 'ksql.functions.{function.lower()}.limit' = '2';")
    db.execute(f"CREATE STREAM s (k STRING KEY, a INT) {WITH};")
    db.execute(f"CREATE TABLE o AS SELECT k, {function}(a) AS c FROM s GROUP BY k;")
    for value in (1, 1, 2, 3):
        db.execute(f"INSERT INTO s VALUES ('x', {value});")
        db.wait()
    result = db.execute("SELECT c FROM o WHERE k = 'x';")
    assert isinstance(result, Rows | History)
    assert [list(row) for row in result] == [[kept]]


def test_values_for_what_does_not_exist_name_it(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, a INT) {WITH};")
    with pytest.raises(MillstreamError) as caught:
        db.execute("INSERT INTO `s` VALUES ('x', 1);")
    assert "Cannot insert values into an unknown stream/table: `s`" in str(caught.value)
    assert "try removing double quotes" in str(caught.value)


def test_source_streams_take_no_values(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, a INT) {WITH};")
    db.execute(
        "CREATE SOURCE STREAM r (k STRING KEY, a INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON');"
    )
    with pytest.raises(MillstreamError, match="Cannot insert values into read-only stream: R"):
        db.execute("INSERT INTO r VALUES ('x', 1);")


def test_maps_are_distinguished_independent_of_their_order(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, m MAP<STRING, INT>) {WITH};")
    db.execute("CREATE TABLE o AS SELECT k, COLLECT_SET(m) AS c FROM s GROUP BY k;")
    for entries in ("'a' := 1, 'b' := 2", "'b' := 2, 'a' := 1", "'a' := 2, 'b' := 1"):
        db.execute(f"INSERT INTO s VALUES ('x', MAP({entries}));")
    db.wait()
    result = db.execute("SELECT ARRAY_LENGTH(c) FROM o WHERE k = 'x';")
    assert isinstance(result, Rows | History)
    assert [list(row) for row in result] == [[2]]


def test_a_fatal_time_stops_the_query(db: Database) -> None:
    db.execute("SET 'ksql.timestamp.throw.on.invalid' = 'true';")
    db.execute(
        "CREATE STREAM s (k STRING KEY, t BIGINT) "
        "WITH (KAFKA_TOPIC='t', PARTITIONS=1, FORMAT='JSON', TIMESTAMP='t');"
    )
    db.execute("CREATE STREAM o AS SELECT * FROM s;")
    db.execute("INSERT INTO s VALUES ('x', -1);")
    db.wait()
    (status,) = db.engine.statuses()
    assert "Fatal user code error in TimestampExtractor callback for record" in status.error


def changes(db: Database, topic: str) -> list[tuple[bytes | None, bytes | None]]:
    """The keys and values of a topic as they lie in the log."""
    batch = db.engine.log.read(topic, 0, 0, 100).batch
    return list(zip(batch["key"].to_pylist(), batch["value"].to_pylist(), strict=True))


def test_a_table_takes_back_the_time_that_its_row_had(db: Database) -> None:
    db.execute(f"CREATE TABLE s (k STRING PRIMARY KEY, a INT) {WITH};")
    db.execute("CREATE TABLE o AS SELECT ROWTIME AS t, COUNT(*) AS n FROM s GROUP BY ROWTIME;")
    records = raw_batch([(b'"x"', b'{"A": 1}', 5), (b'"x"', None, 9)])
    db.engine.log.writer("test").append([Appended("t", 0, records, 1, 10)])
    db.wait()
    assert changes(db, "O") == [(b"5", b'{"N":1}'), (b"5", b'{"N":0}')]


def test_a_stream_row_without_a_key_is_padded_by_a_left_join(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, a INT) {WITH};")
    other = WITH.replace("'t'", "'u'")
    db.execute(f"CREATE TABLE d (k STRING PRIMARY KEY, b INT) {other};")
    for name, kind in (("o", "LEFT"), ("p", "INNER")):
        db.execute(f"CREATE STREAM {name} AS SELECT s.k, a, b FROM s {kind} JOIN d ON s.k = d.k;")
    db.execute("INSERT INTO s (a) VALUES (1);")
    db.wait()
    assert changes(db, "O") == [(None, b'{"A":1,"B":null}')]
    assert changes(db, "P") == []


def test_a_record_without_a_value_is_no_row_of_a_table_function(db: Database) -> None:
    db.execute(f"CREATE STREAM s (k STRING KEY, a INT) {WITH};")
    db.execute("CREATE STREAM o AS SELECT k, EXPLODE(ARRAY[a, 2]) AS e FROM s;")
    nothing = raw_batch([(b'"x"', None, 5), (b'"x"', b'{"A": 1}', 6)])
    db.engine.log.writer("test").append([Appended("t", 0, nothing, 1, 10)])
    db.wait()
    assert changes(db, "O") == [(b'"x"', b'{"E":1}'), (b'"x"', b'{"E":2}')]


@pytest.mark.parametrize(
    ("kind", "one", "two"),
    [
        ("ARRAY<INT>", "ARRAY[1]", "ARRAY[2]"),
        ("STRUCT<a INT>", "STRUCT(a := 1)", "STRUCT(a := 2)"),
    ],
)
def test_joins_find_nested_keys(db: Database, kind: str, one: str, two: str) -> None:
    for name, source in (("s", "STREAM"), ("d", "TABLE"), ("e", "TABLE")):
        key = "KEY" if source == "STREAM" else "PRIMARY KEY"
        there = WITH.replace("'t'", f"'{name}'")
        db.execute(f"CREATE {source} {name} (k {kind} {key}, {name}v INT) {there};")
    db.execute("CREATE STREAM o AS SELECT s.k, sv, dv FROM s JOIN d ON s.k = d.k;")
    db.execute("CREATE TABLE p AS SELECT d.k, dv, ev FROM d JOIN e ON d.k = e.k;")
    for name, key, value in (("d", one, 10), ("d", two, 20), ("e", one, 100), ("s", one, 1)):
        db.execute(f"INSERT INTO {name} VALUES ({key}, {value});")
    db.wait()
    assert [value for _, value in changes(db, "O")] == [b'{"SV":1,"DV":10}']
    assert [value for _, value in changes(db, "P")] == [b'{"DV":10,"EV":100}']
