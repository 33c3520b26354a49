"""`millstream datagen`, as it is typed."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console

import millstream
from millstream.connectors.presets import PRESETS
from millstream.model.errors import MillstreamError
from millstream_cli.datagen.generating import RATE, Plan, generate
from millstream_cli.options import (
    check_credentials,
    credentials_of,
    registry_settings,
    server_options,
    service_options,
)
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error


def datagen_command(arguments: Sequence[str]) -> int:
    """Insert rows of a preset until Ctrl-C, or until there are enough; returns the exit code."""
    reader = _parser()
    options = reader.parse_args(arguments)
    if (options.target is None) == (options.kafka is None):
        reader.error("give a database's file, the URL of a server, or --kafka")
    check_credentials(reader, options)
    errors, out = Output(Console(stderr=True, soft_wrap=True)), Output(Console(soft_wrap=True))
    try:
        with _database(options) as database:
            _generate(database, options, out)
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    return 0


def _database(options: argparse.Namespace) -> millstream.Database:
    if options.kafka is None:
        registry = registry_settings(options) or None
        return millstream.connect(
            options.target, credentials=credentials_of(options), schema_registry=registry
        )
    return millstream.connect(
        kafka=options.kafka,
        service_id=options.service_id,
        kafka_settings=dict(options.kafka_setting),
        schema_registry=registry_settings(options) or None,
    )


def _generate(database: millstream.Database, options: argparse.Namespace, out: Output) -> None:
    preset = PRESETS[options.preset]
    name = options.name or preset.name
    database.execute(preset.create(name))
    plan = Plan(preset, name, options.rate, options.iterations, options.seed)
    done = 0
    with suppress(KeyboardInterrupt):
        for rows in generate(database, plan, threading.Event()):
            done += len(rows)
            if options.print:
                out.lines([str(dict(row)) for row in rows])
    out.line(f"{done} rows inserted into {name}")


def rows_a_second(text: str) -> float:
    """A number of rows a second."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e9:
        raise argparse.ArgumentTypeError(
            f"expected rows a second, or 0 for all speed, not '{text}'"
        )
    return value


def _count(text: str) -> int:
    if not text.isascii() or not text.isdecimal():
        raise argparse.ArgumentTypeError(f"expected a number of rows, not '{text}'")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    presets = "\n".join(f"  {preset.name:<13}{preset.about}" for preset in PRESETS.values())
    parser = argparse.ArgumentParser(
        prog="millstream datagen",
        description="Inserts made-up rows into a stream or table, which is created if it is not"
        " there.",
        epilog=f"what there is:\n{presets}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("preset", choices=PRESETS, metavar="WHAT", help="one of those below")
    parser.add_argument(
        "target", nargs="?", metavar="FILE | URL", help="a database that no process has open, or a"
        " server, as http://localhost:8088"
    )  # fmt: skip
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a service in this Kafka cluster")
    service_options(parser)
    parser.add_argument("--name", help="of the stream or table (default: as the rows)")
    parser.add_argument(
        "--rate", type=rows_a_second, default=RATE, metavar="N",
        help="rows a second (default: 10; 0: all that can be inserted)",
    )  # fmt: skip
    parser.add_argument("--iterations", type=_count, metavar="N", help="end after N rows")
    parser.add_argument("--seed", type=int, metavar="N", help="the same rows each time")
    parser.add_argument("--print", action="store_true", help="print the rows")
    server_options(parser)
    return parser
