"""A chain is the plan of the equal SQL: the same EXPLAIN, byte for byte, and the same rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, get_args

import pytest

import millstream
from millstream import Database, History, PullQuery, Rows
from millstream.dsl.queries import emitting
from millstream.dsl.statements import Stage
from millstream_parser import parse
from millstream_parser import statements as s
from tests.unit.dsl.pairs import INSERTS, PAIRS, PULLS, RUNNING, SOURCES, Pair

IDS = [pair.name for pair in PAIRS]


def rows_of(db: Database, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement."""
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return result.fetchall()


def with_emit(select: str) -> str:
    """The SELECT of a query that keeps running."""
    return select if select.endswith("EMIT FINAL") else f"{select} EMIT CHANGES"


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    """The sources with their rows, and the running pairs as two persistent queries each."""
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(SOURCES)
        db.execute(INSERTS)
        for number, pair in enumerate(RUNNING):
            chain = pair.chain(db)
            chain.to(f"chain_{number}", key_format="JSON")
            created = f"CREATE {chain.kind} sql_{number} WITH (KEY_FORMAT='JSON')"
            db.execute(f"{created} AS {with_emit(pair.select)}")
        db.wait()
        yield db


def test_there_are_many_pairs() -> None:
    assert len(PAIRS) >= 60 and len(set(IDS)) == len(IDS)
    assert len(RUNNING) >= 20


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_a_push_query_has_the_same_explanation(db: Database, pair: Pair) -> None:
    explained = rows_of(db, f"EXPLAIN {with_emit(pair.select)}")
    assert pair.chain(db).explain().fetchall() == explained
    assert len(explained) == 4


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_a_persistent_query_has_the_same_explanation(db: Database, pair: Pair) -> None:
    chain = pair.chain(db)
    options = "KEY_FORMAT='JSON', KAFKA_TOPIC='made', PARTITIONS=3, VALUE_FORMAT='JSON'"
    created = f"CREATE {chain.kind} made WITH ({options}) AS {with_emit(pair.select)}"
    found = chain.explain(
        "made", key_format="JSON", topic="made", partitions=3, value_format="JSON"
    )
    assert found.fetchall() == rows_of(db, f"EXPLAIN {created}")


@pytest.mark.parametrize("pair", PAIRS, ids=IDS)
def test_what_is_printed_is_read_back_as_the_same_statement(db: Database, pair: Pair) -> None:
    chain = pair.chain(db)
    statement = s.SelectStatement(emitting(chain.query))
    assert parse(chain.sql) == (statement,) == parse(with_emit(pair.select))


def test_one_stage(db: Database) -> None:
    chain = db.stream("orders").filter(millstream.col("n") > 1)
    for stage in get_args(Stage):
        explained = rows_of(db, f"EXPLAIN ({stage}) SELECT * FROM orders WHERE n > 1 EMIT CHANGES")
        assert chain.explain(stage=stage).fetchall() == explained and len(explained) == 1


@pytest.mark.parametrize("number", range(len(RUNNING)), ids=[p.name for p in RUNNING])
def test_the_rows_are_the_same(db: Database, number: int) -> None:
    rows = rows_of(db, f"SELECT * FROM chain_{number}")
    assert rows == rows_of(db, f"SELECT * FROM sql_{number}")
    assert rows


@pytest.mark.parametrize(("name", "chain", "sql"), PULLS, ids=[pull[0] for pull in PULLS])
def test_pull_queries(
    db: Database, name: str, chain: Callable[[Database], PullQuery], sql: str
) -> None:
    # A pull query is explained with the text that was sent.
    (text,), *explained = [row[1:] for row in chain(db).explain()]
    assert parse(text, extended_pull=True) == parse(sql, extended_pull=True)
    assert explained == [row[1:] for row in rows_of(db, f"EXPLAIN {sql}")[1:]] != []
    rows = rows_of(db, sql)
    assert chain(db).fetchall() == rows and rows, name
    assert chain(db).fetchone() == rows[0]
    assert list(chain(db)) == rows
    assert chain(db).arrow().num_rows == len(chain(db).df()) == len(chain(db).pl()) == len(rows)
