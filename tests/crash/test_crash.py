"""A few kills with each change; `python -m tests.crash.crash` runs campaigns."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.crash.crash import campaign


@pytest.mark.parametrize("kills", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_killing_the_log(tmp_path: Path, kills: int) -> None:
    status, report = campaign("log", kills, seed=kills, folder=tmp_path)
    assert status == 0, report
