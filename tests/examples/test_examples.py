"""Each example prints what it is meant to, and mypy accepts all."""

from __future__ import annotations

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

import millstream

ROOT = Path(__file__).resolve().parents[2]
PRINTED = {
    "local_state": "[a, 4]\n[b, 6]\n",
    "word_count": "kafka: 2\nstreams: 3\n",
    "fraud": "('1111', 1, ['more than usual'])\n('2222', 1, ['FR and BR'])\n",
    "silence": "boiler has said nothing since 12:15: tell ann@example.com\n",
    "web": (
        "{'orders': 1.0, 'total': 12.5} 404\n"
        "{'orders': 2.0, 'total': 19.5} 404\n"
        'data: {"customer": "ann", "total": 12.5}\n'
    ),
    "enrichment": "Bern: 100\nGraz: 100\nLyon: 100\n",
    "scoring": "2970 visitors are not likely to buy\n7030 visitors are likely to buy\n",
}


def test_every_example_is_here() -> None:
    programs = {path.stem for path in (ROOT / "examples").glob("*.py")}
    assert {name for name in programs if not name.startswith("test_")} == PRINTED.keys()


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_as_a_program(name: str) -> None:
    command = [sys.executable, str(ROOT / "examples" / f"{name}.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == (PRINTED[name], 0), done.stderr


def test_types_are_strict() -> None:
    command = [sys.executable, "-m", "mypy", "--strict", "--no-incremental", "examples"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_in_a_file(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    example = import_module(f"examples.{name}")
    path = str(tmp_path / "example.db")
    with millstream.connect(path, functions=example.FUNCTIONS) as database:
        example.run(database)
    assert capsys.readouterr().out == PRINTED[name]
