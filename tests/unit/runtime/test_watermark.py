"""Joins of what a query itself moves first: the other side waits for it, whenever it arrives."""

from __future__ import annotations

from pathlib import Path

import pytest

import millstream
from millstream.log.log import Appended, Fetched
from millstream.model.event_time import END, NEVER
from millstream.runtime.ports import RunResult
from millstream.runtime.watermark import Watermark

SELLERS = 600
SOURCES = """
CREATE STREAM person (id BIGINT KEY, name STRING, ts BIGINT)
  WITH (kafka_topic='person', partitions=2, value_format='JSON', timestamp='TS');
CREATE STREAM offer (id BIGINT KEY, seller BIGINT, ts BIGINT)
  WITH (kafka_topic='offer', partitions=2, value_format='JSON', timestamp='TS');
"""
JOIN = """
CREATE STREAM sales AS SELECT p.id, o.id AS offer FROM person p
  JOIN offer o WITHIN 2 SECONDS GRACE PERIOD 1 SECOND ON p.id = o.seller {where} EMIT CHANGES;
"""


def sold(path: Path, guarantee: str, query: str, batch: int) -> int:
    """How many of the sellers' offers are joined with them; the input is there before the query, a
    seller and their offer each second."""
    properties = {"processing.guarantee": guarantee, "auto.offset.reset": "earliest"}
    settings = millstream.EngineSettings(commit_interval_ms=200, max_batch_records=batch)
    with millstream.connect(path, properties=properties, settings=settings) as db:
        db.execute(SOURCES)
        for topic, name, fields in (
            ("person", "p", '"NAME": "n"'),
            ("offer", "o", '"SELLER": {n}'),
        ):
            lines = (
                f'{{"ID": {n}, {fields.format(n=n)}, "TS": {n * 1000}}}\n' for n in range(SELLERS)
            )
            file = path.with_suffix(f".{name}.json")
            file.write_text("".join(lines), encoding="utf-8")
            db.execute(f"COPY {topic} FROM '{file}';")
        db.execute(query)
        db.wait()
        return len(db.execute("SELECT * FROM sales;").fetchall())


@pytest.mark.parametrize("batch", [50, 100_000])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_a_join_waits_for_what_the_query_moves(tmp_path: Path, guarantee: str, batch: int) -> None:
    assert sold(tmp_path / "s.db", guarantee, JOIN.format(where=""), batch) == SELLERS


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_filtered_rows_delay_no_reader(tmp_path: Path, guarantee: str) -> None:
    query = JOIN.format(where="WHERE o.id < 3")
    assert sold(tmp_path / "s.db", guarantee, query, 50) == 3


def fetched(*, end: bool = True) -> Fetched[list[int]]:
    return Fetched("moved", 0, [], 0, 7, end)


MADE: RunResult[list[int]] = RunResult((Appended("moved", 0, [1], 1),), {}, watermark=END, first=40)
KEPT: RunResult[list[int]] = RunResult((), {}, watermark=END, first=40, kept=1)


@pytest.mark.parametrize("result", [MADE, KEPT])
def test_results_count_as_handed_on_with_the_commit(result: RunResult[list[int]]) -> None:
    watermark = Watermark()
    assert watermark.bound(fetched()).until == NEVER
    watermark.ran(result, held=True)
    bound = watermark.bound(fetched())
    assert (bound.end, bound.until) == (False, 39)
    watermark.committed()
    assert watermark.bound(fetched()) == fetched()


def test_a_run_without_results_blocks_no_other_one() -> None:
    watermark = Watermark()
    watermark.ran(RunResult((), {}, watermark=60, first=40), held=True)
    assert watermark.bound(fetched()).until == 60
    watermark.idled(END)
    assert watermark.bound(fetched()).end
