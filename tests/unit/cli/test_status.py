"""The bar below the prompt, and waiting with bars of progress."""

from __future__ import annotations

import io
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

import millstream
from millstream_cli.prompt.toolbar import Watch, toolbar
from millstream_cli.screen.output import Output
from millstream_cli.screen.progress import Bars, wait
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.results import QueryStatus, Status
from millstream_cli.sessions.sizes import rows_in


def bar(*queries: QueryStatus, reachable: bool = True) -> str:
    status = Status("shop.db", queries, reachable)
    return "".join(part[1] for part in toolbar(status, "CSV", vi=False))


@pytest.mark.parametrize(
    ("queries", "wanted"),
    [
        ((), ("0 of 0 queries running",)),
        ((QueryStatus("A", "RUNNING", 1200),), ("1 of 1 query running", "lag 1,200", "CSV")),
        (
            (QueryStatus("A", "RUNNING", None), QueryStatus("B", "ERROR", 0)),
            ("1 of 2", " 1 in error ", "lag ?"),
        ),
        (
            (QueryStatus("A", "RESTORING", 0, 25, 100, 12.3),),
            ("0 of 1", "restoring 75 %, 12 s left"),
        ),
        (
            (QueryStatus("A", "RUNNING", 0, skipped=1),),
            (" 1 record skipped, see KSQL_PROCESSING_LOG ",),
        ),
        (
            (QueryStatus("A", "RUNNING", 0, skipped=999), QueryStatus("B", "RUNNING", skipped=2)),
            (" 1,001 records skipped, see KSQL_PROCESSING_LOG ",),
        ),
    ],
)
def test_the_bar(queries: tuple[QueryStatus, ...], wanted: tuple[str, ...]) -> None:
    assert all(part in bar(*queries) for part in wanted)


def test_a_bar_of_healthy_queries_speaks_of_no_skipped_record() -> None:
    assert "skipped" not in bar(QueryStatus("A", "RUNNING", 0))


def test_the_bar_without_a_server() -> None:
    assert "not reachable" in bar(reachable=False)


def test_a_watch_outlives_what_goes_wrong() -> None:
    def look() -> Status:
        watch.over.set()
        raise RuntimeError("closing")

    watch = Watch(look, Status("x"))
    watch._run()
    assert watch.latest == Status("x", reachable=False)


def waited(*looks: tuple[QueryStatus, ...], query: str | None = None) -> tuple[str, str]:
    """How waiting ends that sees these, one after another, and what was drawn on the way."""
    out = Output(Console(file=io.StringIO(), width=100, force_terminal=True))
    seen: Iterator[tuple[QueryStatus, ...]] = iter(looks)
    last = looks[-1]
    end = wait(lambda: Status("x", next(seen, last)), out, query, pause=lambda _: None)
    file = out.screen.file
    assert isinstance(file, io.StringIO)
    return end, file.getvalue()


def test_waiting_shows_how_far_it_is() -> None:
    end, drawn = waited(
        (QueryStatus("A", "RESTORING", None, 60, 100),),
        (QueryStatus("A", "RUNNING", 900),),
        (QueryStatus("A", "RUNNING", 300),),
        (QueryStatus("A", "RUNNING", 0),),
    )
    assert end == "Up to date."
    assert "A restores" in drawn and " 40/100" in drawn and "━" in drawn


@pytest.mark.parametrize(
    ("queries", "wanted"),
    [
        ((), "There is no query"),
        ((QueryStatus("A", "ERROR", 5),), "In error: A"),
        ((QueryStatus("A", "PAUSED", 5),), "Up to date"),
        ((QueryStatus("A", "RUNNING", None),), "not known how far they are: A"),
    ],
)
def test_how_waiting_ends(queries: tuple[QueryStatus, ...], wanted: str) -> None:
    assert wanted in waited(queries)[0]


def test_waiting_for_one_query() -> None:
    queries = (QueryStatus("A", "RUNNING", 0), QueryStatus("B", "ERROR", 9))
    assert waited(queries, query="A")[0] == "Up to date."


def test_rows_of_files(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "a.json").write_text('[{"a": 1}]\n')
    pq.write_table(pa.table({"a": [1, 2, 3]}), tmp_path / "a.parquet")
    assert rows_in(tmp_path / "a.csv") == 2
    assert rows_in(tmp_path / "a.json") is None
    assert rows_in(tmp_path / "a.parquet") == 3
    assert rows_in(tmp_path / "none.csv") is None


def test_records_that_are_skipped_are_counted_and_late_ones_are_not() -> None:
    with millstream.connect() as db:
        session = LocalSession(db)
        for _ in session.run("""
            CREATE STREAM s (k STRING KEY, v INT, t BIGINT)
              WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON', TIMESTAMP='t');
            CREATE STREAM raw (k STRING KEY, v STRING)
              WITH (KAFKA_TOPIC='s', VALUE_FORMAT='KAFKA');
            CREATE TABLE w AS SELECT k, COUNT(*) AS c FROM s
              WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS) GROUP BY k;
            INSERT INTO raw VALUES ('a', 'no JSON');
            INSERT INTO s VALUES ('a', 1, 900000);
            INSERT INTO s VALUES ('a', 1, 1);
        """):
            pass
        session.database.wait()
        (query,) = session.status().queries
        assert query.skipped == 1
        assert session.database.metrics().query(query.query_id).problems["LATE"] == 1


def test_bars_tell_the_rate_and_the_time_to_go() -> None:
    seen, now = io.StringIO(), 0.0
    out = Output(Console(file=seen, width=120, force_terminal=True))
    with Bars(out, clock=lambda: now) as bars:
        for now in (0.0, 1.0, 2.0):
            bars.update("orders.csv", int(now) * 1500, 9000)
    line = seen.getvalue()
    assert "3000/9000" in line
    assert "1,500/s" in line
    assert "0:00:04" in line
