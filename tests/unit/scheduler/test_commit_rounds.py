"""Queries of one instance commit in rounds: what each of them gets, whatever befalls another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

import millstream
from millstream import Database
from millstream.log.log import Participant
from millstream.model.errors import UnavailableError
from millstream.runtime.query_runner import QueryRunner
from millstream.runtime.spec import QueryState
from tests.patience import PATIENCE_S

QUERIES = 12
pytestmark = pytest.mark.timeout(PATIENCE_S)


@pytest.fixture
def db() -> Iterator[Database]:
    properties = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
    with millstream.connect(properties=properties) as opened:
        opened.execute(
            "CREATE STREAM s (k STRING KEY, v INT)"
            " WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');"
        )
        for number in range(QUERIES):
            opened.execute(f"CREATE TABLE q{number} AS SELECT k, COUNT(*) AS n FROM s GROUP BY k;")
        yield opened


def insert(db: Database) -> None:
    db.execute("INSERT INTO s VALUES ('a', 1);")
    db.execute("INSERT INTO s VALUES ('b', 1);")
    db.wait()


def counts(db: Database, number: int) -> list[tuple[object, ...]]:
    return sorted(db.execute(f"SELECT k, n FROM q{number};"))


def query_id(db: Database, number: int) -> str:
    (found,) = (each for each in db.engine.runtime.query_ids() if f"_Q{number}_" in each)
    return found


def test_all_commits_of_an_instance_are_rounds(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[list[str]] = []
    transact_all = db.engine.log.transact_all

    def noting(participants: Sequence[Participant[Any]]) -> Any:
        noted.append([each.group for each in participants])
        return transact_all(participants)

    monkeypatch.setattr(db.engine.log, "transact_all", noting)
    insert(db)
    assert {group for each in noted for group in each} == {*db.engine.runtime.query_ids()}
    assert all(len({*each}) == len(each) for each in noted), "no query twice in a round"
    assert [counts(db, number) for number in range(QUERIES)] == [[("a", 1), ("b", 1)]] * QUERIES


def test_a_query_that_another_owner_has_fenced_stops_alone(db: Database) -> None:
    insert(db)
    fenced = query_id(db, 3)
    db.engine.log.writer(fenced)
    insert(db)
    states = db.engine.runtime.states()
    assert {name for name, state in states.items() if state is not QueryState.RUNNING} == {fenced}
    assert states[fenced] is QueryState.FENCED
    others = [counts(db, number) for number in range(QUERIES) if number != 3]
    assert others == [[("a", 2), ("b", 2)]] * (QUERIES - 1)
    assert counts(db, 3) == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("lasting", [True, False])
def test_a_query_that_cannot_flush_is_not_in_the_round(
    db: Database, monkeypatch: pytest.MonkeyPatch, *, lasting: bool
) -> None:
    insert(db)
    bad, flush = query_id(db, 5), QueryRunner._flush
    failed: list[str] = []

    def failing(self: QueryRunner[Any]) -> Any:
        if self.spec.query_id == bad and (lasting or not failed):
            failed.append(bad)
            raise ValueError("a fault") if lasting else UnavailableError("no memory")
        return flush(self)

    monkeypatch.setattr(QueryRunner, "_flush", failing)
    insert(db)
    assert failed
    others = [counts(db, number) for number in range(QUERIES) if number != 5]
    assert others == [[("a", 2), ("b", 2)]] * (QUERIES - 1)
    if lasting:
        assert db.engine.runtime.states()[bad] is QueryState.ERROR
        monkeypatch.undo()
        db.execute(f"RESUME {bad};")
    while counts(db, 5) != [("a", 2), ("b", 2)]:
        db.wait()


def test_a_fault_of_the_round_itself_stops_its_queries_and_not_the_threads(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_participants: object) -> None:
        raise SystemExit("a fault of the program")

    monkeypatch.setattr(db.engine.log, "transact_all", broken)
    insert(db)
    assert set(db.engine.runtime.states().values()) == {QueryState.ERROR}
    assert db.engine.driver.failure is None
    monkeypatch.undo()
    for number in range(QUERIES):
        db.execute(f"RESUME {query_id(db, number)};")
    db.wait()
    assert [counts(db, number) for number in range(QUERIES)] == [[("a", 1), ("b", 1)]] * QUERIES


def test_dropping_queries_whose_commits_are_due(db: Database) -> None:
    for number in range(QUERIES):
        db.execute("INSERT INTO s VALUES ('a', 1);")
        db.execute(f"DROP TABLE q{number} DELETE TOPIC;")
    db.wait()
    assert not db.engine.runtime.query_ids()


def test_what_metrics_tell_of_rounds(db: Database) -> None:
    before = db.metrics().instance
    insert(db)
    after = db.metrics()
    commits = sum(query.commits.count for query in after.queries)
    assert after.instance.round_commits == commits
    assert 0 < after.instance.rounds.count <= commits
    assert 1 <= after.instance.largest_round <= QUERIES
    assert after.instance.rounds.total > before.rounds.total
    assert after.instance.waiting == 0
