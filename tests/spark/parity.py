"""Conformance cases and random queries through bounded runs: the rows of the live engine?

    python -m tests.spark.parity --cases DIR [--backend local|spark] [--only GLOB] [--queries N]

Each case is run by the live engine over its whole input; then each of its persistent queries is
run over what lies on its sources, and what it makes is compared with what the live one wrote:
all records of a stream, the last one for each key and window of a table.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import Run, everything, widths_of
from millstream.history.task import Produced
from millstream.log.log import Appended
from millstream.model.schema import SourceKind
from millstream.service.engine import Engine
from millstream.service.queries import topology_of
from tests.conformance.cases import Case, beyond_the_engine, load
from tests.conformance.engine_case import drive, in_memory
from tests.differential.drive import open_case
from tests.differential.generator import case as random_case
from tests.spark.final import Record, final, made, written

PROGRESS = 100
Backend = Callable[[Run, Engine], Iterator[Produced]]


def locally(run: Run, engine: Engine) -> Iterator[Produced]:
    """All tasks in this process."""
    return run_local(run, FromLog(engine.log), engine.functions)


def runs(engine: Engine) -> Iterator[tuple[str, Run]]:
    """(sink, run) of each persistent query, over what its sources hold."""
    for query_id, record in engine.catalog.queries.items():
        planned = engine.plans[query_id]
        if record.sink is None or planned.sink is None:
            continue
        topology = topology_of(engine, query_id, planned)
        splits = everything(engine.log, topology)
        cached = planned.sink.kind is SourceKind.TABLE
        yield (
            planned.sink.topic,
            Run(topology, splits, widths_of(topology, engine.log), cached),
        )


def difference(engine: Engine, backend: Backend, given: Counter[str]) -> tuple[int, str]:
    """How many records the queries of an engine make, and how a bounded run differs. `given`:
    how many records were put on each topic by others than queries."""
    found: dict[str, list[Record]] = {}
    for topic, run in runs(engine):
        outputs = backend(run, engine)
        records = made(item for item in outputs if isinstance(item, Appended))
        found.setdefault(topic, []).extend(records)
    total = 0
    for topic, records in found.items():
        if given[topic]:
            return 0, ""
        live = written(engine.log, topic)
        total += len(live)
        kind = engine.catalog.over_topic(topic)[0].kind
        if (wanted := final(live, kind)) != (got := final(records, kind)):
            return total, f"{topic}: live {shown(wanted)}, bounded {shown(got)}"
    return total, ""


def shown(rows: Any) -> str:
    return str(sorted(rows.items(), key=str))[:1500]


def judged(case: Case, backend: Backend) -> tuple[int, str]:
    """Records made by a case, and what is different."""
    engine = in_memory()
    try:
        if drive(case, [case.inputs], engine) is not None:
            return 0, ""
        return difference(engine, backend, Counter(item["topic"] for item in case.inputs))
    finally:
        engine.close()


def judged_query(seed: int, backend: Backend) -> tuple[int, str]:
    """The same of a random query over random data."""
    case = random_case(seed)
    with open_case(case) as engine:
        return difference(engine, backend, Counter())


def jobs(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[Backend], Any]]]:
    """All that is to be judged, by name."""
    if options.cases:
        for case in load(Path(options.cases), options.only, None):
            if (
                case.expect == "records"
                and beyond_the_engine(case) is None
                and drawn(case, options)
            ):
                yield case.id, lambda backend, case=case: judged(case, backend)
    for seed in range(options.seed, options.seed + options.queries):
        yield f"seed {seed}", lambda backend, seed=seed: judged_query(seed, backend)


def drawn(case: Case, options: argparse.Namespace) -> bool:
    """Whether a case is in the sample, which is always the same."""
    return zlib.crc32(case.id.encode()) % 1000 < options.share * 1000


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 when less than 98 % are equal."""
    options = _options().parse_args(arguments)
    backend = locally
    if options.backend == "spark":
        from tests.spark.on_spark import on_spark

        backend = on_spark(options.master)
    started, failed, equal = time.monotonic(), {}, 0
    for name, judge in jobs(options):
        try:
            records, reason = judge(backend)
        except Exception as error:
            records, reason = 1, f"{type(error).__name__}: {error}"
        equal += bool(records) and not reason
        if (equal + len(failed)) % PROGRESS == 0 and records:
            print(f"{equal} equal, {time.monotonic() - started:.0f} s", flush=True)
        if reason:
            failed[name] = reason
            print(f"{name}: {reason}", flush=True)
    total = equal + len(failed)
    print(
        f"{equal} of {total} that yield records are equal ({equal / max(1, total):.2%}), "
        f"{time.monotonic() - started:.0f} s"
    )
    if options.report:
        report = {"equal": equal, "total": total, "failed": failed}
        Path(options.report).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0 if equal >= 0.98 * total else 1


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="parity", description=__doc__)
    parser.add_argument("--cases", help="folder of .jsonl files")
    parser.add_argument("--only", help="glob on case ids")
    parser.add_argument("--share", type=float, default=1.0, help="of the cases, 0 to 1")
    parser.add_argument("--queries", type=int, default=0, help="random queries")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--backend", choices=("local", "spark"), default="local")
    parser.add_argument("--master", default="local[2]")
    parser.add_argument("--report", help="write the outcome as JSON to this file")
    return parser


if __name__ == "__main__":
    sys.exit(main())
