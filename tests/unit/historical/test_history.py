"""Queries over history: streams in a range, tables as they stood, compared with plain DuckDB over
the same records."""

from __future__ import annotations

import json
import random
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import duckdb
import pyarrow as pa
import pytest

import millstream
from millstream import Database, History, StatementError
from millstream.formats.partition import partition_of
from millstream.functions.catalogue import builtin_catalogue
from millstream.historical.planning import plan_historical
from millstream.history.reading import PIECE_RECORDS, FromLog, ReadChunk, Source
from millstream.history.rounds import in_round, run_in_rounds
from millstream.history.splits import Split
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError
from millstream.query.session import Bounds
from millstream_parser import parse, statements

SCRIPT = """
CREATE STREAM trips (rider STRING KEY, zone STRING, fare BIGINT)
  WITH (KAFKA_TOPIC='trips', PARTITIONS=3, VALUE_FORMAT='JSON');
CREATE TABLE riders (rider STRING PRIMARY KEY, home STRING)
  WITH (KAFKA_TOPIC='riders', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE fares AS SELECT zone, COUNT(*) AS n, SUM(fare) AS total FROM trips GROUP BY zone;
CREATE TABLE busy AS SELECT zone, COUNT(*) AS n FROM trips
  WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY zone;
"""
RECORDS = 600


def send(db: Database, topic: str, rows: list[tuple[str, dict[str, object] | None, int]]) -> None:
    partitions = db.engine.log.topic(topic).partitions
    keys = pa.array([key.encode() for key, _, _ in rows], pa.binary())
    places = partition_of(keys, partitions).tolist()
    for partition in range(partitions):
        records = [
            (key.encode(), None if value is None else json.dumps(value).encode(), time)
            for (key, value, time), place in zip(rows, places, strict=True)
            if place == partition
        ]
        batch = raw_batch(records)
        db.engine.writer.append([Appended(topic, partition, batch, len(records))])


def trips(seed: int) -> list[tuple[str, dict[str, object] | None, int]]:
    draw = random.Random(seed)
    return [
        (
            f"r{draw.randrange(9)}",
            {"zone": f"z{draw.randrange(5)}", "fare": draw.randrange(100)},
            10 * n + draw.randrange(-40, 40) + 1_000,
        )
        for n in range(RECORDS)
    ]


def riders(seed: int) -> list[tuple[str, dict[str, object] | None, int]]:
    draw = random.Random(seed)
    return [
        (f"r{draw.randrange(9)}", {"home": f"h{draw.randrange(4)}"} if n % 5 else None, 20 * n)
        for n in range(RECORDS // 4)
    ]


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as made:
        made.execute(SCRIPT)
        send(made, "trips", trips(1))
        send(made, "riders", riders(2))
        made.wait()
        yield made


@pytest.fixture(scope="module")
def plain() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as con:
        con.execute(
            "CREATE TABLE trips (n INT, rider TEXT, zone TEXT, fare BIGINT, rowtime BIGINT)"
        )
        con.executemany(
            "INSERT INTO trips VALUES (?, ?, ?, ?, ?)",
            [(n, k, v["zone"], v["fare"], t) for n, (k, v, t) in enumerate(trips(1)) if v],
        )
        con.execute("CREATE TABLE riders (n INT, rider TEXT, home TEXT, rowtime BIGINT)")
        con.executemany(
            "INSERT INTO riders VALUES (?, ?, ?, ?)",
            [(n, k, v["home"] if v else None, t) for n, (k, v, t) in enumerate(riders(2))],
        )
        yield con


def riders_at(time: int) -> str:
    return (
        f"(SELECT rider, home FROM riders WHERE rowtime <= {time} QUALIFY row_number() OVER "
        "(PARTITION BY rider ORDER BY n DESC) = 1)"
    )


SAME = [
    ("SELECT * FROM trips", "SELECT rider, zone, fare FROM trips"),
    (
        "SELECT zone, fare + 1 AS f, ROWTIME FROM trips AS OF TIMESTAMP 3000 WHERE fare > 50",
        "SELECT zone, fare + 1, rowtime FROM trips WHERE fare > 50 AND rowtime <= 3000",
    ),
    (
        "SELECT rider FROM trips FROM TIMESTAMP 2000 TO '1970-01-01T00:00:04' t WHERE t.fare < 9",
        "SELECT rider FROM trips WHERE rowtime >= 2000 AND rowtime < 4000 AND fare < 9",
    ),
    (
        "SELECT zone, COUNT(*), SUM(fare), MAX(fare) FROM trips AS OF TIMESTAMP 4000 "
        "WHERE fare <> 7 GROUP BY zone HAVING COUNT(*) > 3",
        "SELECT zone, count(*), sum(fare), max(fare) FROM trips WHERE rowtime <= 4000 "
        "AND fare <> 7 GROUP BY zone HAVING count(*) > 3",
    ),
    (
        "SELECT AVG(fare) FROM trips GROUP BY zone, rider",
        "SELECT avg(fare) FROM trips GROUP BY zone, rider",
    ),
    (
        "SELECT COUNT(*), median(fare) FROM trips FROM TIMESTAMP 2000 TO 4000",
        "SELECT count(*), median(fare) FROM trips WHERE rowtime >= 2000 AND rowtime < 4000",
    ),
    (
        "SELECT * FROM riders AS OF TIMESTAMP 1500",
        f"SELECT * FROM {riders_at(1500)} WHERE home IS NOT NULL",
    ),
    (
        "SELECT home, COUNT(*) FROM riders AS OF TIMESTAMP 1500 GROUP BY home",
        f"SELECT home, count(*) FROM {riders_at(1500)} WHERE home IS NOT NULL GROUP BY home",
    ),
    (
        "SELECT r.home, SUM(t.fare) FROM trips AS OF TIMESTAMP 3000 t JOIN riders AS OF TIMESTAMP "
        "2000 r ON t.rider = r.rider GROUP BY r.home",
        f"SELECT home, sum(fare) FROM trips t JOIN {riders_at(2000)} r ON t.rider = r.rider "
        "WHERE t.rowtime <= 3000 AND home IS NOT NULL GROUP BY home",
    ),
    (
        "SELECT zone, WINDOWSTART, COUNT(*) FROM trips WINDOW TUMBLING (SIZE 1 SECOND) "
        "GROUP BY zone",
        "SELECT zone, rowtime // 1000 * 1000, count(*) FROM trips GROUP BY ALL",
    ),
    (
        "SELECT zone, n, total FROM fares AS OF TIMESTAMP 99999",
        "SELECT zone, count(*), sum(fare) FROM trips GROUP BY zone",
    ),
    (
        "SELECT zone, WINDOWSTART, n FROM busy AS OF TIMESTAMP 99999 WHERE zone = 'z1'",
        "SELECT zone, rowtime // 1000 * 1000 AS w, count(*) FROM trips WHERE zone = 'z1' "
        "GROUP BY ALL",
    ),
]


@pytest.mark.parametrize(("sql", "reference"), SAME)
def test_the_rows_of_plain_duckdb(
    db: Database, plain: duckdb.DuckDBPyConnection, sql: str, reference: str
) -> None:
    found = db.execute(sql + ";")
    assert isinstance(found, History)
    assert sorted(found, key=repr) == sorted(plain.sql(reference).fetchall(), key=repr)


@pytest.mark.parametrize("moment", [0, 700, 2_222, 99_999])
def test_a_table_is_what_its_query_made_of_the_records_before(db: Database, moment: int) -> None:
    """Cut by offset instead of by time: the sink of a query, as far as it was."""
    sink = db.engine.log.read("FARES", 0, 0, 100_000).batch
    last = min(moment, sink.num_rows - 1)
    wanted = {
        row["key"].decode(): json.loads(row["value"]) for row in sink.slice(0, last + 1).to_pylist()
    }
    ends = [db.engine.log.end_offset("FARES", n) for n in range(3)]
    found = db.execute(
        f"SELECT zone, n, total FROM fares BETWEEN OFFSETS (0, {ends[1]}, {ends[2]})"
        f" AND ({last}, {ends[1]}, {ends[2]});"
    )
    assert {zone: {"N": n, "TOTAL": total} for zone, n, total in found} == wanted


def test_order_and_limit(db: Database, plain: duckdb.DuckDBPyConnection) -> None:
    text = "SELECT fare, zone FROM trips {} ORDER BY fare * -1, zone, rider LIMIT 7"
    wanted = plain.sql(text.format("WHERE rowtime <= 3000")).fetchall()
    assert db.execute(text.format("AS OF TIMESTAMP 3000") + ";").fetchall() == wanted


def test_a_limit_ends_the_reading(db: Database) -> None:
    with db.execute("SELECT * FROM trips LIMIT 2;") as found:
        assert len(found.fetchall()) == 2
        (stage,) = found.progress()
        assert stage.done < stage.total


@dataclass
class Counting:
    """Counts the records that are read of each partition."""

    source: Source
    read: Counter[int] = field(default_factory=Counter)

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        for records, following in self.source.pieces(split):
            self.read[split.partition] += records.num_rows
            yield records, following


@pytest.mark.parametrize(
    ("where", "most"), [("", 2 * PIECE_RECORDS), ("WHERE v = 'z'", 4 * PIECE_RECORDS)]
)
def test_each_task_reads_no_further_than_a_limit_needs(db: Database, where: str, most: int) -> None:
    db.execute(
        "CREATE STREAM IF NOT EXISTS long (v STRING) WITH (KAFKA_TOPIC='long', PARTITIONS=2,"
        " FORMAT='DELIMITED');"
    )
    for partition in range(2):
        for start in range(0, 4 * PIECE_RECORDS, PIECE_RECORDS):
            batch = raw_batch([(None, b"y", n) for n in range(start, start + PIECE_RECORDS)])
            db.engine.writer.append([Appended("long", partition, batch, batch.num_rows)])
    script = f"SELECT v FROM long {where} LIMIT 3;"
    (statement,) = parse(script)
    assert isinstance(statement, statements.SelectStatement)
    past = plan_historical(statement.query, db.engine.historical, db.session, script)
    source = Counting(FromLog(db.engine.log))
    made = run_in_rounds(past.run, source, builtin_catalogue(), in_round)
    assert sum(item.count for item in made) >= (0 if where else 2 * 3)
    assert source.read[0] == source.read[1] <= most
    db.execute("DROP STREAM long DELETE TOPIC;")


def test_ranges_of_offsets(db: Database) -> None:
    ends = [db.engine.log.end_offset("trips", n) for n in range(3)]
    one = db.execute("SELECT ROWPARTITION, ROWOFFSET FROM trips BETWEEN OFFSETS 3 AND 4;")
    assert sorted(one) == [(n, offset) for n in range(3) for offset in (3, 4)]
    first, last = f"(0, {ends[1]}, {ends[2]})", f"(1, {ends[1]}, {ends[2]})"
    each = db.execute(f"SELECT ROWOFFSET FROM trips BETWEEN OFFSETS {first} AND {last};")
    assert each.fetchall() == [(0,), (1,)]


def test_rows_are_handed_on_and_not_kept(db: Database) -> None:
    db.execute(
        "CREATE STREAM wide (v STRING) WITH (KAFKA_TOPIC='wide', PARTITIONS=1, VALUE_FORMAT='JSON',"
        " WRAP_SINGLE_VALUE=false);"
    )
    value = json.dumps("x" * 500).encode()
    for start in range(0, 300_000, 50_000):
        batch = raw_batch([(None, value, n) for n in range(start, start + 50_000)])
        db.engine.writer.append([Appended("wide", 0, batch, batch.num_rows)])
    before = pa.total_allocated_bytes()
    held = given = 0
    for table in db.execute("SELECT v FROM wide;").batches():
        given += table.nbytes
        held = max(held, pa.total_allocated_bytes() - before)
    assert given > 300_000 * 500
    assert held < given / 2


REFUSED = [
    ("SELECT * FROM trips AS OF TIMESTAMP 5 EMIT CHANGES;", "keeps running", "EMIT CHANGES"),
    ("CREATE STREAM x AS SELECT * FROM trips AS OF TIMESTAMP 5;", "keeps running", "EMIT CHANGES"),
    ("SELECT * FROM trips AS OF TIMESTAMP '2999';", "beyond now", "passed"),
    ("SELECT * FROM trips AS OF TIMESTAMP 'noon';", "Failed to parse", "yyyy"),
    ("SELECT nothing FROM trips AS OF TIMESTAMP 5;", "NOTHING", ""),
    ("SELECT * FROM busy WINDOW TUMBLING (SIZE 1 SECOND) GROUP BY zone;", "WINDOW", ""),
    ("SELECT * FROM trips AS OF TIMESTAMP 5 PARTITION BY zone;", "PARTITION BY", "EMIT CHANGES"),
    (
        "SELECT zone, COUNT(*) FROM trips AS OF TIMESTAMP 5 WINDOW TUMBLING (SIZE 1 SECOND)"
        " GROUP BY zone PARTITION BY zone;",
        "PARTITION BY",
        "EMIT CHANGES",
    ),
    ("SELECT DISTINCT * FROM trips FOR VERSION AS OF 0;", "FOR VERSION", ""),
]


@pytest.mark.parametrize(("sql", "message", "advice"), REFUSED)
def test_refused(db: Database, sql: str, message: str, advice: str) -> None:
    with pytest.raises(StatementError, match=message) as caught:
        db.execute(sql)
    assert advice in f"{caught.value.message}\n{caught.value.hint}"


def test_retention_is_never_passed_over(db: Database) -> None:
    db.execute(
        "CREATE STREAM few (v INT) WITH (KAFKA_TOPIC='few', PARTITIONS=1, VALUE_FORMAT='JSON');"
    )
    for n in range(4):
        db.execute(f"INSERT INTO few (ROWTIME, v) VALUES ({n * 1000}, {n});")
    db.engine.log.truncate("few", 0, 2)
    for range_ in (
        "AS OF TIMESTAMP 3000",
        "FROM TIMESTAMP 1000 TO 3000",
        "BETWEEN OFFSETS 1 AND 3",
    ):
        with pytest.raises(StatementError, match="before the first record") as caught:
            db.execute(f"SELECT v FROM few {range_};")
        assert caught.value.code == "E-HISTORY-GONE"
    found = db.execute("SELECT v FROM few FROM TIMESTAMP 2000 TO 3001;")
    assert found.fetchall() == [(2,), (3,)]


def test_a_query_can_be_ended_while_another_thread_reads(db: Database) -> None:
    found = db.execute("SELECT zone, COUNT(*) FROM trips GROUP BY zone;")
    read: list[pa.Table] = []
    reader = threading.Thread(target=lambda: read.extend(found.batches()))
    reader.start()
    found.close()
    reader.join()
    assert found.next_batch() is None
    unread = db.execute("SELECT * FROM trips ORDER BY fare;")
    unread.close()
    assert unread.fetchall() == []


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM trips;",
        "SELECT * FROM trips ORDER BY fare;",
        "SELECT * FROM riders AS OF TIMESTAMP 99999;",
        "SELECT DISTINCT rider FROM trips;",
    ],
)
@pytest.mark.parametrize(
    ("bounds", "code"),
    [
        (Bounds(rows=3), "E-RESULT-LIMIT"),
        (Bounds(bytes=8), "E-RESULT-LIMIT"),
        (Bounds(milliseconds=0), "E-TIMEOUT"),
    ],
)
def test_answers_keep_to_the_bounds_of_the_session(
    db: Database, text: str, bounds: Bounds, code: str
) -> None:
    db.session.bounds = bounds
    try:
        with pytest.raises(MillstreamError) as caught:
            db.execute(text).arrow()
        assert caught.value.code == code
        db.session.bounds = Bounds(rows=3)
        assert len(db.execute(text.replace(";", " LIMIT 3;")).fetchall()) == 3
    finally:
        db.session.bounds = Bounds()


def test_a_limit_takes_rows_of_a_table_by_partition_and_key(db: Database) -> None:
    text = "SELECT rider FROM riders AS OF TIMESTAMP 99999{};"
    riders = [rider for (rider,) in db.execute(text.format(""))]
    keys = partition_of(pa.array([rider.encode() for rider in riders], pa.binary()), 2)
    wanted = [rider for _, rider in sorted(zip(keys.tolist(), riders, strict=True))]
    assert [rider for (rider,) in db.execute(text.format(" LIMIT 3"))] == wanted[:3]
