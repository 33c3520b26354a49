"""`make snapshots`: pull queries over several tables while records flow into them. Two figures
that agree at every instant of the log must agree in every answer.

`LOG=kafka` starts a broker for it, or uses the one at MILLSTREAM_KAFKA; `INSTANCES=n` shares the
queries among n instances there, which are queried in turn.
"""

from __future__ import annotations

import argparse
import math
import os
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import millstream
from millstream import Database
from millstream.cluster.alignment import NOT_ALIGNED
from millstream.model.errors import StatementError, UnavailableError
from tests.snapshots.workload import FEW, INVARIANTS, SCRIPT, Invariant, load

EARLIEST = {"auto.offset.reset": "earliest"}
SHOWN = 10


@dataclass
class Findings:
    """What came of the reads."""

    wrong: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)
    seen: dict[str, set[tuple[object, ...]]] = field(default_factory=dict)
    slowest_ms: float = 0.0
    reads: int = 0


@contextmanager
def databases(kind: str, instances: int, guarantee: str) -> Iterator[list[Database]]:
    """The instances of one service, on a log of its own."""
    properties = {**EARLIEST, "processing.guarantee": guarantee}
    with ExitStack() as opened:
        if kind == "embedded":
            folder = opened.enter_context(tempfile.TemporaryDirectory(prefix="millstream-"))
            file = str(Path(folder) / "snapshots.db")
            yield [opened.enter_context(millstream.connect(file, properties=properties))]
            return
        servers = os.environ.get("MILLSTREAM_KAFKA", "")
        if not servers:
            from tests.kafka.run import cluster

            servers, _ = opened.enter_context(cluster())
        service = f"snapshots-{uuid.uuid4().hex[:8]}"
        yield [
            opened.enter_context(
                millstream.connect(kafka=servers, service_id=service, properties=properties)
            )
            for _ in range(instances)
        ]


def read(
    databases: list[Database],
    reads: int,
    findings: Findings,
    seconds: float = math.inf,
    invariants: Sequence[Invariant] = INVARIANTS,
) -> None:
    """Query the instances in turn, one invariant after the other."""
    until = time.monotonic() + seconds
    for number in range(reads):
        if time.monotonic() > until:
            return
        findings.reads += 1
        invariant = invariants[number % len(invariants)]
        database = databases[number // len(invariants) % len(databases)]
        began = time.monotonic()
        try:
            ((left, right),) = database.execute(invariant.text)
        except (UnavailableError, StatementError) as error:
            if isinstance(error, StatementError) and error.code != NOT_ALIGNED:
                raise
            findings.refused[error.message] += 1
            continue
        finally:
            took_ms = 1000 * (time.monotonic() - began)
            findings.slowest_ms = max(findings.slowest_ms, took_ms)
        findings.seen.setdefault(invariant.name, set()).add((left, right))
        if not invariant.holds(left, right):
            findings.wrong.append(f"read {number}: {invariant.name}: {left} and {right}")


def main() -> int:
    """Run the command; 1 if a result is wrong or missing."""
    parser = argparse.ArgumentParser(prog="make snapshots", description=__doc__)
    parser.add_argument("--reads", type=int, default=10_000)
    parser.add_argument("--log", choices=("embedded", "kafka"), default="embedded")
    parser.add_argument("--instances", type=int, default=1, help="on Kafka")
    parser.add_argument("--guarantee", default="at_least_once")
    parser.add_argument("--pause", type=float, default=0.02, help="of each writer, in seconds")
    parser.add_argument("--seconds", type=float, default=math.inf, help="at most")
    parser.add_argument("--few", action="store_true", help="five queries instead of fifteen")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    findings, invariants = Findings(), INVARIANTS[:3] if options.few else INVARIANTS
    with databases(options.log, options.instances, options.guarantee) as found:
        found[0].execute(FEW if options.few else SCRIPT)
        found[0].wait()
        began = time.monotonic()
        with load(found[0].engine.log, options.seed, options.pause) as written:
            read(found, options.reads, findings, options.seconds, invariants)
            count = written()
        seconds = time.monotonic() - began
    answered = findings.reads - findings.refused.total()
    print(
        f"{answered} of {findings.reads} reads answered in {seconds:.0f} s, the slowest took"
        f" {findings.slowest_ms:.0f} ms; {count} records written meanwhile"
    )
    for name, values in findings.seen.items():
        print(f"  {name}: {len(values)} different answers")
    for message, times in findings.refused.most_common(SHOWN):
        print(f"  refused {times} times: {message}")
    for wrong in findings.wrong[:SHOWN]:
        print(f"WRONG {wrong}")
    print(f"{len(findings.wrong)} answers that no instant can have")
    return 1 if findings.wrong or not answered else 0


if __name__ == "__main__":
    sys.exit(main())
