"""Kill a working process at random instants, again and again, and check what it left.

    python -m tests.crash.crash --kills 100 [--kind KIND] [--format AVRO] [--seed S] [--folder F]

After every kill the file is checked by a separate program (checker.py); at the end the work is
finished without a kill and checked for completeness. Exit status 1 on a violation; 2 when the run
proves nothing (too few acknowledged records, or no kill in the middle of work).
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.losing_state import LOADS
from tests.crash.warm import Warm

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
START_SECONDS = 60
OPENING_SECONDS = 0.5
ACKNOWLEDGEMENTS = {
    "log": 20,
    "compaction": 100,
    "engine": 12,
    "processor": 40,
    "checkpoints": 40,
    "topology": 40,
    "backfill": 40,
    "replace": 120,
    "pipeline": 40,
}
"""The most acknowledgements to wait for before a kill: counted, not timed, so that a busy machine
does not kill idle processes."""


@dataclass
class Run:
    """One campaign: its file and what happened so far."""

    kind: str
    path: Path
    rng: random.Random
    acked: int = -1
    kills: int = 0
    in_flight: int = 0
    failures: list[str] = field(default_factory=list)


def workload(run: Run, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.crash.workload", run.kind, str(run.path), *more]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)


def kill_once(run: Run) -> None:
    """Start the workload, kill it after a random while; remember what it acknowledged."""
    process = Warm([run.kind, str(run.path)])
    enough = threading.Event()
    wanted = run.rng.randint(0, ACKNOWLEDGEMENTS[run.kind])
    last = run.acked

    def listen() -> None:
        nonlocal last
        for count, line in enumerate(process.stdout):
            if line.startswith("acked ") and line.endswith("\n"):
                last = int(line.split()[1])
            if count >= wanted:
                enough.set()
        enough.set()

    listener = threading.Thread(target=listen, daemon=True)
    listener.start()
    # One kill in five falls into opening and recovery, wherever that is.
    if run.kills > 0 and run.rng.random() < 0.2:
        time.sleep(run.rng.uniform(0.0, OPENING_SECONDS))
    else:
        enough.wait(START_SECONDS)
        time.sleep(run.rng.uniform(0.0, 0.02))
    if (status := process.kill()) is not None:
        run.failures.append(f"the workload ended by itself with {status}")
    listener.join()
    run.kills += 1
    run.in_flight += last > run.acked
    run.acked = last


def check(run: Run, complete: bool = False) -> str:
    command = [sys.executable, str(HERE / "checker.py"), run.kind, str(run.path)]
    command += ["--acked", str(run.acked), *(["--complete"] if complete else [])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        run.failures.append(f"after kill {run.kills}:\n{done.stdout}{done.stderr}")
    return done.stdout.strip().splitlines()[-1] if done.stdout.strip() else ""


def campaign(kind: str, kills: int, seed: int, folder: Path) -> tuple[int, str]:
    """Kill and check `kills` times; returns the exit status and a report."""
    run = Run(kind, folder / "crash.db", random.Random(seed))
    while run.kills < kills and not run.failures:
        kill_once(run)
        if not run.failures and run.path.exists():
            check(run)
    if not run.failures:
        finishing = workload(run, "--finish")
        if finishing.wait(10 * START_SECONDS) != 0:
            run.failures.append(f"finishing ended with {finishing.returncode}")
    summary = check(run, complete=True) if not run.failures else ""
    report = (
        f"{kind}: seed {seed}, {run.kills} kills ({run.in_flight} with new acknowledgements), "
        f"{run.acked + 1} records acknowledged, {summary}"
    )
    if run.failures:
        return 1, "\n".join([report, *run.failures])
    if kind == "checkpoints":
        loads = Path(f"{run.path}{LOADS}")
        count = len(loads.read_text().splitlines()) if loads.exists() else 0
        report += f", {count} states loaded from checkpoints"
        if count < kills / 10:
            return 2, f"{report}\nINVALID: too few checkpoints were loaded"
    if run.acked + 1 < kills or run.in_flight < kills / 2:
        return 2, f"{report}\nINVALID: too little happened between the kills"
    return 0, f"{report}\nnothing lost, nothing twice"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--kind", choices=tuple(ACKNOWLEDGEMENTS), default="log")
    parser.add_argument("--format", choices=("JSON", "JSON_SR", "AVRO", "PROTOBUF"), default="JSON")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    os.environ["MILLSTREAM_CRASH_FORMAT"] = given.format
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        status, report = campaign(given.kind, given.kills, given.seed, folder)
    sys.stdout.write(report + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
