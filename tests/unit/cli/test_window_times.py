"""The bounds of windows are shown as times, where people look at them."""

from __future__ import annotations

import datetime as dt

import pytest

from millstream.query.changes import Deletion
from millstream.query.changes import Row as Change
from millstream_cli.main import main
from millstream_cli.screen.window_times import with_times

SCRIPT = """
    CREATE STREAM s (k STRING KEY, v INT, t BIGINT)
      WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON', TIMESTAMP='t');
    CREATE TABLE w AS SELECT k, COUNT(*) AS c FROM s WINDOW TUMBLING (SIZE 1 HOUR) GROUP BY k;
    SET 'auto.offset.reset' = 'earliest';
    INSERT INTO s VALUES ('a', 1, 1700000000000);
    SELECT * FROM w;
    SELECT k, WINDOWSTART, WINDOWSTART AS number, c FROM w EMIT CHANGES LIMIT 1;
"""
START = "2023-11-14T22:00:00.000"


@pytest.mark.parametrize("form", ["TABULAR", "VERTICAL"])
def test_people_see_times(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, form: str
) -> None:
    monkeypatch.setenv("COLUMNS", "160")
    assert main(["--output", form, "-e", SCRIPT]) == 0
    shown = capsys.readouterr().out
    assert shown.count(START) == 2
    assert shown.count("2023-11-14T23:00:00.000") == 1
    assert "1699999200000" in shown, "a column of another name is a number"


@pytest.mark.parametrize("form", ["JSON", "CSV"])
def test_programs_read_numbers(capsys: pytest.CaptureFixture[str], form: str) -> None:
    assert main(["--output", form, "-e", SCRIPT]) == 0
    shown = capsys.readouterr().out
    assert "2023-11-14" not in shown
    assert "1699999200000" in shown and "1700002800000" in shown


def test_what_is_no_time_stays() -> None:
    columns = ["WINDOWSTART", "K"]
    (row, none, far) = with_times(columns, [(0, 0), (None, 1), (1 << 62, 2)])
    assert row == (dt.datetime(1970, 1, 1), 0)
    assert (none, far) == ((None, 1), (1 << 62, 2))
    (change, deletion) = with_times(columns, [Change((0, 1)), Deletion((0, None))])
    assert not change.deleted and deletion.deleted
    rows = [(1, 2)]
    assert with_times(["A", "B"], rows) is rows
