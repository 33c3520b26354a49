"""The figures of `Database.metrics()` for a real engine that the test drives: no thread, injected
clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

import millstream
from millstream import Database, MillstreamError
from millstream.metrics.sampling import SECOND_NS, Sampler
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.runtime.durations import BOUNDS_MS
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from tests.unit.conftest import EARLIEST, LATE, fill

SPENDING = "CTAS_SPENDING_1"


class Hands:
    """An engine over a file that the test steps."""

    def __init__(self, path: Path) -> None:
        self.seconds = 0.0
        self.engine: Engine = open_engine(str(path), EngineSettings(), self.clock)
        self.engine.metrics.sampler = Sampler(
            lambda query_ids: self.engine.runtime.status({}, query_ids),
            self.ticks,
            self.engine.runtime.activity,
        )
        self.db = Database(self.engine, Session(dict(EARLIEST)))

    def clock(self) -> int:
        return 1_700_000_000_000 + int(self.seconds * 1000)

    def ticks(self) -> int:
        return int(self.seconds * SECOND_NS)


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    hands = Hands(tmp_path / "shop.db")
    with closing(hands.engine):
        fill(hands.db)
        hands.db.execute(
            "CREATE TABLE spending AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;"
        )
        yield hands


def test_lag_and_rates_of_a_query(hands: Hands) -> None:
    hands.seconds = 1
    hands.engine.runtime.step(hands.clock())
    query = hands.db.metrics().query(SPENDING)
    assert (query.state, query.lag, query.traffic.records_in) == ("RUNNING", 4, 0)
    assert sum(place.lag or 0 for place in query.positions) == 4
    assert {(place.topic, place.partition) for place in query.positions} == {
        ("orders", 0),
        ("orders", 1),
    }
    assert query.last_run_ms is None and query.commits.count == 0
    hands.db.wait()
    hands.seconds = 2
    query = hands.db.metrics().query(SPENDING)
    assert (query.lag, query.traffic.records_in, query.traffic.in_per_second) == (0, 4, 2.0)
    assert query.traffic.out_per_second == query.traffic.records_out / 2
    assert query.sub_topologies[0].traffic == query.traffic
    assert query.last_run_ms == 1_700_000_001_000
    hands.engine.metrics.sampler.sample()
    hands.seconds = 32
    assert hands.db.metrics().query(SPENDING).traffic.in_per_second == 0


def test_commits_are_counted_and_timed(hands: Hands) -> None:
    hands.db.wait()
    commits = hands.db.metrics().query(SPENDING).commits
    assert commits.count == commits.took.count == sum(commits.took.buckets) >= 1
    assert 0 < commits.took.quantile(0.5) <= commits.took.quantile(0.99) <= commits.took.longest
    assert len(commits.took.buckets) == len(BOUNDS_MS) + 1


def test_a_restoration_has_progress_and_an_eta(hands: Hands, tmp_path: Path) -> None:
    hands.db.wait()
    hands.engine.close()
    (tmp_path / "shop.db.state").unlink()
    (tmp_path / "shop.db.state.wal").unlink(missing_ok=True)
    again = Hands(tmp_path / "shop.db")
    with closing(again.engine):
        again.engine.runtime.step(again.clock())
        found = again.db.metrics().query(SPENDING)
        assert found.state == "RESTORING" and found.restoration is not None
        total = found.restoration.total
        assert found.restoration.left == total > 1 and found.restoration.eta_seconds is None
        again.seconds = 1
        again.engine.runtime.step(again.clock())
        found = again.db.metrics().query(SPENDING)
        assert found.restoration is not None and found.restoration.total == total
        left, done = found.restoration.left, total - found.restoration.left
        assert found.restored == done > 0
        assert found.restoration.eta_seconds == pytest.approx(left / done)
        facts = {name: text for _, name, text in again.db.execute("SHOW QUERIES EXTENDED;")}
        assert facts["Restoring"].startswith(f"{left} of {total} changelog records left (")
        assert facts["Restoring"].endswith("/s, time to go 0:00:01")
        again.db.wait()
        found = again.db.metrics().query(SPENDING)
        assert found.restoration is None and found.restored == total
        assert "Restoring" not in {n for _, n, _ in again.db.execute("SHOW QUERIES EXTENDED;")}


def test_late_and_other_rows_that_were_not_used(hands: Hands) -> None:
    hands.db.execute(LATE)
    hands.db.wait()
    query = next(q for q in hands.db.metrics().queries if "HITS" in q.query_id)
    assert (query.traffic.late, query.traffic.problems, query.problems) == (1, 0, {"LATE": 1})
    facts = dict(hands.db.execute("DESCRIBE clicks EXTENDED;"))
    assert facts[f"Rows not used by {query.query_id}"] == "1 (LATE 1)"


def test_the_process_and_the_files(hands: Hands) -> None:
    hands.db.wait()
    hands.seconds = 9
    told = hands.db.metrics()
    assert told.running and told.states["RUNNING"] == 1 and sum(told.states.values()) == 1
    assert set(told.process.files) == {"log", "state"} and min(told.process.files.values()) > 0
    assert told.process.threads >= 1 and told.process.cpu_seconds > 0
    assert told.process.memory_bytes is None or told.process.memory_bytes > 1 << 20


def test_nothing_runs_in_memory_or_after_the_end(db: Database) -> None:
    told = db.metrics()
    assert told.running and told.queries == () and told.process.files == {}
    with pytest.raises(KeyError):
        told.query("NONE")
    db.close()
    assert not db.engine.metrics.now().running


def test_a_query_that_could_not_be_started_is_reported(reopen: Callable[[], Database]) -> None:
    db = reopen()
    fill(db)
    db.execute("CREATE TABLE t AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;")
    (query,) = db.engine.catalog.queries
    db.engine.registry.queries[query].error = "no reason"
    db.engine.runtime.remove_query(query)
    told = db.metrics()
    assert told.query(query).state == "ERROR" and told.states["ERROR"] == 1
    (row,) = told.arrow().to_pylist()
    assert (row["query"], row["error"], row["records_in"]) == (query, "no reason", None)
    ((_, _, status, *_),) = db.execute("SHOW QUERIES;")
    assert status == "ERROR: no reason"
    assert f'millstream_query_records_in_total{{query="{query}"}}' in millstream.exposition(told)


def test_push_queries_have_figures(hands: Hands) -> None:
    stream = hands.db.execute("SELECT * FROM orders EMIT CHANGES LIMIT 4;")
    assert len(list(stream)) == 4
    with pytest.raises(MillstreamError):
        hands.db.execute("EXPLAIN nothing;")
    assert all(query.type == "PERSISTENT" for query in hands.db.metrics().queries)


def test_stream_time_and_rows_of_state(hands: Hands) -> None:
    """Before any record there is no time; earlier ones do not take it back."""
    (sub,) = hands.db.metrics().query(SPENDING).sub_topologies
    assert (sub.stream_time_ms, sum(sub.state_rows.values())) == (None, 0)
    hands.db.execute("INSERT INTO orders (ROWTIME, customer) VALUES (1700000099000, 'zoe');")
    hands.db.execute("INSERT INTO orders (ROWTIME, customer) VALUES (1700000098000, 'zoe');")
    hands.db.wait()
    metrics = hands.db.metrics()
    (sub,) = metrics.query(SPENDING).sub_topologies
    customers = len(list(hands.db.execute("SELECT * FROM spending;")))
    assert sub.stream_time_ms == 1_700_000_099_000
    assert sub.state_rows["aggregate_2"] == customers > 1
    (row,) = metrics.arrow().to_pylist()
    assert (row["stream_time_ms"], row["state_rows"]) == (
        sub.stream_time_ms,
        sum(sub.state_rows.values()),
    )
    assert "rows of state, stream time 2023-11-14T22:14:59.000Z" in explained(hands)


def test_a_stream_time_beyond_all_calendars_is_told(hands: Hands) -> None:
    hands.db.execute("INSERT INTO orders (ROWTIME, customer) VALUES (900000000000000, 'zoe');")
    hands.db.wait()
    assert "stream time 900000000000000 ms" in explained(hands)


def explained(hands: Hands) -> str:
    return str(hands.db.execute(f"EXPLAIN {SPENDING};").fetchall()[0])  # type: ignore[union-attr]
