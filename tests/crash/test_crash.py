"""A few kills with each change; `python -m tests.crash.crash` runs campaigns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.crash import campaign
from tests.draws import draws


@pytest.mark.parametrize(
    ("kind", "kills"),
    [
        ("log", 3),
        ("compaction", 3),
        ("engine", 2),
        ("processor", 2),
        ("checkpoints", 10),
        ("topology", 2),
        ("backfill", 2),
        ("replace", 2),
        ("pipeline", 2),
        pytest.param("log", draws(100), marks=pytest.mark.slow),
        pytest.param("engine", draws(100), marks=pytest.mark.slow),
        pytest.param("backfill", draws(100), marks=pytest.mark.slow),
    ],
)
def test_killing(tmp_path: Path, kind: str, kills: int) -> None:
    status, report = campaign(kind, kills, seed=kills, folder=tmp_path)
    assert status == 0, report


def test_killing_with_a_registry(tmp_path: Path) -> None:
    """The format is chosen where the processes that are killed are imported: once."""
    command = [sys.executable, "-m", "tests.crash.crash", "--kind", "engine", "--kills", "2"]
    command += ["--format", "AVRO", "--folder", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"_millstream_schemas": 3' in done.stdout
