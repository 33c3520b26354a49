"""Processors of whole batches: what they get, what they may forward, and their state."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import BatchContext, BatchProcessor, Database, EngineSettings, KeyValueStore
from millstream.runtime.spec import QueryState
from tests.draws import draws

STREAM = """
CREATE STREAM s (k STRING KEY, v BIGINT, l ARRAY<INT>)
  WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
"""


class Doubled(BatchProcessor):
    """As many rows as records, with their number in the store."""

    output = "k STRING KEY, twice DOUBLE, n BIGINT"

    def init(self, context: BatchContext) -> None:
        self.context = context
        self.count = context.store("count", KeyValueStore("STRING", "BIGINT"))

    def process(self, batch: pa.RecordBatch) -> None:
        numbers = []
        for key in batch["K"].to_pylist():
            numbers.append(self.count.get(key, 0) + 1)
            self.count.put(key, numbers[-1])
        twice = 2 * batch["V"].to_numpy(zero_copy_only=False)
        self.context.forward({"K": batch["K"], "TWICE": twice, "N": numbers})


def opened(supplier: Any, path: str = ":memory:", batch: int = 1_000) -> Database:
    return millstream.connect(
        path,
        functions=[millstream.processor(supplier, name="Batched")],
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"},
    )


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


RECORDS = st.lists(st.tuples(st.sampled_from("abc"), st.integers(-9, 9)), min_size=1, max_size=20)


@settings(max_examples=draws(10), deadline=None)
@given(RECORDS, st.integers(0, 20), st.integers(1, 6))
def test_state_whatever_the_batches_and_restarts(
    tmp_path_factory: pytest.TempPathFactory,
    records: list[tuple[str, int]],
    cut: int,
    batch: int,
) -> None:
    path = tmp_path_factory.mktemp("batches") / "db"
    values = [{"k": k, "v": v, "ROWTIME": 1_000 + n} for n, (k, v) in enumerate(records)]
    with opened(Doubled, str(path)) as db:
        db.execute(STREAM + "CREATE STREAM o AS SELECT * FROM PROCESS(s, 'Batched');")
        db.insert("s", values[:cut])
        db.wait()
    for file in path.parent.glob("*state*"):
        file.unlink()
    with opened(Doubled, str(path), batch) as db:
        db.insert("s", values[cut:])
        db.wait()
        found = rows(db, "SELECT k, twice, n, ROWTIME FROM o;")
    count: dict[str, int] = {}
    expected = []
    for n, (k, v) in enumerate(records):
        count[k] = count.get(k, 0) + 1
        expected.append((k, 2.0 * v, count[k], 1_000 + n))
    assert sorted(found, key=lambda row: row[3]) == expected


def test_more_and_fewer_rows_have_times_of_their_own() -> None:
    class Several(BatchProcessor):
        output = "name STRING, total BIGINT"

        def init(self, context: BatchContext) -> None:
            self.context = context

        def process(self, batch: pa.RecordBatch) -> None:
            assert batch.schema.names == ["K", "V", "L", "ROWTIME"]
            last = pc.max(batch["ROWTIME"]).as_py()
            assert self.context.stream_time == dt.datetime.fromtimestamp(
                last / 1000, dt.UTC
            ).replace(tzinfo=None)
            total = pc.sum(batch["V"]).as_py()
            self.context.forward(
                pa.table({"TOTAL": pa.array([total, -total], pa.int32()), "ROWTIME": [last, 5]})
            )
            self.context.forward({"NAME": [], "ROWTIME": []})

    with opened(Several) as db:
        db.execute(STREAM + "CREATE STREAM o AS SELECT name, total, ROWTIME AS t FROM"
                   " PROCESS(s, 'Batched');")  # fmt: skip
        db.insert("s", [{"k": "a", "v": n, "l": [n], "ROWTIME": 10 + n} for n in range(3)])
        db.wait()
        found = rows(db, "SELECT name, total, t FROM o;")
        assert [status.error for status in db.engine.statuses()] == [""]
        assert sum(total for _, total, t in found if t != 5) == 3
        assert {name for name, _, _ in found} == {None} and 5 in {t for _, _, t in found}


Forwarding = Callable[[pa.RecordBatch], Any]
WRONG: Mapping[str, tuple[Forwarding, str]] = {
    "an unknown column": (lambda b: {"K": b["K"], "X": b["V"]}, "no column 'X'; it has: K, V"),
    "lower case": (lambda b: {"k": b["K"]}, "no column 'k'"),
    "another type": (lambda b: {"V": ["x"] * len(b)}, "column V: "),
    "a loss": (lambda b: {"V": np.full(len(b), 1.5)}, "column V: "),
    "too large": (lambda b: {"V": [2**40] * len(b)}, "column V: "),
    "no array": (lambda b: {"V": 7}, "column V: "),
    "mixed values": (lambda b: {"V": [1, "a"]}, "column V: "),
    "two lengths": (lambda b: {"K": b["K"], "V": [1, 2, 3]}, "column V has 3 values"),
    "other length": (lambda b: {"V": [1, 2, 3]}, "3 rows cannot have the times of 1 records"),
    "no time": (lambda b: {"V": [1], "ROWTIME": [None]}, "a row has no time"),
    "before 1970": (lambda b: {"V": [1], "ROWTIME": [-1]}, "before 1970"),
    "two columns": (lambda b: pa.table([[1], [2]], names=["V", "V"]), "two columns have one name"),
    "no batch": (lambda b: [1, 2], "a list is no batch"),
    "a frame": (lambda b: dt.date(2020, 1, 1), "a date is no batch"),
    "an exception": (lambda b: 1 / 0, "ZeroDivisionError"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_what_cannot_be_forwarded_stops_the_query_alone(wrong: str, tmp_path: Path) -> None:
    made, words = WRONG[wrong]

    class Wrong(BatchProcessor):
        output = "k STRING KEY, v INT"

        def init(self, context: BatchContext) -> None:
            self.context = context

        def process(self, batch: pa.RecordBatch) -> None:
            self.context.forward(made(batch))

    class Right(Wrong):
        def process(self, batch: pa.RecordBatch) -> None:
            self.context.forward(batch.select(["K", "V"]))

    path = str(tmp_path / "db")
    with opened(Wrong, path) as db:
        db.execute(STREAM + "CREATE STREAM o AS SELECT * FROM PROCESS(s, 'Batched');")
        db.execute("CREATE STREAM c AS SELECT * FROM s;")
        db.execute("INSERT INTO s (k, v) VALUES ('a', 1);")
        db.wait()
        found = {s.query_id.split("_")[1]: s for s in db.engine.statuses()}
        assert found["C"].state is QueryState.RUNNING
        assert found["O"].state is QueryState.ERROR
        assert words in found["O"].error and "Processor BATCHED.process raised" in found["O"].error
        assert "offset 0 of topic s" in found["O"].error
    with opened(Right, path) as db:
        db.wait()
        assert rows(db, "SELECT * FROM o;") == [("a", 1)]


def test_forward_is_for_process() -> None:
    class Early(BatchProcessor):
        output = "v INT"

        def init(self, context: BatchContext) -> None:
            context.forward({"V": [1]})

    with pytest.raises(millstream.MillstreamError, match="forward is for process"):
        millstream.processor(Early)


def test_explain_says_that_it_gets_batches() -> None:
    with opened(Doubled) as db:
        db.execute(STREAM)
        text = str(rows(db, "EXPLAIN SELECT * FROM PROCESS(s, 'Batched') EMIT CHANGES;"))
        assert "Process BATCHED [Python, by batches]" in text
