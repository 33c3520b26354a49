"""How much a query with a slow function in Python slows down another query.

A counts per auction over all records; B calls a function for each of them that takes a
millisecond, asleep or computing. A is timed alone and beside B, in processes of their own and in
turn. Computing holds Python's lock, which A needs for moments many times in each batch.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

from tests.bench.run import load

PAUSE = 0.001
FAST = """
CREATE TABLE fast AS SELECT auction, COUNT(*) AS bids, MAX(price) AS price FROM bid
  GROUP BY auction EMIT CHANGES;
"""
SLOW = "CREATE STREAM slow AS SELECT auction, SLOW(price) AS price FROM bid EMIT CHANGES;"
KINDS = ("alone", "sleeping", "computing")
GOAL = 1.10


def sleeping(value: int) -> int:
    """Waits, as for an answer from the network."""
    time.sleep(PAUSE)
    return value


def computing(value: int) -> int:
    """Keeps Python busy."""
    until = time.perf_counter() + PAUSE
    while time.perf_counter() < until:
        pass
    return value


def measure(path: str, kind: str) -> dict[str, Any]:
    """Seconds that A takes for its input, beside B unless it is alone."""
    import millstream

    function = computing if kind == "computing" else sleeping
    functions = (millstream.udf("SLOW", "BIGINT -> BIGINT", function),)
    settings = millstream.EngineSettings(commit_interval_ms=1000)
    properties = {"auto.offset.reset": "earliest"}
    # Not closed in a `with`: what B still has to do is not waited for.
    database = millstream.connect(
        path, properties=properties, settings=settings, functions=functions
    )
    if kind != "alone":
        database.execute(SLOW)
        _reached(database, "slow", 1)
    records = sum(database.engine.log.end_offset("bid", part) for part in range(4))
    started = time.perf_counter()
    database.execute(FAST)
    _reached(database, "fast", records)
    seconds = time.perf_counter() - started
    done = {status.query_id: status.metrics.records_in for status in database.engine.statuses()}
    closing = time.perf_counter()
    database.close()
    return {
        "seconds": seconds,
        "records": records,
        "slow": sum(count for name, count in done.items() if "SLOW" in name),
        "close": time.perf_counter() - closing,
    }


def _reached(database: Any, sink: str, records: int) -> None:
    """Wait until the query into a sink has processed so many records."""
    while True:
        for status in database.engine.statuses():
            if status.query_id.split("_")[1] == sink.upper():
                if status.error:
                    raise SystemExit(f"{status.query_id} failed: {status.error}")
                if status.metrics.records_in >= records:
                    return
        time.sleep(0.01)


def main(arguments: list[str]) -> int:
    """Run the command."""
    if arguments[:1] == ["one"]:
        print(json.dumps(measure(*arguments[1:])))
        return 0
    parser = argparse.ArgumentParser(prog="isolation", description=__doc__)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="millstream-isolation-") as folder:
        return _report(Path(folder), options.events, options.rounds)


def _report(folder: Path, events: int, rounds: int) -> int:
    load(str(folder / "input.db"), events)
    results: dict[str, list[dict[str, Any]]] = {kind: [] for kind in KINDS}
    for _ in range(rounds):
        for kind in KINDS:
            results[kind].append(_child(folder, kind))
    alone = [result["seconds"] for result in results["alone"]]
    for kind, measured in results.items():
        took = [result["seconds"] for result in measured]
        # The fastest run is the one that other work on the machine has disturbed least.
        ratio = min(took) / min(alone)
        paired = median(mine / other for mine, other in zip(took, alone, strict=True))
        print(
            f"{kind:10} {measured[0]['records'] / min(took) / 1e3:7.0f} k rec/s"
            f"  x {ratio:4.2f} {'ok' if ratio <= GOAL else 'OVER'}"
            f" (median of rounds x {paired:4.2f})"
            f"  of {[round(result['seconds'], 2) for result in measured]} s"
            f"  B did {[result['slow'] for result in measured]}"
            f"  close {max(result['close'] for result in measured):.1f} s",
            flush=True,
        )
    return 0


def _child(folder: Path, kind: str) -> dict[str, Any]:
    """Measure once, in a process of its own, on a copy of the input."""
    copy = folder / "copy.db"
    shutil.copyfile(folder / "input.db", copy)
    command = [sys.executable, "-m", "tests.bench.isolation", "one", str(copy), kind]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for path in folder.glob("copy.db*"):
        path.unlink()
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
