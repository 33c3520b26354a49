"""Bad records, bad statements, full disks: a clear error or an entry in the processing log."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest

import millstream
from millstream import ConflictError, Database, History, MillstreamError, Rows, StatementError
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

PLAIN = (
    "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, "
    "VALUE_FORMAT='JSON');"
)


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result, key=repr)


def send(
    db: Database, topic: str, records: Iterable[tuple[bytes | None, bytes | None, int]]
) -> None:
    """Records as another program would write them."""
    listed = list(records)
    db.engine.writer.append([Appended(topic, 0, raw_batch(listed), len(listed))])


def problems(db: Database, kind: str) -> list[dict[str, object]]:
    return [row for row in db.processing_log().to_pylist() if row["kind"] == kind]


def states(db: Database) -> dict[str, str]:
    return {str(row[3]): str(row[2]) for row in rows(db, "SHOW QUERIES;")}


# Records


def test_undecodable_records_are_reported_and_passed(db: Database) -> None:
    db.execute(PLAIN + "CREATE TABLE c AS SELECT k, COUNT(v) AS n FROM s GROUP BY k;")
    good = (b"a", b'{"V": 1}', 5)
    send(db, "s", [good, (b"a", b"{nonsense", 5), good, (b"a", b'{"V": "x"}', 5), good])
    db.wait()
    assert rows(db, "SELECT * FROM c;") == [("a", 3)]
    found = problems(db, "DESERIALIZATION")
    assert [(row["topic"], row["offset"], row["raw_value"]) for row in found] == [
        ("s", 1, b"{nonsense"),
        ("s", 3, b'{"V": "x"}'),
    ]
    assert all(str(row["query"]).startswith("CTAS_C") for row in found)
    assert states(db)["C"] == "RUNNING"
    assert "2 (DESERIALIZATION 2)" in dict(rows(db, "DESCRIBE s EXTENDED;")).values()


def test_failing_expressions_become_null(db: Database) -> None:
    db.execute(PLAIN + "CREATE STREAM d AS SELECT k, 10 / v AS q, CAST(k AS INT) AS i FROM s;")
    for key, v in (("1", 5), ("x", 2), ("3", 0), ("4", 10)):
        db.execute(f"INSERT INTO s VALUES ('{key}', {v});")
    db.wait()
    found = rows(db, "SELECT * FROM d;")
    assert found == [("1", 2, 1), ("3", None, 3), ("4", 1, 4), ("x", 5, None)]
    assert sorted(str(row["offset"]) for row in problems(db, "EXPRESSION")) == ["1", "2"]
    assert states(db)["D"] == "RUNNING"


def test_failing_predicates_drop_the_row(db: Database) -> None:
    db.execute(PLAIN + "CREATE STREAM d AS SELECT * FROM s WHERE 10 / v > 1;")
    for v in (5, 0, 2):
        db.execute(f"INSERT INTO s VALUES ('a', {v});")
    db.wait()
    assert rows(db, "SELECT v FROM d;") == [(2,), (5,)]
    assert len(problems(db, "EXPRESSION")) == 1


def test_records_without_a_usable_time(db: Database) -> None:
    db.execute(PLAIN + "CREATE STREAM d AS SELECT * FROM s;")
    send(db, "s", [(b"a", b'{"V": 1}', -1), (b"b", b'{"V": 2}', 0), (b"c", b'{"V": 3}', -(2**40))])
    db.wait()
    assert rows(db, "SELECT * FROM d;") == [("b", 2)]
    assert [row["offset"] for row in problems(db, "TIMESTAMP")] == [0, 2]


def test_tables_skip_records_without_a_key(db: Database) -> None:
    db.execute(
        "CREATE TABLE t (k STRING PRIMARY KEY, v INT) "
        "WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "CREATE TABLE u AS SELECT * FROM t;"
    )
    send(db, "t", [(b"a", b'{"V": 1}', 0), (None, b'{"V": 2}', 0), (None, None, 0)])
    send(db, "t", [(b"b", b'{"V": 3}', 0), (b"a", None, 0)])
    db.wait()
    assert rows(db, "SELECT * FROM u;") == [("b", 3)]
    assert states(db)["U"] == "RUNNING"


def test_groups_without_a_key_are_left_out(db: Database) -> None:
    db.execute(
        "CREATE STREAM s (v INT, g STRING) "
        "WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');"
        "CREATE TABLE c AS SELECT g, COUNT(*) AS n FROM s GROUP BY g;"
        "INSERT INTO s VALUES (1, 'a'); INSERT INTO s VALUES (2, NULL);"
    )
    db.wait()
    assert rows(db, "SELECT * FROM c;") == [("a", 1)]


@pytest.mark.parametrize(
    ("setting", "record"),
    [
        ("ksql.fail.on.deserialization.error", (b"a", b"nonsense", 1)),
        ("ksql.timestamp.throw.on.invalid", (b"a", b'{"V": 9}', -1)),
    ],
)
def test_a_strict_query_stops_there_and_no_other_one(
    db: Database, setting: str, record: tuple[bytes, bytes, int]
) -> None:
    db.execute(PLAIN + f"SET '{setting}' = 'true'; CREATE STREAM strict AS SELECT * FROM s;")
    db.execute(f"UNSET '{setting}'; CREATE STREAM lax AS SELECT * FROM s;")
    send(db, "s", [(b"a", b'{"V": 1}', 1)])
    db.wait()
    send(db, "s", [record, (b"a", b'{"V": 2}', 1)])
    db.wait()
    assert rows(db, "SELECT v FROM lax;") == [(1,), (2,)]
    assert rows(db, "SELECT v FROM strict;") == [(1,)]
    found = states(db)
    assert found["LAX"] == "RUNNING"
    assert found["STRICT"].startswith("ERROR: ")
    assert "record at offset 1 of topic s, partition 0" in found["STRICT"]
    query = next(row[0] for row in rows(db, "SHOW QUERIES;") if row[3] == "STRICT")
    db.execute(f"RESUME {query};")
    db.wait()
    assert states(db)["STRICT"].startswith("ERROR"), "it meets the same record again"
    db.execute("DROP STREAM strict;")


# Statements


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT amuont FROM t;", ("Line: 1, Col: 8", "AMUONT", "Did you mean AMOUNT?")),
        ("SELECT * FROM orders;", ("ORDERS does not exist",)),
        ("SELECT * FROM paymets;", ("PAYMETS does not exist.\nDid you mean PAYMENTS?",)),
        ("DROP STREAM payment;", ("Stream PAYMENT does not exist.\nDid you mean PAYMENTS?",)),
        ("INSERT INTO paymnts VALUES ('a', 1);", ("PAYMNTS", "Did you mean PAYMENTS?")),
        ("INSERT INTO payments (k, amnt) VALUES ('a', 1);", ("AMNT", "Did you mean AMOUNT?")),
        ("PRINT paymets;", ("Could not find topic 'paymets'\nDid you mean 'payments'?",)),
        (
            "CREATE STREAM u (k INT KEY) WITH (KAFKA_TOPIC='paymets', VALUE_FORMAT='JSON');",
            ("Kafka topic does not exist: paymets\nDid you mean 'payments'? Add PARTITIONS",),
        ),
        (
            "CREATE STREAM u (k BIGIN KEY) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSON');",
            ("Cannot resolve unknown type: BIGIN", "Did you mean BIGINT?"),
        ),
        (
            "CREATE STREAM u (k INT KEY) WITH (KAFKA_TOPIC='u', VALUE_FORMAT='JSN');",
            ("Unknown format: JSN", "Did you mean JSON?"),
        ),
        (
            "SELECT t.amuont FROM t JOIN payments p WITHIN 1 DAY ON t.k = p.k EMIT CHANGES;",
            ("'T.AMUONT' cannot be resolved", "Did you mean AMOUNT?"),
        ),
        ("SELECT UCASEE(k) FROM t;", ("UCASEE", "Did you mean UCASE? SHOW FUNCTIONS")),
        ("DESCRIBE FUNCTION ucasee;", ("UCASEE", "Did you mean UCASE?")),
        ("DROP TYPE adress;", ("Type ADRESS does not exist.\nDid you mean ADDRESS?",)),
        ("SELECT UCASE(amount) FROM t;", ("ucase(STRING)", "INTEGER")),
        ("SELECT FROM t;", ("line 1:8",)),
        ("SELEKT 1;", ("SELECT",)),
        ("CREATE STREAM x AS SELECT amount FROM t;", ("Key missing",)),
        ("SELECT 'open FROM t;", ("line 1",)),
    ],
)
def test_mistakes_are_named(db: Database, sql: str, words: tuple[str, ...]) -> None:
    for name in ("t", "payments"):
        db.execute(
            f"CREATE STREAM {name} (k STRING KEY, amount INT) "
            f"WITH (KAFKA_TOPIC='{name}', PARTITIONS=1, VALUE_FORMAT='JSON');"
        )
    db.execute("CREATE TYPE address AS STRUCT<street STRING>;")
    with pytest.raises(StatementError) as caught:
        db.execute(sql)
    for word in words:
        assert word in str(caught.value)


def test_very_long_and_very_deep_statements(db: Database) -> None:
    db.execute(PLAIN)
    with pytest.raises(StatementError, match=r"limit"):
        db.execute("SELECT " + "v + " * 400_000 + "1 FROM s;")
    with pytest.raises(StatementError, match=r"nest|deep"):
        db.execute("SELECT " + "(" * 200 + "v" + ")" * 200 + " AS x FROM s;")
    with pytest.raises(StatementError, match="too many statements"):
        db.execute("SHOW STREAMS;" * 501)
    long = "x" * 900_000
    db.execute(f"INSERT INTO s VALUES ('{long}', 1);")
    assert rows(db, "SELECT LEN(k) AS n FROM s;") == [(900_000,)]
    deep = "(" * 50 + "v" + ")" * 50
    db.execute(f"CREATE STREAM deep AS SELECT k, {deep} + 1 AS w FROM s;")
    db.wait()
    assert rows(db, "SELECT w FROM deep;") == [(2,)]


@pytest.mark.parametrize("text", ["\x00", "SELECT '\x00';", "\ufeffSHOW STREAMS", "💥;", "${", "`"])
def test_odd_characters(db: Database, text: str) -> None:
    try:
        db.execute(text)
    except MillstreamError as error:
        assert error.code != MillstreamError.code


# Queries


def test_one_query_in_error_stops_no_other(db: Database) -> None:
    db.execute(PLAIN + "CREATE STREAM fine AS SELECT * FROM s;")
    db.execute(
        "CREATE TABLE sums AS SELECT k, SUM(CAST(v AS DECIMAL(3, 0))) AS t FROM s GROUP BY k;"
    )
    for _ in range(2):
        db.execute("INSERT INTO s VALUES ('a', 999);")
    db.wait()
    found = states(db)
    assert found["FINE"] == "RUNNING" and len(rows(db, "SELECT * FROM fine;")) == 2
    assert found["SUMS"].startswith("ERROR: ") and "overflow" in found["SUMS"]
    db.execute("INSERT INTO s VALUES ('b', 1);")
    db.wait()
    assert len(rows(db, "SELECT * FROM fine;")) == 3
    db.execute("DROP TABLE sums;")


def test_a_topic_is_not_deleted_under_a_query(db: Database) -> None:
    db.execute(PLAIN + "CREATE STREAM d AS SELECT * FROM s;")
    with pytest.raises(ConflictError, match="Cannot drop S"):
        db.execute("DROP STREAM s DELETE TOPIC;")
    db.execute("CREATE STREAM again (k STRING KEY) WITH (KAFKA_TOPIC='D', VALUE_FORMAT='JSON');")
    with pytest.raises(ConflictError, match=r"Found other data sources \(AGAIN\)"):
        db.execute("DROP STREAM d DELETE TOPIC;")
    db.execute("INSERT INTO s VALUES ('a', 1);")
    db.wait()
    assert len(rows(db, "SELECT * FROM again;")) == 1


def test_a_topic_deleted_behind_a_query(db: Database) -> None:
    db.execute(PLAIN + "CREATE STREAM d AS SELECT * FROM s;")
    db.execute("CREATE STREAM o (k STRING KEY, v INT) WITH (KAFKA_TOPIC='o', PARTITIONS=1, "
               "VALUE_FORMAT='JSON'); CREATE STREAM p AS SELECT * FROM o;")  # fmt: skip
    db.wait()
    db.engine.log.delete_topic("s")
    db.execute("INSERT INTO o VALUES ('a', 1);")
    db.wait()
    assert rows(db, "SELECT * FROM p;") == [("a", 1)]
    assert states(db)["D"].startswith("ERROR") and "topic 's'" in states(db)["D"]
    for sql in ("SELECT * FROM s;", "INSERT INTO s VALUES ('a', 1);", "PRINT s;"):
        with pytest.raises(MillstreamError) as caught:
            db.execute(sql)
        assert caught.value.code != MillstreamError.code


def test_errors_do_not_hold_locks_or_cursors(db: Database) -> None:
    db.execute(PLAIN)
    for _ in range(50):
        with pytest.raises(MillstreamError):
            db.execute("CREATE STREAM x AS SELECT k, nothing FROM s;")
        with pytest.raises(MillstreamError):
            db.execute("SELECT DISTINCT nothing FROM s;")
    db.execute("INSERT INTO s VALUES ('a', 1);")
    assert len(rows(db, "SELECT * FROM s;")) == 1


# Disks

FULL = """
import resource, sys
import millstream
path = sys.argv[1]
EARLIEST = {"auto.offset.reset": "earliest"}
db = millstream.connect(path, properties=EARLIEST)
db.execute(sys.argv[2])
db.execute("CREATE TABLE c AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
db.wait()
resource.setrlimit(resource.RLIMIT_FSIZE, (1_500_000, resource.RLIM_INFINITY))
import random
done, text = 0, None
while text is None and done < 1000:
    key = "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=20_000))
    try:
        db.execute(f"INSERT INTO s VALUES ('{key}', {done});")
        done += 1
    except millstream.UnavailableError as error:
        text = error.code
for size in (5000, 500, 1):
    try:
        while True:
            db.execute(f"INSERT INTO s VALUES ('{'y' * size}{done}', {done});")
            done += 1
    except millstream.UnavailableError as error:
        text = error.code
print(text)
for sql in ("CREATE STREAM d AS SELECT * FROM s;", "DROP TABLE c;"):
    try:
        db.execute(sql)
        print("done")
    except millstream.MillstreamError as error:
        print(error.code)
assert len(db.execute("SELECT v FROM s;").fetchall()) == done
names = lambda what: [row[0] for row in db.execute(f"SHOW {what};")]
print(names("STREAMS"), names("TABLES"))
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
db.execute("INSERT INTO s VALUES ('last', -1);")
db.close()
db = millstream.connect(path, properties=EARLIEST)
db.wait()
assert len(db.execute("SELECT v FROM s;").fetchall()) == done + 1
names = lambda what: [row[0] for row in db.execute(f"SHOW {what};")]
print(names("STREAMS"), names("TABLES"))
assert len(db.execute("SELECT n FROM c;")) == done + 1, len(db.execute("SELECT n FROM c;"))
db.close()
"""


def test_a_full_disk(tmp_path: Path) -> None:
    path = str(tmp_path / "shop.db")
    done = subprocess.run(
        [sys.executable, "-c", FULL, path, PLAIN], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    lines = done.stdout.splitlines()
    assert lines[:3] == ["E-LOG-FULL"] * 3
    assert lines[3] == lines[4] == "['KSQL_PROCESSING_LOG', 'S'] ['C']"


def test_a_command_that_cannot_be_written_changes_nothing(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    db.execute(PLAIN + "CREATE STREAM d AS SELECT * FROM s;")
    db.wait()

    def full(*_: object) -> None:
        raise millstream.UnavailableError("no space left", code="E-LOG-FULL")

    shows = ("SHOW STREAMS;", "SHOW QUERIES;", "SHOW TYPES;")
    before = [rows(db, text) for text in shows]
    query = before[1][0][0]
    with monkeypatch.context() as patch:
        patch.setattr(db.engine.command_topic.log, "append", full)
        for sql in (
            "CREATE STREAM e AS SELECT * FROM s;",
            "CREATE TYPE t AS INT;",
            "CREATE STREAM f (k STRING KEY) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');",
            "DROP STREAM d;",
            f"TERMINATE {query};",
        ):
            with pytest.raises(millstream.UnavailableError):
                db.execute(sql)
            assert [rows(db, text) for text in shows] == before
    db.execute("INSERT INTO s VALUES ('a', 1);")
    db.wait()
    assert len(rows(db, "SELECT * FROM d;")) == 1
    db.execute("CREATE STREAM e AS SELECT * FROM s;")
