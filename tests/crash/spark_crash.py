"""Kill an engine that makes and drops a table with back-fill on Spark, or Spark's driver.

    python -m tests.crash.spark_crash --kills 30 [--minutes N] [--seed S] [--folder F]

Rows arrive all the time. Either the engine is killed: its JVM and the workers must end by
themselves, and the file is checked by checker.py. Or the JVM is: the statement must be refused, and
the next one must start another JVM. At the end the table is made over all rows, and checked to be
whole. Exit status 1 on a violation; 2 when the run proves nothing: no kill fell into a job.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from subprocess import Popen

from tests.crash.crash import START_SECONDS, Run, check, workload
from tests.crash.started import descendants, kill_drivers, left_behind

KIND = "spark"
PATIENCE_SECONDS = 240.0
MOMENTS = {"making": 1.5, "made": 0.2, "dropping": 0.1}
"""The workload's lines, and the most seconds between a line and a kill."""
COLD_SECONDS = 25.0
"""The same, for the first job of a process: Spark has to start."""
ODDS = (6, 1, 1)
DRIVER_ODDS = 0.4


class Working:
    """The workload, and its output."""

    def __init__(self, run: Run) -> None:
        self.process: Popen[str] = workload(run)
        self.acked = run.acked
        self.said: Counter[str] = Counter()
        self.last = ""
        self.refused = ""
        self._news = threading.Condition()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            word, _, rest = line.strip().partition(" ")
            with self._news:
                if word == "acked" and line.endswith("\n"):
                    self.acked = int(rest)
                else:
                    self.refused = rest if word == "refused" else self.refused
                    self.last = self.last if word == "ready" else word
                    self.said[word] += 1
                self._news.notify_all()

    def hears(self, *words: str) -> bool:
        """Wait until one of these is printed once more; returns whether it was."""
        before = sum(self.said[word] for word in words)
        with self._news:
            return self._news.wait_for(
                lambda: sum(self.said[word] for word in words) > before, PATIENCE_SECONDS
            )

    def kill(self) -> None:
        """End it, and read its remaining output."""
        self.process.kill()
        self.process.wait()
        self._listener.join()


def kill_engine(run: Run, working: Working, seen: Counter[str]) -> None:
    """What it has started must end too, and the file be as it must."""
    started = descendants(working.process.pid)
    working.kill()
    run.in_flight += working.acked > run.acked
    run.acked = working.acked
    seen["engines"] += 1
    seen["engines in a job"] += working.last == "making"

    if left := left_behind(started):
        run.failures.append(f"left behind: {left}")
    check(run)


def kill_driver(run: Run, working: Working, seen: Counter[str]) -> bool:
    """The engine must continue with another one; returns whether there was any."""
    refused = working.said["refused"]
    in_job = working.last == "making"
    if not kill_drivers(working.process.pid):
        return False
    seen["drivers"] += 1
    seen["drivers in a job"] += in_job
    if not working.hears("made"):
        run.failures.append(f"nothing was made after the driver was killed: {working.refused}")
    seen["statements refused"] += working.said["refused"] - refused
    return True


def campaign(kills: int, seed: int, folder: Path, minutes: float = math.inf) -> tuple[int, str]:
    """Kill and check `kills` times; returns the exit status and a report."""
    run = Run(KIND, folder / "crash.db", random.Random(seed))
    seen: Counter[str] = Counter()
    began = time.monotonic()
    working = Working(run)
    try:
        while run.kills < kills and not run.failures and time.monotonic() - began < 60 * minutes:
            moment = run.rng.choices(tuple(MOMENTS), ODDS)[0]
            if not working.hears(moment):
                run.failures.append(f"'{moment}' was not said, last: {working.last}")
                break
            cold = moment == "making" and working.said["made"] == 0
            time.sleep(run.rng.uniform(0.0, COLD_SECONDS if cold else MOMENTS[moment]))
            if run.rng.random() < DRIVER_ODDS and kill_driver(run, working, seen):
                run.kills += 1
                continue
            kill_engine(run, working, seen)
            run.kills += 1
            working = Working(run)
    finally:
        working.kill()
    run.acked = working.acked
    if not run.failures and workload(run, "--finish").wait(10 * START_SECONDS):
        run.failures.append("it does not finish")
    summary = check(run, complete=True) if not run.failures else ""
    told = ", ".join(f"{count} {what}" for what, count in sorted(seen.items()))
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    report = (
        f"back-fill on Spark: seed {seed}, {run.kills} kills ({told}), {run.acked + 1} records"
        f" acknowledged, {minutes}:{seconds:02}, {summary}"
    )
    if run.failures:
        return 1, "\n".join([report, *run.failures])
    if not (seen["engines in a job"] and seen["drivers in a job"]):
        return 2, f"{report}\nINVALID: no kill of an engine, or of a driver, fell into a job"
    return 0, f"{report}\nno gap, nothing twice, nothing left behind"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = given.folder or Path(temporary)
        status, report = campaign(given.kills, given.seed, folder, given.minutes)
    sys.stdout.write(report + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
