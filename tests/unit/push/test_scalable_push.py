"""Which push queries are scalable ones (reference: sql-statements, push queries)."""

from __future__ import annotations

import pytest

from millstream import Database, Stream

SOURCES = """
CREATE STREAM plain (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC='plain', FORMAT='JSON', PARTITIONS=1);
CREATE STREAM filled (k STRING KEY, v INT)
  WITH (KAFKA_TOPIC='filled', FORMAT='JSON', PARTITIONS=1);
INSERT INTO filled SELECT * FROM plain;
CREATE STREAM copied AS SELECT * FROM plain;
CREATE STREAM mixed AS SELECT * FROM plain;
INSERT INTO mixed SELECT * FROM filled;
CREATE TABLE counted AS SELECT k, COUNT(*) AS n FROM plain GROUP BY k;
"""
LATEST, EARLIEST = "latest", "earliest"
QUERIES = [
    ("SELECT * FROM copied EMIT CHANGES;", LATEST, True),
    ("SELECT * FROM filled EMIT CHANGES;", LATEST, True),
    ("SELECT * FROM counted EMIT CHANGES;", LATEST, True),
    ("SELECT v + 1, ROWTIME FROM copied WHERE k = 'a' EMIT CHANGES;", LATEST, True),
    ("SELECT * FROM plain EMIT CHANGES;", LATEST, False),
    ("SELECT * FROM mixed EMIT CHANGES;", LATEST, False),
    ("SELECT * FROM copied EMIT CHANGES;", EARLIEST, False),
    ("SELECT v, ROWPARTITION FROM copied EMIT CHANGES;", LATEST, False),
    ("SELECT ABS(ROWOFFSET) FROM copied EMIT CHANGES;", LATEST, False),
    ("SELECT v FROM copied WHERE ROWOFFSET > 1 EMIT CHANGES;", LATEST, False),
    ("SELECT k, COUNT(*) FROM copied GROUP BY k EMIT CHANGES;", LATEST, False),
    ("SELECT COUNT(*) FROM copied EMIT CHANGES;", LATEST, False),
    ("SELECT * FROM copied PARTITION BY v EMIT CHANGES;", LATEST, False),
    ("SELECT EXPLODE(ARRAY[v]) FROM copied EMIT CHANGES;", LATEST, False),
    (
        "SELECT c.k, n FROM copied c JOIN counted t ON c.k = t.k EMIT CHANGES;",
        LATEST,
        False,
    ),
]


@pytest.mark.parametrize(("query", "start", "scalable"), QUERIES)
def test_which_are(db: Database, query: str, start: str, scalable: bool) -> None:
    db.execute(SOURCES)
    db.execute("SET 'ksql.query.push.v2.enabled' = 'true';")
    db.execute(f"SET 'auto.offset.reset' = '{start}';")
    stream = db.execute(query)
    assert isinstance(stream, Stream)
    with stream:
        assert stream.query_id.startswith("SCALABLE_PUSH_QUERY_") is scalable
