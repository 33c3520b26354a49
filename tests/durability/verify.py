"""Opens damaged databases and tells what is in them: a process of its own, which may die.

Each line of the input names a folder; for each there is a line of JSON: what was found, or the
error that was raised. `run` is the other side.
"""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

import millstream
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from tests.durability.workload import NAME

HERE = Path(__file__).parent


def found_in(folder: Path) -> dict[str, Any]:
    """What a database holds: the numbers of its stream, and its table."""
    with millstream.connect(folder / NAME, settings=EngineSettings(linger_ms=0)) as db:
        if "S" not in db.engine.catalog.sources:
            return {"numbers": [], "sums": []}
        db.wait()
        numbers = sorted(v for _, v in db.execute("SELECT k, v FROM s;"))
        if "SUMS" not in db.engine.catalog.sources:
            return {"numbers": numbers, "sums": []}
        sums = sorted(db.execute("SELECT k, n, total FROM sums;"))
        return {"numbers": numbers, "sums": [[k, n, int(total)] for k, n, total in sums]}


def expected(numbers: list[int]) -> list[list[Any]]:
    """The table for these numbers."""
    keys = sorted({number % 5 for number in numbers})
    parts = ([number for number in numbers if number % 5 == key] for key in keys)
    return [[f"k{key}", len(part), sum(part)] for key, part in zip(keys, parts, strict=True)]


def main() -> None:
    """Answer until the input ends."""
    logging.disable()
    for line in sys.stdin:
        try:
            answer = found_in(Path(line.strip()))
        except MillstreamError as error:
            shown = f"{error.message}\n{error.detail}\n{error.hint}"
            answer = {"refused": error.code, "message": shown}
        except BaseException:
            answer = {"raised": traceback.format_exc()}
        print(json.dumps(answer), flush=True)


class Opener:
    """The process that opens databases; a new one takes the place of one that dies."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def open(self, folder: Path) -> dict[str, Any]:
        """What is found in a folder; {"died": …} if the process does."""
        process = self._process
        if process is None:
            command = [sys.executable, "-m", "tests.durability.verify"]
            process = self._process = subprocess.Popen(
                command,
                cwd=HERE.parent.parent,
                text=True,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
        assert process.stdin is not None and process.stdout is not None
        with suppress(BrokenPipeError):
            print(folder, file=process.stdin, flush=True)
        line = process.stdout.readline()
        if line:
            return dict(json.loads(line))
        assert process.stderr is not None
        died = process.stderr.read()[-2000:]
        self._process = None
        return {"died": f"exit status {process.wait()}: {died}"}

    def __enter__(self) -> Opener:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            self._process.stdin.close()
            self._process.wait()


if __name__ == "__main__":
    main()
