"""Run every conformance case killed in the middle, and print a table by feature area.

Each case starts in an engine that dies where the seed says, again and again, is restarted over the
contents of the log (and sometimes of the state), and is finished; its output must be as without
kills. Cases that end in an error or have no input cannot be killed in the middle: they are counted
separately.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.conformance.cases import Case, beyond_the_engine, load
from tests.conformance.killed_case import LOGS, End, Outcome, run_killed
from tests.conformance.run import AREA_WIDTH, in_processes

COLUMNS = (End.RECOVERED.value, End.AS_UNKILLED.value, End.MISMATCH.value)


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a case on a log; `apart` is the reason if it was not killed."""

    id: str
    area: str
    log: str
    apart: str
    outcome: Outcome


def unkillable(case: Case) -> str:
    """Why a case is not run; empty when it is."""
    if case.expect == "error":
        return "ends in an error"
    if not case.inputs:
        return "has no input"
    return beyond_the_engine(case) or ""


def verdict(job: tuple[Case, str, int]) -> Verdict:
    """Run one case on one log; any exception of ours is a mismatch, not a failed run."""
    case, log, seed = job
    apart = unkillable(case)
    outcome = Outcome(End.REFUSED)
    if not apart:
        try:
            outcome = run_killed(case, log, seed)
        except Exception as error:
            outcome = Outcome(End.MISMATCH, f"{type(error).__name__}: {error}")
        if outcome.end is End.REFUSED:
            apart = "the engine refuses it"
    return Verdict(case.id, case.area, log, apart, outcome)


def report(verdicts: Iterable[Verdict], seed: int, cpu_seconds: float) -> dict[str, Any]:
    """The totals as one JSON object."""
    areas: dict[str, Counter[str]] = defaultdict(Counter)
    logs: dict[str, Counter[str]] = defaultdict(Counter)
    apart: dict[str, set[str]] = defaultdict(set)
    deaths: Counter[str] = Counter()
    loaded = 0
    named: dict[End, dict[str, str]] = defaultdict(dict)
    for item in verdicts:
        if item.apart:
            apart[item.apart].add(item.id)
            continue
        end = item.outcome.end
        areas[item.area][end.value] += 1
        logs[item.log][end.value] += 1
        deaths += item.outcome.deaths
        loaded += item.outcome.loaded
        if end is not End.RECOVERED:
            named[end][f"{item.log} {item.id}"] = item.outcome.reason[:500]
    return {
        "seed": seed,
        "by_log": {name: dict(counts) for name, counts in sorted(logs.items())},
        "by_area": {name: dict(counts) for name, counts in sorted(areas.items())},
        "not_killed": {reason: len(ids) for reason, ids in sorted(apart.items())},
        "kills": dict(deaths.most_common()),
        "loaded": loaded,
        "as_unkilled": named[End.AS_UNKILLED],
        "mismatches": named[End.MISMATCH],
        "cpu_seconds": round(cpu_seconds, 1),
    }


def show(result: dict[str, Any]) -> None:
    """Print the report as a table."""
    print(f"{'area':{AREA_WIDTH}}" + "".join(f"{name:>13}" for name in COLUMNS))
    for area, counts in result["by_area"].items():
        _line(area, counts)
    print()
    for log, counts in result["by_log"].items():
        _line(f"{log} log", counts)
    print()
    for reason, count in result["not_killed"].items():
        print(f"not killed: {reason:{AREA_WIDTH}} {count:6}")
    print(f"kills: {sum(result['kills'].values())}")
    for place, count in result["kills"].items():
        print(f"  {place:{AREA_WIDTH}} {count:6}")
    print(f"states loaded from checkpoints: {result['loaded']}")
    print(f"seed {result['seed']}, CPU seconds: {result['cpu_seconds']}")
    for name, reason in result["as_unkilled"].items():
        print(f"as without a kill: {name}: {reason}")
    for name, reason in result["mismatches"].items():
        print(f"MISMATCH {name}: {reason}")


def _line(name: str, counts: dict[str, int]) -> None:
    print(f"{name:{AREA_WIDTH}}" + "".join(f"{counts.get(column, 0):13}" for column in COLUMNS))


def main(arguments: list[str] | None = None) -> int:
    """Run the command; 1 when a case did not recover."""
    options = _options().parse_args(arguments)
    folder = Path(options.cases)
    if not folder.is_dir():
        print(f"SKIPPED: there are no conformance cases in {folder}", file=sys.stderr)
        return 0
    logs = [options.log] if options.log else LOGS
    jobs = [(case, log, options.seed) for log in logs for case in load(folder, options.only)]
    verdicts, cpu_seconds = in_processes(verdict, jobs, options.processes)
    result = report(verdicts, options.seed, cpu_seconds)
    show(result)
    if options.report:
        Path(options.report).write_text(json.dumps(result, indent=1), encoding="utf-8")
    return 1 if result["mismatches"] else 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="recovery", description=__doc__)
    parser.add_argument("--cases", required=True, help="folder of .jsonl files")
    parser.add_argument("--log", choices=LOGS, help="on this log only")
    parser.add_argument("--only", help="glob on case ids")
    parser.add_argument("--seed", type=int, default=1, help="where the engines die")
    parser.add_argument("--report", help="write the totals as JSON to this file")
    parser.add_argument("--processes", type=int, default=2)
    return parser


if __name__ == "__main__":
    sys.exit(main())
