"""Topics as Parquet files."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from millstream.backup.topics import SCHEMA, export_topic, import_topic
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import StatementError, UnavailableError


@pytest.fixture
def log() -> Iterator[EmbeddedLog]:
    found = EmbeddedLog.open(":memory:")
    found.create_topic(Topic("t", 3))
    yield found
    found.close()


def records(log: EmbeddedLog, topic: str, part: int) -> list[dict[str, Any]]:
    found = log.read(topic, part, log.start_offset(topic, part), 10_000).records().to_pylist()
    return [{name: row[name] for name in ("timestamp", "key", "value", "headers")} for row in found]


BYTES = st.none() | st.binary(max_size=5)
HEADERS = st.none() | st.lists(st.fixed_dictionaries({"key": st.text(max_size=3), "value": BYTES}))
ROWS = st.lists(st.tuples(st.integers(0, 2), BYTES, BYTES, st.integers(-9, 1 << 41), HEADERS))


@given(ROWS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
def test_what_is_imported_is_what_was_exported(tmp_path: Path, rows: list[Any]) -> None:
    log, file = EmbeddedLog.open(":memory:"), tmp_path / "t.parquet"
    log.create_topic(Topic("t", 3))
    for part, key, value, time, headers in rows:
        log.send([Appended("t", part, raw_batch([(key, value, time)], [headers]), 1)])
    log.truncate("t", 1, 1)
    assert export_topic(log, "t", file) == import_topic(log, "u", file, 3)
    for part in range(3):
        assert records(log, "u", part) == records(log, "t", part)
    file.unlink()
    log.close()


def test_files_of_others(log: EmbeddedLog, tmp_path: Path) -> None:
    """A value is enough; text and other units of time are converted."""
    pq.write_table(pa.table({"value": ["a", "b", None]}), tmp_path / "a.parquet")
    assert import_topic(log, "new", tmp_path / "a.parquet") == 3
    assert [row["value"] for row in records(log, "new", 0)] == [b"a", b"b", None]
    assert records(log, "new", 0)[0]["timestamp"] > 1_700_000_000_000
    times = pa.array([dt.datetime(2026, 1, 1)], pa.timestamp("us"))
    made = pa.table({"value": [b"v"], "timestamp": times, "partition": pa.array([2], pa.int64())})
    pq.write_table(made, tmp_path / "b.parquet")
    assert import_topic(log, "t", tmp_path / "b.parquet") == 1
    assert records(log, "t", 2)[0]["timestamp"] == 1_767_225_600_000


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"key": [b"a"]}, "has no column 'value'"),
        ({"value": [1]}, "Column 'value' of .* is int64, not binary"),
        ({"value": [b"a"], "timestamp": [1]}, "Column 'timestamp' of .* is int64"),
        ({"value": [b"a"], "partition": [3]}, "are in 4 partitions, topic 't' has 3"),
        ({"value": [b"a"], "partition": [-1]}, "has numbers from 0 on"),
        ({"value": [b"a"], "partition": [1 << 40]}, "has at most 10000 partitions"),
        ({"value": [b"a"], "headers": [[1]]}, "Column 'headers' of"),
    ],
)
def test_what_does_not_fit_is_refused_as_a_whole(
    log: EmbeddedLog, tmp_path: Path, columns: dict[str, Any], message: str
) -> None:
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with pytest.raises(StatementError, match=message):
        import_topic(log, "t", tmp_path / "a.parquet")
    assert [log.end_offset("t", part) for part in range(3)] == [0, 0, 0]
    (tmp_path / "x.parquet").write_text("no")
    with pytest.raises(StatementError, match="is no Parquet file"):
        import_topic(log, "t", tmp_path / "x.parquet")


def test_exports_are_refused(log: EmbeddedLog, tmp_path: Path) -> None:
    with pytest.raises(StatementError, match="There is no topic 'x'"):
        export_topic(log, "x", tmp_path / "a.parquet")
    (tmp_path / "a.parquet").write_text("precious")
    with pytest.raises(StatementError, match="is there already"):
        export_topic(log, "t", tmp_path / "a.parquet")
    with pytest.raises(UnavailableError, match="Could not write"):
        export_topic(log, "t", tmp_path / "nowhere" / "a.parquet")
    assert export_topic(log, "t", tmp_path / "b.parquet") == 0
    assert pq.read_schema(tmp_path / "b.parquet").equals(SCHEMA)
    assert len(list(tmp_path.iterdir())) == 2
