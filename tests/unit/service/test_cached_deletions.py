"""With the record cache on, no deletion is sent of a row that the sink has not held.

The rule is Kafka Streams': at a commit a caching store forwards the net change of a key since the
last one, and nothing where the old and the new value are both NULL. A key that is inserted and
deleted between two commits has no effect; an existing one that is deleted leaves one tombstone.

The expectation is derived from the output of the same query without a cache.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence

import pytest

from millstream import Database
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.execution import open_engine
from tests.draws import draws

SOURCES = """
CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE t (k STRING PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON', PARTITIONS=1);
CREATE TABLE u (k STRING PRIMARY KEY, n INT) WITH (KAFKA_TOPIC='u', FORMAT='JSON', PARTITIONS=1);
"""
QUERIES = {
    "read": "SELECT k, n FROM t",
    "filter": "SELECT k, n + 1 AS n FROM t WHERE n > 0",
    "having": "SELECT k, SUM(n) AS n FROM s GROUP BY k HAVING SUM(n) > 0",
    "having on a table": "SELECT n, COUNT(*) AS c FROM t GROUP BY n HAVING COUNT(*) > 0",
    "counts": "SELECT n, COUNT(*) AS c FROM t GROUP BY n",
    "inner": "SELECT t.k AS k, t.n AS n, u.n AS m FROM t JOIN u ON t.k = u.k",
    "left": "SELECT t.k AS k, t.n AS n, u.n AS m FROM t LEFT JOIN u ON t.k = u.k",
    "full": "SELECT ROWKEY AS k, t.n AS n, u.n AS m FROM t FULL JOIN u ON t.k = u.k",
    "filtered join": "SELECT t.k AS k, t.n AS n, u.n AS m FROM t JOIN u ON t.k = u.k WHERE t.n > 0",
    "foreign key": "SELECT t.k AS k, t.n AS n, u.n AS m FROM t JOIN u ON CAST(t.n AS STRING) = u.k",
    "session": "SELECT k, COUNT(*) AS c FROM s WINDOW SESSION (5 MILLISECONDS) GROUP BY k",
}
INTERVAL_MS, COMMITS = 1_000, 5
Record = tuple[bytes, bytes | None, int]
Change = tuple[bytes, bytes | None]


def records(rng: random.Random, topic: str, start: int) -> list[Record]:
    """Few keys and times, so that many rows are inserted, deleted and joined again."""
    found: list[Record] = []
    for _ in range(rng.randint(1, 30)):
        key = f'"{rng.randint(-3, 3)}"'
        gone = topic != "s" and rng.random() < 0.5
        value = None if gone else b'{"N":%d}' % rng.randint(-2, 2)
        found.append((key.encode(), value, start + rng.choice((0, 0, 3, 9, 12, 20))))
    return found


def run(sql: str, seed: int, *, cached: bool) -> Iterator[list[Change]]:
    """Commit by commit, the output to the sink; records arrive in several runs before each."""
    rng, session = random.Random(seed), Session()
    session.set("auto.offset.reset", "earliest")
    session.set("cache.max.bytes.buffering", "10000000" if cached else "0")
    session.set("commit.interval.ms", str(INTERVAL_MS))
    with Database(open_engine(":memory:", EngineSettings(threads=1), lambda: 1), session) as db:
        db.execute(SOURCES)
        db.execute(f"CREATE TABLE o WITH (FORMAT='JSON', KAFKA_TOPIC='o') AS {sql} EMIT CHANGES;")
        writer, end = db.engine.log.writer("w"), 0
        for commit in range(1, COMMITS + 1):
            for _ in range(rng.randint(1, 3)):
                for topic in "stu":
                    rows = records(rng, topic, commit // 2 * 20)
                    if rows:
                        writer.append([Appended(topic, 0, raw_batch(rows), len(rows), 100)])
                settle(db, (commit - 1) * INTERVAL_MS)
            # Rows that move are read in the second of these commits.
            for _ in range(2 if "CAST" in sql or "GROUP BY n" in sql else 1):
                settle(db, commit * INTERVAL_MS)
            fetched = db.engine.log.read("o", 0, end, 1_000_000)
            end = fetched.next_offset
            pairs = fetched.batch["key"].to_pylist(), fetched.batch["value"].to_pylist()
            yield list(zip(*pairs, strict=True))
        writer.close()


def settle(db: Database, now: int) -> None:
    """Step until nothing is left to do at this time."""
    while db.engine.runtime.step(now).progress:
        pass


def net(commits: Sequence[Sequence[Change]]) -> list[list[Change]]:
    """The last change of each key in each commit, without deletions of absent rows."""
    held: set[bytes] = set()
    found = []
    for changes in commits:
        last = dict(changes)
        kept = {key: value for key, value in last.items() if value is not None or key in held}
        held = {key for key in held | kept.keys() if last.get(key, b"") is not None}
        found.append(sorted(kept.items(), key=repr))
    return found


@pytest.mark.parametrize("seed", range(draws(2)))
@pytest.mark.parametrize("name", QUERIES)
def test_each_commit_has_the_net_changes_of_its_keys(name: str, seed: int) -> None:
    plain = list(run(QUERIES[name], seed, cached=False))
    cached = list(run(QUERIES[name], seed, cached=True))
    assert any(plain)
    assert [sorted(changes, key=repr) for changes in cached] == net(plain)
