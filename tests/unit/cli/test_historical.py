"""Queries over history in the shell: a table or rows as they arrive, progress, Ctrl-C."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pyarrow as pa
import pytest
from rich.console import Console

import millstream
from millstream import Database, History
from millstream.history.progress import StageProgress
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.sessions import historical
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.results import Live, ResultTable

SCRIPT = """
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
INSERT INTO s (ROWTIME, k, v) VALUES (1000, 'a', 1);
INSERT INTO s (ROWTIME, k, v) VALUES (2000, 'b', 2);
INSERT INTO s (ROWTIME, k, v) VALUES (3000, 'a', 3);
"""


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect() as made:
        made.execute(SCRIPT)
        yield made


def shown(db: Database, text: str) -> str:
    out = io.StringIO()
    output = Output(Console(file=out, width=80))
    Terminal(LocalSession(db), output, output).execute(text)
    return out.getvalue()


def test_a_table(db: Database) -> None:
    text = shown(db, "SELECT k, SUM(v) AS total FROM s AS OF TIMESTAMP 2000 GROUP BY k ORDER BY k;")
    assert [line.split() for line in text.splitlines() if "1" in line or "2" in line][:2]
    assert "TOTAL" in text and "3" not in text


def test_an_error_shows_the_place(db: Database) -> None:
    text = shown(db, "SELECT * FROM s AS OF TIMESTAMP '2999';")
    assert "beyond now" in text and "^" in text


def history(sizes: list[int], told: list[StageProgress] | None = None) -> History:
    def batches() -> Iterator[pa.Table]:
        for size in sizes:
            yield pa.table({"N": list(range(size))})

    empty = pa.table({"N": pa.array([], pa.int64())})
    return History(None, empty, batches(), lambda: None, lambda: tuple(told or ()))


def test_many_rows_are_shown_as_they_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(historical, "TABLE_ROWS_MAX", 4)
    few = historical.shown(history([2, 1]))
    assert isinstance(few, ResultTable) and few.rows == [(0,), (1,), (0,)]
    many = historical.shown(history([3, 3, 2]))
    assert isinstance(many, Live)
    assert [len(batch) for batch in many.batches] == [6, 2]


def test_stages_are_reported() -> None:
    told: list[tuple[str, int, int | None]] = []

    def progress(done: int, total: int | None, name: str = "rows") -> None:
        told.append((name, done, total))

    historical.shown(history([1], [StageProgress("stage 3", 2, 8)]), progress)
    assert ("stage 3", 2, 8) in told
