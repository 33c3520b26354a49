"""Many cheap queries over one stream, half of them with state: creating them, and one record."""

from __future__ import annotations

import itertools
import statistics
import time
from collections.abc import Iterator

import millstream
from millstream.runtime.spec import QueryState
from millstream_parser.script import MAX_STATEMENTS
from tests.bench.figures.usage import Used, measured

REPEATS = 3
REPEATS_SECONDS = 60.0


def source(prefix: str) -> str:
    """The statement that makes the stream; `prefix` begins the names of all topics."""
    return (
        "CREATE STREAM s (id BIGINT KEY, amount BIGINT)"
        f" WITH (KAFKA_TOPIC='{prefix}s', PARTITIONS=4, VALUE_FORMAT='JSON');"
    )


def statement(number: int, prefix: str) -> str:
    """A filter, or a count, which keeps state."""
    topic = f"WITH (KAFKA_TOPIC='{prefix}q{number}')"
    if number % 2:
        return f"CREATE STREAM q{number} {topic} AS SELECT id, amount FROM s WHERE amount >= 0;"
    return f"CREATE TABLE q{number} {topic} AS SELECT id, COUNT(*) AS n FROM s GROUP BY id;"


def scripts(count: int, prefix: str, *, one_by_one: bool) -> Iterator[str]:
    """The statements as texts to execute. A text may hold `MAX_STATEMENTS`, so 1,000 queries are
    two."""
    statements = [statement(number, prefix) for number in range(count)]
    size = 1 if one_by_one else MAX_STATEMENTS
    for start in range(0, count, size):
        yield "".join(statements[start : start + size])


def create(
    database: millstream.Database, count: int, limit: float, prefix: str = "", *, one_by_one: bool
) -> tuple[int, Used]:
    """Create queries until there are `count`, or the time is over: how many, and what it took
    until all were running."""
    database.execute(source(prefix))
    made, until = 0, time.monotonic() + limit
    with measured() as used:
        results = (database.each(text) for text in scripts(count, prefix, one_by_one=one_by_one))
        for _ in itertools.chain.from_iterable(results):
            made += 1
            if time.monotonic() > until:
                break
        database.wait()
    check(database, made)
    return made, used


def check(database: millstream.Database, count: int) -> list[int]:
    """The records that each query has read; raises RuntimeError unless `count` queries run."""
    found = database.engine.statuses()
    bad = [f"{status.query_id}: {status.state} {status.error}" for status in found
           if status.error or status.state is not QueryState.RUNNING]  # fmt: skip
    if bad or len(found) != count:
        raise RuntimeError(f"{len(found)} of {count} queries, not running: {bad[:3]}")
    return [status.metrics.records_in for status in found]


def one_record(database: millstream.Database, count: int) -> tuple[Used, Used]:
    """What one record takes from INSERT until all queries have committed: the first one, and the
    median of some more. `wait` makes the queries commit at once, so the commit interval is not part
    of it."""
    read = check(database, count)
    spent: list[Used] = []
    started = time.monotonic()
    while len(spent) <= REPEATS and time.monotonic() < started + REPEATS_SECONDS:
        with measured() as used:
            database.execute(f"INSERT INTO s (id, amount) VALUES ({len(spent)}, 1);")
            database.wait()
        spent.append(used)
        if check(database, count) != [before + len(spent) for before in read]:
            raise RuntimeError(f"not every query has read record {len(spent)}")
    later = spent[1:] or spent
    return spent[0], Used(
        statistics.median(used.cpu for used in later),
        statistics.median(used.wall for used in later),
    )
