"""Run conformance cases against the engine and print a table by feature area.

Each case gets an engine of its own over an in-memory log, without a thread: records are appended
in file order, `--batch` of them at a time, and the engine runs until it is idle after each batch.
Cases of the HTTP suite get an engine with its threads, and a server on a free port.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import resource
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tests.conformance.cases import Case, load, unsupported
from tests.conformance.engine_case import run_case
from tests.conformance.rest_case import run_rest_case

AREA_WIDTH = 46
Job = TypeVar("Job")
Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a case; `reason` is empty when it passed. `plain`, `served`: see
    `Case`."""

    id: str
    area: str
    tier: int
    plain: bool
    served: bool
    error_case: bool
    with_message: bool
    reason: str


def verdict(job: tuple[Case, int | None]) -> Verdict:
    """Run one case; any exception of ours is a failed case, not a failed run."""
    case, batch = job
    reason = unsupported(case)
    with_message = False
    if reason is None:
        try:
            if case.rest:
                reason, with_message = run_rest_case(case)
            else:
                reason, with_message = run_case(case, batch)
        except Exception as error:
            reason = f"{type(error).__name__}: {error}"
    error_case = case.expect == "error"
    return Verdict(
        case.id,
        case.area,
        case.tier,
        case.plain,
        case.served,
        error_case,
        with_message,
        reason[:500],
    )


def report(verdicts: Iterable[Verdict], cpu_seconds: float) -> dict[str, Any]:
    """The totals as one JSON object."""
    listed = list(verdicts)
    tiers: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    areas: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for item in listed:
        for counts in (tiers[str(item.tier)], areas[item.area]):
            counts[0] += not item.reason
            counts[1] += 1
    errors = [item for item in listed if item.error_case]
    return {
        "passed": sum(not item.reason for item in listed),
        "total": len(listed),
        "by_tier": dict(sorted(tiers.items())),
        "by_area": dict(sorted(areas.items())),
        "rejected_with_message": [sum(item.with_message for item in errors), len(errors)],
        "plain": _plain([item for item in listed if item.plain]),
        "served": _plain([item for item in listed if item.served]),
        "failed": {item.id: item.reason for item in listed if item.reason},
        "cpu_seconds": round(cpu_seconds, 1),
    }


def _plain(verdicts: list[Verdict]) -> dict[str, list[int]]:
    """How many of the cases passed, and of those that must be rejected, how many were in the
    right phase, and with the message."""
    errors = [item for item in verdicts if item.error_case]
    return {
        "passed": [sum(not item.reason for item in verdicts), len(verdicts)],
        "rejected_in_phase": [sum(not item.reason for item in errors), len(errors)],
        "rejected_with_message": [sum(item.with_message for item in errors), len(errors)],
    }


def show(result: dict[str, Any]) -> None:
    """Print the report as a table."""
    print(f"{'area':{AREA_WIDTH}} passed  total")
    for area, (passed, total) in result["by_area"].items():
        print(f"{area:{AREA_WIDTH}} {passed:6} {total:6}")
    print()
    for tier, (passed, total) in result["by_tier"].items():
        print(f"{'tier ' + tier:{AREA_WIDTH}} {passed:6} {total:6}")
    messages, errors = result["rejected_with_message"]
    print(f"{'rejected with the message':{AREA_WIDTH}} {messages:6} {errors:6}")
    for kind, what in (("plain", "no HTTP"), ("served", "HTTP")):
        for name, (passed, total) in result[kind].items():
            label = f"{what}, no registry: {name.replace('_', ' ')}"
            print(f"{label:{AREA_WIDTH}} {passed:6} {total:6}  {passed / max(1, total):.1%}")
    print(f"{'all':{AREA_WIDTH}} {result['passed']:6} {result['total']:6}")
    print(f"CPU seconds: {result['cpu_seconds']}")
    reasons = Counter(reason.split(":")[0] for reason in result["failed"].values())
    for reason, count in reasons.most_common(8):
        print(f"  failed {count:4} × {reason[:90]}")


def in_processes(
    function: Callable[[Job], Result], jobs: Sequence[Job], processes: int
) -> tuple[list[Result], float]:
    """A function's result for each job, and its CPU seconds."""
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        results = list(pool.imap(function, jobs, chunksize=8))
        pool.close()
        pool.join()
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return results, used.ru_utime + used.ru_stime


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 0 unless the cases could not be read."""
    options = _options().parse_args(arguments)
    folder = Path(options.cases)
    if not folder.is_dir():
        print(f"SKIPPED: there are no conformance cases in {folder}", file=sys.stderr)
        return 0
    batch = None if options.batch == "all" else int(options.batch)
    jobs = [(case, batch) for case in load(folder, options.only, options.tier)]
    verdicts, cpu_seconds = in_processes(verdict, jobs, options.processes)
    result = report(verdicts, cpu_seconds)
    show(result)
    if options.report:
        Path(options.report).write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="conformance", description=__doc__)
    parser.add_argument("--cases", required=True, help="folder of .jsonl files")
    parser.add_argument("--batch", default="all", help="records per batch, or all")
    parser.add_argument("--only", help="glob on case ids")
    parser.add_argument("--tier", type=int)
    parser.add_argument("--report", help="write the totals as JSON to this file")
    parser.add_argument("--processes", type=int, default=2)
    return parser


if __name__ == "__main__":
    sys.exit(main())
