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
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import Run, everything, widths_of
from millstream.log.log import Appended
from millstream.model.schema import SourceKind
from millstream.queries.starting import topology_of
from millstream.service.engine import Engine
from tests.conformance.cases import Case, beyond_the_engine, load
from tests.conformance.engine_case import drive, in_memory
from tests.differential.drive import open_case
from tests.differential.generator import case as random_case
from tests.spark.final import Record, final, made, written

TOGETHER = 100
"""A Spark job takes longer to start than a case."""
SEED = "seed "
Made = list[Appended[pa.Table]]
Backend = Callable[[Sequence[tuple[Run, Engine]]], Sequence[Made | Exception]]
"""Carries out several runs; the output of each, or its error."""


@dataclass(frozen=True, slots=True)
class Job:
    """An engine that has done everything, None where its statements are refused. `given`: how many
    records were put on each topic by others than queries."""

    name: str
    engine: Callable[[], AbstractContextManager[Engine | None]]
    given: Counter[str] = field(default_factory=Counter)


def locally(wanted: Sequence[tuple[Run, Engine]]) -> list[Made | Exception]:
    """All tasks in this process."""
    found: list[Made | Exception] = []
    for run, engine in wanted:
        try:
            outputs = run_local(run, FromLog(engine.log), engine.functions)
            found.append([item for item in outputs if isinstance(item, Appended)])
        except Exception as error:
            found.append(error)
    return found


def runs(engine: Engine) -> Iterator[tuple[str, Run]]:
    """(sink, run) of each persistent query, over what its sources hold."""
    for query_id, record in engine.catalog.queries.items():
        planned = engine.registry.plans[query_id]
        if record.sink is None or planned.sink is None:
            continue
        topology = topology_of(engine.registry, query_id, planned)
        splits = everything(engine.log, topology)
        cached = planned.sink.kind is SourceKind.TABLE
        yield (
            planned.sink.topic,
            Run(
                *(topology, splits, widths_of(topology, engine.log), cached),
                schemas=engine.schemas,
            ),
        )


def difference(
    engine: Engine, topics: Sequence[str], found: Sequence[Made | Exception], given: Counter[str]
) -> tuple[int, str]:
    """How many records the queries of an engine have made, and how what bounded runs made for
    these topics differs."""
    by_topic: dict[str, list[Record]] = {}
    for topic, outputs in zip(topics, found, strict=True):
        if isinstance(outputs, Exception):
            return 1, f"{topic}: {type(outputs).__name__}: {outputs}"
        by_topic.setdefault(topic, []).extend(made(outputs))
    total = 0
    for topic, records in by_topic.items():
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


@contextmanager
def of_case(case: Case) -> Iterator[Engine | None]:
    """The engine of a conformance case, behind its whole input."""
    engine = in_memory()
    try:
        yield engine if drive(case, [case.inputs], engine) is None else None
    finally:
        engine.close()


def judged(jobs: Sequence[Job], backend: Backend) -> Iterator[tuple[str, int, str]]:
    """(name, records made, what is different) of each job; their runs are carried out together."""
    with ExitStack() as opened:
        engines = [opened.enter_context(job.engine()) for job in jobs]
        wanted = [[] if engine is None else list(runs(engine)) for engine in engines]
        pairs = zip(engines, wanted, strict=True)
        found = iter(backend([(run, e) for e, own in pairs if e for _, run in own]))
        for job, engine, own in zip(jobs, engines, wanted, strict=True):
            outputs = [next(found) for _ in own]
            if engine is not None:
                topics = [topic for topic, _ in own]
                yield job.name, *difference(engine, topics, outputs, job.given)


def jobs_of(options: argparse.Namespace) -> Iterator[Job]:
    """All that is to be judged."""
    if options.cases:
        for case in load(Path(options.cases), options.only, None):
            if (
                case.expect == "records"
                and beyond_the_engine(case) is None
                and drawn(case, options)
            ):
                given = Counter(item["topic"] for item in case.inputs)
                yield Job(case.id, partial(of_case, case), given)
    for seed in range(options.seed, options.seed + options.queries):
        yield Job(f"{SEED}{seed}", partial(open_case, random_case(seed)))


def batched(jobs: Iterator[Job], size: int) -> Iterator[list[Job]]:
    """Jobs by so many."""
    while some := list(islice(jobs, size)):
        yield some


def drawn(case: Case, options: argparse.Namespace) -> bool:
    """Whether a case is in the sample, which is always the same."""
    return zlib.crc32(case.id.encode()) % 1000 < options.share * 1000


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 when less than 98 % are equal, or a random query is not."""
    options = _options().parse_args(arguments)
    backend: Backend = locally
    if options.backend == "spark":
        from tests.spark.on_spark import on_spark

        backend = on_spark(options.master)
    started, failed, equal, seen = time.monotonic(), {}, 0, 0
    for some in batched(jobs_of(options), TOGETHER):
        for name, records, reason in judged(some, backend):
            equal += bool(records) and not reason
            if reason:
                failed[name] = reason
                print(f"{name}: {reason}", flush=True)
        seen += len(some)
        print(f"{seen} done, {equal} equal, {time.monotonic() - started:.0f} s", flush=True)
    total = equal + len(failed)
    random_ones = sum(name.startswith(SEED) for name in failed)
    print(
        f"{equal} of {total} that yield records are equal ({equal / max(1, total):.2%}), "
        f"of {options.queries} random queries {random_ones} are not, "
        f"{time.monotonic() - started:.0f} s"
    )
    if options.report:
        report = {"equal": equal, "total": total, "failed": failed}
        Path(options.report).write_text(json.dumps(report, indent=1), encoding="utf-8")
    return 0 if equal >= 0.98 * total and not random_ones else 1


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
