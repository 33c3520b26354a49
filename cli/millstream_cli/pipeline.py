"""`millstream pipeline run`: processes the queries of a script in epochs, by jobs."""

from __future__ import annotations

import argparse
import os
import re
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

from millstream.model.errors import MillstreamError, UnavailableError
from millstream.model.settings import EngineSettings, InstanceSettings
from millstream.pipeline.pipeline import Pipeline, open_pipeline
from millstream.service.opening import MEMORY
from millstream_cli.options import (
    group_options,
    property_option,
    registry_settings,
    service_options,
    setting,
)
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error

HERE = "none"
"""The name of the master that means this process."""
_STDERR = 2
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([0-9]+(?:\.[0-9]+)?)(ms|s|m|h)", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a duration, as 500ms or 1s, got '{text}'")
    return float(found[1]) * _UNITS[found[2]]


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream pipeline",
        description="Persistent queries processed in epochs, as jobs on Spark: each takes what is "
        "new since the last one. An engine that opens the database later, or, on Kafka, an"
        " instance of the service that starts, continues from there.",
    )
    actions = parser.add_subparsers(dest="action", required=True)
    run = actions.add_parser("run", help="process what the statements of a script define")
    run.add_argument(
        "script", metavar="FILE.sql",
        help="CREATE STREAM, TABLE and TYPE, INSERT INTO … SELECT, SET; what is there is not made"
        " again",
    )  # fmt: skip
    where = run.add_mutually_exclusive_group(required=True)
    where.add_argument("--database", metavar="FILE", help="the log in a file, made if missing")
    where.add_argument("--kafka", metavar="HOST:PORT", help="the log in this Kafka cluster")
    service_options(run)
    group_options(run)
    run.add_argument(
        "--master", default="local[*]", metavar="URL",
        help="where Spark runs: local[N], spark://…, k8s://…; or none: in this process, without"
        " Spark (default: local[*])",
    )  # fmt: skip
    run.add_argument(
        "--spark-option", action="append", default=[], type=setting, metavar="NAME=VALUE",
        help="an option of the Spark session; may be repeated",
    )  # fmt: skip
    run.add_argument(
        "--memory-limit", default=EngineSettings().history_memory_limit, metavar="SIZE",
        help="what DuckDB may use here and in each of Spark's Python workers before it spills to"
        " disk (default: 1GB)",
    )  # fmt: skip
    property_option(run, " as SET gives it, as auto.offset.reset=earliest")
    rhythm = run.add_mutually_exclusive_group()
    rhythm.add_argument(
        "--epoch", default=1.0, type=_seconds, metavar="TIME",
        help="how often to look for something new, until Ctrl-C (default: 1s)",
    )  # fmt: skip
    rhythm.add_argument("--once", action="store_true", help="process what there is, and end")
    return parser


def pipeline_command(arguments: Sequence[str]) -> int:
    """Run `millstream pipeline` with these arguments; returns the exit code: 1 if a query or the
    script failed."""
    options = _options().parse_args(arguments)
    errors = Output(Console(stderr=True, soft_wrap=True))
    try:
        with _opened(options, errors) as pipeline, _stopping() as stop:
            _work(pipeline, options, stop, errors)
            return 1 if pipeline.stopped or pipeline.waiting else 0
    except MillstreamError as error:
        show_error(error, errors)
        return 1


def _opened(options: argparse.Namespace, errors: Output) -> Pipeline:
    def failed(query_id: str, error: MillstreamError) -> None:
        what = "waits" if isinstance(error, UnavailableError) else "has failed"
        errors.line(f"Query {query_id} {what}.", "bold red")
        show_error(error, errors)

    return open_pipeline(
        options.database or MEMORY,
        options.script,
        failed,
        master=None if options.master == HERE else options.master,
        kafka=options.kafka,
        service_id=options.service_id,
        kafka_settings=dict(options.kafka_setting),
        sharing=_sharing(options),
        settings=EngineSettings(
            spark_options=dict(options.spark_option),
            history_memory_limit=options.memory_limit,
            schema_registry=registry_settings(options),
        ),
        properties=dict(options.property),
    )


def _sharing(options: argparse.Namespace) -> InstanceSettings | None:
    if options.kafka is None:
        return None
    return InstanceSettings(
        group_protocol=options.group_protocol, session_timeout_ms=options.session_timeout
    )


@contextmanager
def _stopping() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C or SIGTERM sets; the second one terminates the process as
    usual."""
    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask(number: int, _frame: object) -> None:
        stop.set()
        for each, handler in before.items():
            signal.signal(each, handler)
        # Not through the console: the handler may interrupt a line that the console is printing.
        os.write(_STDERR, b"The pipeline ends when this epoch is done.\n")

    for number in before:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _work(
    pipeline: Pipeline, options: argparse.Namespace, stop: threading.Event, errors: Output
) -> None:
    number = 0
    while not stop.is_set():
        began = time.monotonic()
        done = _epoch(pipeline, number + 1, errors)
        number += done
        if options.once:
            if not done:
                return
        elif not stop.is_set():
            stop.wait(max(0.0, options.epoch - (time.monotonic() - began)))


def _epoch(pipeline: Pipeline, number: int, errors: Output) -> bool:
    """Run one epoch and report it; returns whether there was work."""
    began = last = time.monotonic()
    count = 0
    for advance in pipeline.epoch():
        now = time.monotonic()
        problems = f", {advance.problems} could not be used" if advance.problems else ""
        errors.line(
            f"epoch {number}: {advance.query_id} read {advance.read} records, wrote"
            f" {advance.written}{problems} ({1000 * (now - last):.0f} ms)"
        )
        last, count = now, count + 1
    if count:
        errors.line(f"epoch {number}: {count} queries in {1000 * (last - began):.0f} ms")
    return count > 0
