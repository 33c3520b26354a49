"""`millstream demo`: a shell over queries whose numbers move."""

from __future__ import annotations

import argparse
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from rich.console import Console

import millstream
from millstream.connectors.presets import PRESETS
from millstream.model.errors import MillstreamError
from millstream.query.session import Session
from millstream_cli.datagen.command import rows_a_second
from millstream_cli.datagen.generating import RATE, Plan, generate
from millstream_cli.options import (
    check_credentials,
    credentials_of,
    history_option,
    password_of,
    server_options,
)
from millstream_cli.prompt.shell import run_parts, run_shell
from millstream_cli.prompt.terminal import Terminal
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error
from millstream_cli.screen.tables import TableStyle
from millstream_cli.sessions.local import LocalSession
from millstream_cli.sessions.results import Session as ShellSession

SOURCES = ("orders", "users", "pageviews", "bids")
QUERIES = """
CREATE TABLE IF NOT EXISTS orders_by_city AS
  SELECT address->city AS city, COUNT(*) AS orders, ROUND(SUM(orderunits), 2) AS units
  FROM orders GROUP BY address->city EMIT CHANGES;
CREATE TABLE IF NOT EXISTS views_by_region AS
  SELECT u.regionid AS region, COUNT(*) AS views
  FROM pageviews p JOIN users u ON p.userid = u.userid
  WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY u.regionid EMIT CHANGES;
CREATE TABLE IF NOT EXISTS highest_bids AS
  SELECT auction, MAX(price) AS price, COUNT(*) AS bids FROM bids GROUP BY auction EMIT CHANGES;
"""
GREETING = """\
Orders, page views and bids come in, and three queries count them. Try:

  SELECT * FROM orders_by_city EMIT CHANGES;                       -- until Ctrl-C
  SELECT * FROM highest_bids ORDER BY bids DESC LIMIT 5;           -- as of now
  SELECT * FROM views_by_region EMIT CHANGES;                      -- each ten seconds anew
  DESCRIBE views_by_region EXTENDED; SHOW QUERIES;                 -- what runs
"""


def demo_command(arguments: Sequence[str]) -> int:
    """Open a shell over a database in which rows arrive; returns the exit code."""
    reader = _parser()
    options = reader.parse_args(arguments)
    if _on_server(options) and options.kafka:
        reader.error("a server has its records where it has them: --kafka is for a database here")
    if not _on_server(options) and (options.user or options.token):
        reader.error("credentials are for a server: give its URL")
    check_credentials(reader, options)
    errors, out = Output(Console(stderr=True)), Output(Console())
    try:
        options.password = password_of(options)
        database = _opened(options)
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    terminal = Terminal(_session(options, database), out, errors, TableStyle(pager=True))
    another = _another(options, database)
    try:
        with arriving(another, options.rate) as failures:
            if not _on_server(options):
                database.wait()  # So that the first query shows something.
            code = _run(terminal, options)
        for failure in failures:
            show_error(failure, errors)
        return 1 if failures else code
    finally:
        terminal.session.close()


def _on_server(options: argparse.Namespace) -> bool:
    database: str = options.database
    return database.startswith(("http://", "https://"))


def _session(options: argparse.Namespace, database: millstream.Database) -> ShellSession:
    if not _on_server(options):
        where = "in memory" if options.database == ":memory:" else options.database
        return LocalSession(database, where)
    # The HTTP client takes long to import.
    from millstream.remote.http import Credentials
    from millstream_cli.sessions.remote import RemoteSession

    credentials = Credentials(options.user, options.password, options.token)
    return RemoteSession.connect(options.database, credentials)


def _another(
    options: argparse.Namespace, database: millstream.Database
) -> Callable[[], millstream.Database]:
    """Opens the database again, for a thread that inserts."""
    if _on_server(options):
        return lambda: _connected(options)
    return lambda: millstream.Database(database.engine, Session())


def _run(terminal: Terminal, options: argparse.Namespace) -> int:
    if not sys.stdin.isatty():
        return 0 if run_parts(terminal, sys.stdin.read()) else 1
    terminal.errors = terminal.out
    terminal.out.line(GREETING)
    if _on_server(options):
        terminal.out.line(f"The console is at {options.database.rstrip('/')}/ in a browser.")
    return run_shell(terminal, options.history_file)


def _opened(options: argparse.Namespace) -> millstream.Database:
    database = _connected(options)
    try:
        for name in SOURCES:
            database.execute(PRESETS[name].create(name))
        database.execute(QUERIES)
    except BaseException:
        database.close()
        raise
    return database


def _connected(options: argparse.Namespace) -> millstream.Database:
    properties = {"auto.offset.reset": "earliest"}
    if not _on_server(options):
        return millstream.connect(
            options.database, kafka=options.kafka, service_id="demo", properties=properties
        )
    return millstream.connect(
        options.database, credentials=credentials_of(options), properties=properties
    )


@contextmanager
def arriving(
    another: Callable[[], millstream.Database], rate: float
) -> Iterator[list[MillstreamError]]:
    """Insert rows of all sources within the block, each in a thread over `another` database, and
    `rate` a second; the first ones are there when it begins. Yields the errors that end the
    threads."""
    ended, failures = threading.Event(), list[MillstreamError]()
    first = {name: threading.Event() for name in SOURCES}

    def insert(name: str) -> None:
        try:
            for _ in generate(another(), Plan(PRESETS[name], name, rate), ended):
                first[name].set()
        except MillstreamError as error:
            failures.append(error)
        finally:
            first[name].set()

    threads = [threading.Thread(target=insert, args=(name,), daemon=True) for name in SOURCES]
    for thread in threads:
        thread.start()
    try:
        for begun in first.values():
            begun.wait()
        yield failures
    finally:
        ended.set()
        for thread in threads:
            thread.join()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream demo",
        description="A shell over a database in which orders, users, page views and bids arrive,"
        " and three persistent queries count them.",
    )
    parser.add_argument(
        "database", nargs="?", default=":memory:", metavar="FILE | URL",
        help="keep it in this file (default: in memory), or on a server, whose console shows it",
    )  # fmt: skip
    parser.add_argument("--kafka", metavar="HOST:PORT", help="keep the records in this cluster")
    parser.add_argument(
        "--rate",
        type=rows_a_second,
        default=RATE,
        metavar="N",
        help="rows a second of each (default: 10)",
    )
    server_options(parser)
    history_option(parser)
    return parser
