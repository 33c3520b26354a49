"""The year in small, and what its judge finds."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from tests.endurance.run import STRETCHES, Sample, Year, judge, live_through

WELL = Sample(0, 100 << 20, 80 << 20, 0.2, 300 << 20, 20.0, 1)


def test_a_year_in_small(tmp_path: Path) -> None:
    samples, wrong = live_through(tmp_path, days=12, seconds=0, records=50, keys=20, seed=1)
    assert wrong == []
    assert len(samples) > STRETCHES // 2
    assert all(each.live > 0 and each.files > each.live for each in samples)


def test_a_record_too_many_is_found(tmp_path: Path) -> None:
    year = Year(tmp_path, seed=2)
    year.work(50, 20)
    assert year.check() == []
    year.db.execute(f"INSERT INTO clicks (k, n, t) VALUES ('k1', 1, {year.clock.now});")
    year.db.engine.drain()
    (wrong,) = year.check()
    assert wrong.startswith("clicks_counts has 51 records")
    year.db.close()


@pytest.mark.parametrize("name", ["files", "opening", "memory", "cpu_us"])
def test_what_grows_is_found(name: str) -> None:
    value = getattr(WELL, name)
    grows = [replace(WELL, **{name: value * (1 + number / 10)}) for number in range(24)]
    assert any(each.startswith(name) for each in judge(grows))
    assert judge([WELL] * 24) == []


def test_files_that_are_too_large_are_found() -> None:
    large = replace(WELL, files=400 << 20)
    assert judge([*[WELL] * 23, large]) == ["day 0: the files have 400 MB, 80 MB are live"]
