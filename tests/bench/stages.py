"""Where the time of a workload goes: CPU seconds per million records of each stage.

Each stage is timed by the CPU clock of its thread; what is indented is part of the line above it.
"""

from __future__ import annotations

import argparse
import functools
import shutil
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.bench.run import _child, records_in
from tests.bench.workloads import WORKLOADS

STAGES = {
    "millstream.log.embedded:EmbeddedLog.read": "read from the log",
    "millstream.executor.executor:take_in": "take in",
    "millstream.formats.codec:read_json": "  of that JSON to columns",
    "millstream.formats.json_cut:places_of": "    of that finding the values by numpy",
    "millstream.formats.json_scan:scan": "    of that finding the values by compiled code",
    "millstream.executor.executor:run_steps": "program (DuckDB)",
    "millstream.executor.executor:DuckDBExecutor._emit": "emit",
    "millstream.formats.codec:write_json": "  of that columns to JSON",
    "millstream.executor.executor:DuckDBExecutor.flush": "flush",
    "millstream.log.embedded:EmbeddedLog._write": "append to the log",
    "millstream.log.tables:insert_records": "  of that insert",
    "millstream.log.logfile:LogFile._commit": "  of that commit",
    "millstream.executor.executor:DuckDBExecutor.commit": "commit of state",
}


class Clock:
    """Seconds and calls by stage."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = defaultdict(float)

    def watch(self, place: str, stage: str) -> None:
        """Time every call of the function at `place` (module:name) as `stage`."""
        module, _, name = place.partition(":")
        owner: Any = sys.modules[module]
        *classes, last = name.split(".")
        for part in classes:
            owner = getattr(owner, part)
        setattr(owner, last, self._timed(getattr(owner, last), stage))

    def _timed(self, function: Callable[..., Any], stage: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            started = time.thread_time()
            try:
                return function(*arguments, **named)
            finally:
                self.spent[stage] += time.thread_time() - started

        return timed


def stages(path: Path, name: str) -> tuple[dict[str, float], float]:
    """Seconds per million records of each stage, and of the process while the query ran."""
    import millstream

    workload = next(item for item in WORKLOADS if item.name == name)
    clock = Clock()
    for place, stage in STAGES.items():
        clock.watch(place, stage)
    properties = {
        "auto.offset.reset": "earliest",
        "commit.interval.ms": "1000",
        "cache.max.bytes.buffering": "10485760" if workload.cached else "0",
    }
    settings = millstream.EngineSettings(commit_interval_ms=1000)
    with millstream.connect(str(path), properties=properties, settings=settings) as database:
        million = records_in(database.engine, workload.inputs) / 1e6
        clock.spent.clear()
        started = time.process_time()
        database.execute(workload.sql)
        database.wait()
        whole = time.process_time() - started
        spent = dict(clock.spent)
    return {stage: spent.get(stage, 0.0) / million for stage in STAGES.values()}, whole / million


def main(arguments: list[str]) -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="stages", description=__doc__)
    parser.add_argument("workload", choices=[item.name for item in WORKLOADS])
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="millstream-stages-") as folder:
        source = Path(folder) / "input.db"
        _child("load", str(source), str(options.events))
        copy = Path(folder) / "copy.db"
        shutil.copyfile(source, copy)
        found, whole = stages(copy, options.workload)
    for stage, seconds in found.items():
        print(f"{options.workload}  {stage:32} {seconds:6.2f}")
    print(f"{options.workload}  {'the process, query alone':32} {whole:6.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
