"""Figures that processors keep of their own."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

import millstream
from millstream import (
    AsyncContext,
    AsyncProcessor,
    BatchContext,
    BatchProcessor,
    Database,
    Processor,
    ProcessorContext,
    Record,
)
from millstream.metrics.figures import QueryMetrics
from millstream.processors.measuring import MOST, ProcessorMetrics

SOURCE = (
    "CREATE STREAM s (id INT KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');"
)
OUTPUT = "id INT KEY, n INT"


class Single(Processor):
    output = OUTPUT

    def init(self, context: ProcessorContext) -> None:
        self.context, self.seen = context, 0

    def process(self, record: Record) -> None:
        self.seen += 1
        self.context.metrics.add("records")
        self.context.metrics.add("amount", record.value["N"] / 2)
        self.context.metrics.set("seen", self.seen)


class Whole(BatchProcessor):
    output = OUTPUT

    def init(self, context: BatchContext) -> None:
        self.context, self.seen = context, 0

    def process(self, batch: pa.RecordBatch) -> None:
        self.seen += batch.num_rows
        self.context.metrics.add("records", batch.num_rows)
        self.context.metrics.add("amount", sum(batch["N"].to_pylist()) / 2)
        self.context.metrics.set("seen", self.seen)


class Waiting(AsyncProcessor):
    output = OUTPUT

    async def init(self, context: AsyncContext) -> None:
        self.context, self.seen = context, 0

    async def process(self, record: Record) -> None:
        await asyncio.sleep(0)
        Single.process(self, record)  # type: ignore[arg-type]


def measured(db: Database) -> QueryMetrics:
    db.wait()
    (query,) = db.metrics().queries
    return query


@pytest.mark.parametrize("kind", [Single, Whole, Waiting])
def test_counts_and_values_of_all_tasks(kind: Any) -> None:
    functions = [millstream.processor(kind)]
    earliest = {"auto.offset.reset": "earliest"}
    with millstream.connect(functions=functions, properties=earliest) as db:
        db.execute(SOURCE)
        db.execute(f"CREATE STREAM o AS SELECT * FROM PROCESS(s, '{kind.__name__}');")
        db.insert("s", [(number, number) for number in range(10)])
        found = measured(db)
        assert (found.counts, found.values) == ({"records": 10, "amount": 22.5}, {"seen": 10})
        assert found.called_seconds > 0
        db.insert("s", [(1, 1)])
        found = measured(db)
        assert (found.counts, found.values) == ({"records": 11, "amount": 23}, {"seen": 11})
        text = millstream.exposition(db.metrics())
        for line in (
            f'millstream_processor_count_total{{name="records",query="{found.query_id}"}} 11.0',
            f'millstream_processor_value{{name="seen",query="{found.query_id}"}} 11.0',
        ):
            assert line in text


def test_names_and_numbers_that_cannot_be() -> None:
    metrics = ProcessorMetrics()
    metrics.add("a")
    metrics.set("b", 1.5)
    for name, number in (("a", -1), ("b", 1), ("x y", 1), ("", 1), ('q"', 1), ("c", float("nan"))):
        with pytest.raises(ValueError, match=r"cannot be|only grows|already"):
            metrics.add(name, number)
    with pytest.raises(ValueError, match="already"):
        metrics.set("a", 1)
    for wrong in (True, "1", None):
        with pytest.raises(TypeError):
            metrics.add("d", wrong)  # type: ignore[arg-type]
    for number in range(MOST - 2):
        metrics.add(f"n{number}")
    with pytest.raises(ValueError, match="at most 100"):
        metrics.add("one_more")
    assert metrics.take_counts() == {"a": 1} | {f"n{n}": 1 for n in range(MOST - 2)}
    assert metrics.take_counts() == {}
    assert metrics.values() == {"b": 1.5}
