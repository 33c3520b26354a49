"""A record whose time is out of every range harms only itself: windows and joins add lengths to
times, and that has to fit 64 bits."""

from __future__ import annotations

import pytest

from millstream import Database, History, Rows
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import StatementError
from millstream.model.event_time import END, LATEST, NEVER
from millstream_parser import LONGEST_MS

SOURCES = """
CREATE STREAM s (k STRING KEY, i INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE STREAM r (k STRING KEY, i INT) WITH (KAFKA_TOPIC='r', PARTITIONS=1, VALUE_FORMAT='JSON');
"""
COUNTED = "CREATE TABLE o AS SELECT k, COUNT(*) AS n, SUM(i) AS t FROM s WINDOW {} GROUP BY k;"
JOINED = "CREATE STREAM o AS SELECT s.k AS k, s.i, r.i FROM s {} JOIN r WITHIN {} ON s.k = r.k;"
ALL = f"{LONGEST_MS} MILLISECONDS"
HALF = f"{LONGEST_MS // 2} MILLISECONDS"
QUERIES = {
    "tumbling": COUNTED.format("TUMBLING (SIZE 5 SECONDS)"),
    "tumbling, long": COUNTED.format(f"TUMBLING (SIZE {ALL}, GRACE PERIOD 0 SECONDS)"),
    "tumbling, late": COUNTED.format(f"TUMBLING (SIZE {HALF}, GRACE PERIOD {HALF})"),
    "hopping": COUNTED.format("HOPPING (SIZE 5 SECONDS, ADVANCE BY 1 SECOND)"),
    "hopping, long": COUNTED.format(f"HOPPING (SIZE {HALF}, ADVANCE BY {HALF}, RETENTION {ALL})"),
    "session": COUNTED.format("SESSION (5 SECONDS)"),
    "session, long": COUNTED.format(f"SESSION ({HALF}, GRACE PERIOD {HALF})"),
    "join": JOINED.format("", "5 SECONDS"),
    "left join": JOINED.format("LEFT", "5 SECONDS GRACE PERIOD 1 DAY"),
    "left join, long": JOINED.format("LEFT", f"(0 SECONDS, {HALF}) GRACE PERIOD {HALF}"),
    "outer join": JOINED.format("FULL OUTER", "5 SECONDS GRACE PERIOD 0 SECONDS").replace(
        "s.k AS k", "ROWKEY AS k"
    ),
}
UNUSABLE = (LATEST + 1, END - 1000, END, -1, NEVER)


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    found = db.execute(sql)
    assert isinstance(found, Rows | History)
    return sorted(found, key=repr)


def outcome(db: Database, query: str, times: list[int]) -> list[tuple[object, ...]]:
    """The output of a query for a row for each of these times on both sides, in one batch."""
    db.execute(SOURCES + query)
    for topic in ("s", "r"):
        records = [(b"k", b'{"I":%d}' % at, time) for at, time in enumerate(times)]
        db.engine.writer.append([Appended(topic, 0, raw_batch(records), len(records))])
    db.wait()
    assert "RUNNING" in rows(db, "SHOW QUERIES;")[0]
    found = rows(db, "SELECT * FROM o;")
    db.execute(
        "DROP TABLE o DELETE TOPIC;" if "TABLE o" in query else "DROP STREAM o DELETE TOPIC;"
    )
    db.execute("DROP STREAM s DELETE TOPIC; DROP STREAM r DELETE TOPIC;")
    return found


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_a_time_out_of_range_is_no_row(db: Database, query: str) -> None:
    good = [1000, 2000, 3000]
    wanted = outcome(db, query, good)
    assert wanted
    for time in UNUSABLE:
        assert outcome(db, query, [*good, time]) == wanted


@pytest.mark.parametrize("query", QUERIES.values(), ids=QUERIES)
def test_the_latest_time_is_as_good_as_any(db: Database, query: str) -> None:
    assert outcome(db, query, [0, LATEST, LATEST - 1])


@pytest.mark.parametrize("time", UNUSABLE[:3])
def test_a_time_out_of_range_is_not_inserted(db: Database, time: int) -> None:
    db.execute(SOURCES)
    with pytest.raises(StatementError, match=f"ROWTIME must not be later than {LATEST}, got"):
        db.execute(f"INSERT INTO s (ROWTIME, k, i) VALUES ({time}, 'k', 1);")
