"""How many partitions the topic of a query has, and which joins differ in them.

The rule (reference sql-statements §6 and §10): a new topic has as many partitions as the leftmost
source's, whatever moves on the way, or those of its WITH clause. The sides of a join must have as
many, but for foreign keys. ksqlDB's message (github.com/confluentinc/ksql/issues/7275 shows it)
names the leftmost source and the one that differs, by their aliases. A stream that a join re-keys
takes the number of the other side here; ksqlDB refuses that too.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database, StatementError

SOURCES = {"t2": 2, "u2": 2, "t3": 3, "s2": 2, "r2": 2, "s3": 3, "s5": 5}


@pytest.fixture(scope="module")
def sources() -> Iterator[Database]:
    with millstream.connect() as database:
        for name, count in SOURCES.items():
            kind, key = ("TABLE", "PRIMARY KEY") if name[0] in "tu" else ("STREAM", "KEY")
            database.execute(
                f"CREATE {kind} {name} (id INT {key}, fk INT, v INT) WITH"
                f" (KAFKA_TOPIC='{name}', PARTITIONS={count}, VALUE_FORMAT='JSON');"
            )
        yield database


def partitions(db: Database, kind: str, query: str, clause: str = "") -> int:
    """The partition count of the topic that the statement creates."""
    db.execute(f"CREATE {kind} o {clause} AS {query};")
    try:
        topic = db.engine.log.topic("O")
        assert topic is not None
        return topic.partitions
    finally:
        db.execute(f"DROP {kind} o DELETE TOPIC;")


WITHIN = "WITHIN 1 HOUR"
QUERIES = [
    ("TABLE", "SELECT * FROM t3", 3),
    ("STREAM", "SELECT * FROM s3 PARTITION BY fk", 3),
    ("TABLE", "SELECT fk, COUNT(*) AS n FROM s5 GROUP BY fk", 5),
    ("TABLE", "SELECT v, COUNT(*) AS n FROM t3 GROUP BY v", 3),
    ("TABLE", "SELECT * FROM t2 JOIN u2 ON t2.id = u2.id", 2),
    ("TABLE", "SELECT * FROM t2 FULL JOIN u2 ON t2.id = u2.id", 2),
    ("TABLE", "SELECT * FROM t2 JOIN t3 ON t2.fk = t3.id", 2),
    ("TABLE", "SELECT * FROM t3 LEFT JOIN t2 ON t3.fk = t2.id", 3),
    ("TABLE", "SELECT * FROM t2 JOIN t3 ON t2.fk = t3.id JOIN u2 ON t2.id = u2.id", 2),
    ("TABLE", "SELECT t3.v, COUNT(*) AS n FROM t2 JOIN t3 ON t2.fk = t3.id GROUP BY t3.v", 2),
    ("STREAM", f"SELECT * FROM s2 JOIN r2 {WITHIN} ON s2.id = r2.id", 2),
    ("STREAM", f"SELECT * FROM s2 JOIN s3 {WITHIN} ON s2.fk = s3.id", 2),
    ("STREAM", f"SELECT * FROM s5 JOIN s3 {WITHIN} ON s5.id = s3.fk", 5),
    ("STREAM", f"SELECT * FROM s2 JOIN s5 {WITHIN} ON s2.fk = s5.fk", 2),
    ("STREAM", "SELECT * FROM s5 JOIN t3 ON s5.fk = t3.id JOIN t2 ON s5.v = t2.id", 5),
]


@pytest.mark.parametrize(("kind", "query", "count"), QUERIES, ids=[q for _, q, _ in QUERIES])
def test_a_topic_is_like_the_leftmost_source(
    sources: Database, kind: str, query: str, count: int
) -> None:
    assert partitions(sources, kind, query) == count
    assert partitions(sources, kind, query, "WITH (PARTITIONS=7)") == 7
    sources.execute("SET 'ksql.sink.partitions'='6';")
    try:
        assert partitions(sources, kind, query) == 6
        assert partitions(sources, kind, query, "WITH (PARTITIONS=7)") == 7
    finally:
        sources.execute("UNSET 'ksql.sink.partitions';")


REFUSED = [
    ("TABLE", "t2 JOIN t3 ON t2.id = t3.id", ("T2", 2, "T3", 3)),
    ("TABLE", "t3 x FULL JOIN t2 y ON x.id = y.id", ("X", 3, "Y", 2)),
    ("TABLE", "t2 JOIN u2 ON t2.id = u2.id JOIN t3 ON u2.id = t3.id", ("T2", 2, "T3", 3)),
    ("TABLE", "t2 a JOIN u2 b ON a.fk = b.id JOIN t3 c ON a.id = c.id", ("A", 2, "C", 3)),
    ("STREAM", "s2 JOIN s3 WITHIN 1 HOUR ON s2.id = s3.id", ("S2", 2, "S3", 3)),
    ("STREAM", "s5 LEFT JOIN t3 ON s5.id = t3.id", ("S5", 5, "T3", 3)),
    ("STREAM", "s2 JOIN u2 ON s2.fk = u2.id JOIN t3 ON s2.fk = t3.id", ("S2", 2, "T3", 3)),
    ("TABLE", "seven JOIN t2 ON seven.t2_id = t2.id", ("SEVEN", 7, "T2", 2)),
]


@pytest.mark.parametrize(("kind", "of", "names"), REFUSED, ids=[of for _, of, _ in REFUSED])
def test_sides_of_a_join_have_as_many(
    sources: Database, kind: str, of: str, names: tuple[str, int, str, int]
) -> None:
    sources.execute(
        "CREATE TABLE IF NOT EXISTS seven WITH (PARTITIONS=7) AS"
        " SELECT * FROM t2 JOIN u2 ON t2.id = u2.id;"
    )
    left, ours, right, theirs = names
    with pytest.raises(StatementError) as caught:
        sources.execute(f"CREATE {kind} o AS SELECT * FROM {of};")
    assert caught.value.message == (
        f"Can't join `{left}` with `{right}` since the number of partitions don't match. "
        f"`{left}` partitions = {ours}; `{right}` partitions = {theirs}. "
        "Please repartition either one so that the number of partitions match."
    )
    assert sources.engine.log.topic("O") is None
