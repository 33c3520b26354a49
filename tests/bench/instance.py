"""`make bench-instance`: what queries cost that do little, as one table.

    python -m tests.bench.instance [--only NAME …] [--scale small] [--trickle-seconds 480]

Figures of the same queries are measured by one process; all others by a process of their own. CPU
is of that process alone, without the broker. The exit status is 1 if a figure was not measured, or
not in full.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from pathlib import Path

from tests.bench.figures.catalogue import (
    FIGURES,
    PROCESSES,
    SCALES,
    Figure,
    Process,
    Reading,
    Scale,
)

HEAD = "| figure | measured | 0.1 | goal |\n|--|--|--|--|"
PATIENCE_SECONDS = 300.0
"""How much longer than its limits a measuring process may take."""


def measure(process: str, scale: Scale, figures: Sequence[str], folder: str, servers: str) -> None:
    """Measure in this process, and print each reading as a line of JSON."""
    from tests.bench.figures.exchange import exchange
    from tests.bench.figures.filters import filters
    from tests.bench.figures.latency import latency
    from tests.bench.figures.many import (
        embedded_few,
        embedded_many,
        embedded_one,
        kafka_one_by_one,
        kafka_script,
        reopen,
    )
    from tests.bench.figures.rounds import kafka_round
    from tests.bench.figures.setting import Setting
    from tests.bench.figures.trickle import trickle

    known: dict[str, Callable[[Setting], Iterator[Reading]]] = {
        "embedded-one": embedded_one,
        "embedded-few": embedded_few,
        "embedded-many": embedded_many,
        "reopen": reopen,
        "trickle": trickle,
        "latency": latency,
        "filters": filters,
        "exchange": exchange,
        "kafka-one-by-one": kafka_one_by_one,
        "kafka-script": kafka_script,
        "kafka-round": kafka_round,
    }
    service = service_of(folder)
    setting = Setting(Path(folder), scale, frozenset(figures), servers, service)
    for reading in known[process](setting):
        print(json.dumps(asdict(reading)), flush=True)


def service_of(folder: str) -> str:
    """A service id that no other process has; ids have no underscores, temporary folders may."""
    return Path(folder).name.replace("_", "-")


def readings(
    process: Process, wanted: frozenset[str], scale: Scale, servers: str
) -> dict[str, Reading]:
    """Run a process that measures; a figure that it did not measure has its error instead."""
    names = [figure.name for figure in process.figures if figure.name in wanted]
    limit = 2 * scale.limit + scale.trickle + PATIENCE_SECONDS
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        command = [sys.executable, "-m", "tests.bench.instance", "--measure", process.name,
                   json.dumps(asdict(scale)), ",".join(names), folder, servers]  # fmt: skip
        running = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            output, errors = running.communicate(timeout=limit)
            error = f"exit status {running.returncode}: {_last(errors)}"
        except subprocess.TimeoutExpired:
            running.kill()
            output, _ = running.communicate()
            error = f"no result within {limit:.0f} s"
        finally:
            # Also when this command is interrupted: the process would go on without it.
            if running.poll() is None:
                running.kill()
        if servers:
            _delete_topics(servers, service_of(folder))
    found = [Reading(**json.loads(line)) for line in output.splitlines() if line[:1] == "{"]
    by_name = {reading.figure: reading for reading in found}
    return {name: by_name.get(name) or _failed(name, error) for name in names}


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else "no error was printed"


def _failed(figure: str, error: str) -> Reading:
    return Reading(figure, "ERROR: " + error.replace("|", "\\|"), complete=False)


def _delete_topics(servers: str, service: str) -> None:
    from tests.bench.kafka.cluster import Cluster

    Cluster(servers, 0).delete((f"{service}-", f"_millstream.{service}."))


def run(wanted: frozenset[str], scale: Scale, servers: str) -> bool:
    """Measure and print the table; whether all figures were measured in full."""
    print(HEAD, flush=True)
    complete = True
    with ExitStack() as stack:
        for process in PROCESSES:
            if wanted.isdisjoint(figure.name for figure in process.figures):
                continue
            error = ""
            if process.kafka and not servers:
                servers, error = _broker(stack)
            found = (
                {figure.name: _failed(figure.name, error) for figure in process.figures}
                if error
                else readings(process, wanted, scale, servers if process.kafka else "")
            )
            for figure in process.figures:
                if figure.name in wanted:
                    print(row(figure, found[figure.name], scale), flush=True)
                    complete &= found[figure.name].complete
    return complete


def _broker(stack: ExitStack) -> tuple[str, str]:
    """The address of a broker that runs until the stack is closed, or why there is none."""
    try:
        from tests.bench.kafka.run import broker

        return stack.enter_context(broker(None, 0)).servers, ""
    except (SystemExit, ImportError, OSError) as error:
        return "", str(error)


def row(figure: Figure, reading: Reading, scale: Scale) -> str:
    """One line of the table."""
    title = figure.title.format(**asdict(scale))
    return f"| {title} | {reading.measured} | {figure.before} | {figure.goal} |"


def parsed(arguments: list[str]) -> argparse.Namespace:
    """The options."""
    names = [figure.name for figure in FIGURES]
    parser = argparse.ArgumentParser(prog="make bench-instance", description=__doc__)
    parser.add_argument("--only", nargs="*", choices=names, default=names, metavar="NAME",
                        help=f"some of: {' '.join(names)}")  # fmt: skip
    parser.add_argument("--scale", choices=sorted(SCALES), default="full")
    parser.add_argument("--trickle-seconds", type=float)
    parser.add_argument("--limit", type=float, help="seconds for creating queries")
    parser.add_argument("--kafka", default=os.environ.get("MILLSTREAM_KAFKA", ""),
                        help="host:port of a broker; otherwise one is started")  # fmt: skip
    options = parser.parse_args(arguments)
    scale = SCALES[options.scale]
    if options.trickle_seconds is not None:
        scale = replace(scale, trickle=options.trickle_seconds)
    if options.limit is not None:
        scale = replace(scale, limit=options.limit)
    options.scale = scale
    return options


def child(arguments: list[str]) -> None:
    """The measuring process. It ends at once: what its queries still have to do is not waited
    for."""
    process, scale, figures, folder, servers = arguments
    status = 1
    try:
        measure(process, Scale(**json.loads(scale)), figures.split(","), folder, servers)
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def main(arguments: list[str]) -> int:
    """Run the command."""
    if arguments[:1] == ["--measure"]:
        child(arguments[1:])
    options = parsed(arguments)
    # Ends the broker and the measuring process, too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    when = time.strftime("%Y-%m-%d %H:%M")
    print(f"Python {platform.python_version()}, {when}, load {os.getloadavg()[0]:.1f}\n")
    return 0 if run(frozenset(options.only), options.scale, options.kafka) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
