"""`millstream server start`: starts the HTTP server, an extra of the package."""

from __future__ import annotations

import argparse
import getpass
import logging
import os
import sys
from collections.abc import Sequence

from rich.console import Console

from millstream.model.errors import MillstreamError
from millstream.model.extras import install
from millstream_cli.options import property_option
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream server", description="The HTTP server that ksqlDB's clients can use."
    )
    actions = parser.add_subparsers(dest="action", required=True)
    start = actions.add_parser("start", help="start it, until Ctrl-C")
    start.add_argument(
        "config",
        nargs="*",
        metavar="config.properties",
        help="files of properties, as ksqlDB's; later ones are stronger",
    )
    start.add_argument(
        "--listener", action="append", default=[], metavar="URL",
        help="where to listen (default: http://127.0.0.1:8088); may be repeated",
    )  # fmt: skip
    start.add_argument(
        "--postgres", metavar="HOST:PORT",
        help="also listen for clients of PostgreSQL, such as psql",
    )  # fmt: skip
    property_option(start, ", stronger than those of the file")
    start.add_argument("--state-dir", metavar="DIR", help="where the files lie (default: memory)")
    start.add_argument(
        "--bootstrap-servers", metavar="HOST:PORT",
        help="keep the records in this Kafka cluster, and only the state in the directory",
    )  # fmt: skip
    start.add_argument(
        "--queries-file", metavar="FILE", help="a script that is all the server runs"
    )
    start.add_argument(
        "--insecure-i-know", action="store_true",
        help="listen to other machines without TLS and authentication",
    )  # fmt: skip
    user = actions.add_parser("user", help="make a line of authentication.users.file")
    user.add_argument(
        "--scram", action="store_true",
        help="a verifier of SCRAM-SHA-256, so that clients of PostgreSQL do not send the password",
    )  # fmt: skip
    user.add_argument("name")
    user.add_argument("roles", nargs="*", metavar="role")
    return parser


def server_command(arguments: Sequence[str]) -> int:
    """Run `millstream server` with these arguments; returns the exit code."""
    options = _options().parse_args(arguments)
    errors = Console(stderr=True, soft_wrap=True)
    return _user(options, errors) if options.action == "user" else _start(options, errors)


def _user(options: argparse.Namespace, errors: Console) -> int:
    """Print a user with the hash of a password, which is read from the terminal or a pipe."""
    from millstream_server.auth.passwords import hashed, hashed_for_scram

    interactive = sys.stdin.isatty()
    password = getpass.getpass() if interactive else sys.stdin.readline().rstrip("\n")
    try:
        made = hashed_for_scram(password) if options.scram else hashed(password)
        print(f"{options.name}: {', '.join((made.text(), *options.roles))}")
    except MillstreamError as error:
        show_error(error, Output(errors))
        return 1
    return 0


def _start(options: argparse.Namespace, errors: Console) -> int:
    try:
        from millstream_server.bootstrap.config import load_config
        from millstream_server.bootstrap.startup import run_server
    except ModuleNotFoundError as error:
        missing = f"The server is not installed ({error.name}): {install('server')}"
        errors.print(missing, markup=False)
        return 1
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    # It tells how it reads the indexes of arrays.
    logging.getLogger("sqlglot").setLevel(logging.WARNING)
    try:
        flags = _flags(options)
        config = load_config(options.config, os.environ, flags, insecure=options.insecure_i_know)
        run_server(config, told=lambda urls: _tell(urls, errors))
    except MillstreamError as error:
        show_error(error, Output(errors))
        return 1
    return 0


def _tell(urls: Sequence[str], console: Console) -> None:
    console.print(f"Millstream listens on {', '.join(urls)}. Ctrl-C ends it.")


def _flags(options: argparse.Namespace) -> dict[str, str]:
    named = {
        "listeners": ",".join(options.listener),
        "millstream.postgres.listener": options.postgres,
        "ksql.streams.state.dir": options.state_dir,
        "bootstrap.servers": options.bootstrap_servers,
        "ksql.queries.file": options.queries_file,
    }
    return {**dict(options.property), **{name: value for name, value in named.items() if value}}
