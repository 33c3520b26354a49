"""The options of the `millstream` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from getpass import getpass
from importlib.metadata import version
from pathlib import Path

from millstream.model.errors import StatementError
from millstream.model.settings import InstanceSettings
from millstream_cli.prompt.binary import BINARY_FORMS
from millstream_cli.screen.show import FORMS

VERSION = version("millstream")
COMMANDS = """\
other commands, each with a --help of its own:
 to begin
  millstream demo            a shell over queries whose numbers move
  millstream datagen         made-up orders, users, page views, clicks, ratings and bids
  millstream doctor          what is installed, and what brokers and servers answer
 files of SQL
  millstream format          write them in one layout
  millstream lint            what is wrong with them, without running them
  millstream test            files with the expected rows below each query
  millstream migrations      changes of streams, tables and queries as numbered files
 servers and jobs
  millstream server start    the HTTP server that ksqlDB's clients can use
  millstream server user     a line for the file of its users
  millstream pipeline        persistent queries as jobs on Spark
 files of data
  millstream backup          back up a database that no process has open
  millstream restore         make a database of a backup
  millstream check           read every byte of a database or a backup
  millstream export, import  the records of a topic, as Parquet
"""


def _definition(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError(f"expected name=value, got '{text}'")
    return name.strip().upper(), value


def setting(text: str) -> tuple[str, str]:
    """Name and value of `name=value`. The error does not repeat the text, which may be a
    password."""
    name, separator, value = text.partition("=")
    if not separator:
        raise argparse.ArgumentTypeError("expected name=value")
    return name.strip(), value


def property_option(parser: argparse.ArgumentParser, about: str) -> None:
    """The repeatable option that sets a property."""
    parser.add_argument(
        "--property", action="append", default=[], type=setting, metavar="NAME=VALUE",
        help=f"a property{about}; may be repeated",
    )  # fmt: skip


def service_options(parser: argparse.ArgumentParser) -> None:
    """More options for a service on Kafka."""
    parser.add_argument(
        "--service-id", default="default", metavar="ID",
        help="with --kafka: whose streams, tables and queries these are (default: default)",
    )  # fmt: skip
    parser.add_argument(
        "--kafka-setting", action="append", default=[], type=setting, metavar="NAME=VALUE",
        help="with --kafka: a setting of the Kafka client, as security.protocol=ssl;"
        " may be repeated",
    )  # fmt: skip
    parser.add_argument(
        "--schema-registry", metavar="URL",
        help="the schema registry, for formats that have one (default: one in the file)",
    )  # fmt: skip
    parser.add_argument(
        "--registry-setting", action="append", default=[], type=setting, metavar="NAME=VALUE",
        help="with --schema-registry: a setting of its client, as basic.auth.user.info=ann:secret;"
        " may be repeated",
    )  # fmt: skip


def registry_settings(
    options: argparse.Namespace, more: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings of the client of the schema registry; empty for none. `more`: of a file."""
    url = {} if options.schema_registry is None else {"url": options.schema_registry}
    return {**(more or {}), **url, **dict(options.registry_setting)}


def group_options(group: argparse._ActionsContainer) -> None:
    """Options for the group membership of a process on Kafka."""
    default = InstanceSettings()
    group.add_argument(
        "--session-timeout", type=int, default=default.session_timeout_ms, metavar="MS",
        help="how long an instance may be silent before others take over (default: 10000)",
    )  # fmt: skip
    group.add_argument(
        "--group-protocol", choices=("classic", "consumer"), default=default.group_protocol,
        help="how Kafka shares out the tasks; the same for all instances (default: classic)",
    )  # fmt: skip


def _positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got '{text}'")
    return int(text)


def _sharing_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group(
        "several instances of one service, with --kafka",
        "They share the queries. MILLSTREAM_TOKEN is the secret by which those on other machines"
        " know each other.",
    )
    default = InstanceSettings()
    group.add_argument(
        "--instance-id", default=default.instance_id, metavar="NAME",
        help="a name kept over restarts; one that is soon back has its tasks as before",
    )  # fmt: skip
    group.add_argument(
        "--standby-replicas", type=int, default=default.standby_replicas, metavar="N",
        help="how many other instances keep a copy of each task's state (default: 0)",
    )  # fmt: skip
    group_options(group)
    group.add_argument(
        "--listen", default=default.listener.address, metavar="HOST:PORT",
        help="where to answer pull queries for the others (default: a free port of this machine)",
    )  # fmt: skip
    group.add_argument(
        "--advertised", default=default.listener.advertised, metavar="HOST:PORT",
        help="where the others find that, if it is another address",
    )  # fmt: skip


def parser() -> argparse.ArgumentParser:
    """The parser of the options."""
    parser = argparse.ArgumentParser(
        prog="millstream",
        description="A streaming database: ksqlDB's SQL over one local file, Kafka, or a server.",
        epilog=COMMANDS,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--database", default=":memory:", metavar="FILE", help="the file (default: in memory)"
    )
    parser.add_argument(
        "--kafka", metavar="HOST:PORT",
        help="keep the records in this Kafka cluster, and only the state in the file",
    )  # fmt: skip
    service_options(parser)
    _sharing_options(parser)
    parser.add_argument(
        "--queries-file", metavar="FILE.sql",
        help="take all streams, tables and queries from this file and run them",
    )  # fmt: skip
    functions_option(parser)
    _script_options(parser)
    server_options(parser)
    _shell_options(parser)
    parser.add_argument(
        "target", nargs="*", metavar="FILE | URL | run FILE.sql",
        help="the file of a database, as --database; or a server to send statements to in place of"
        " one, as http://localhost:8088; or a file of statements to run",
    )  # fmt: skip
    return parser


def _script_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("what to run, instead of a prompt")
    group.add_argument("-e", "--execute", metavar="SQL", help="run statements and exit")
    group.add_argument("-f", "--file", metavar="FILE.sql", help="run a file of statements and exit")
    group.add_argument(
        "-d", "--define", action="append", default=[], type=_definition, metavar="NAME=VALUE",
        help="define a variable; may be repeated",
    )  # fmt: skip


def functions_option(parser: argparse.ArgumentParser) -> None:
    """Python functions that statements call."""
    parser.add_argument(
        "--functions", metavar="FOLDER", default="",
        help="a folder of *.py with functions and processors of millstream.udf and the like",
    )  # fmt: skip


def server_options(parser: argparse.ArgumentParser) -> None:
    """The credentials for a server."""
    group = parser.add_argument_group("with the URL of a server")
    group.add_argument("-u", "--user", metavar="NAME", help="user; the password is asked for")
    group.add_argument("-p", "--password", metavar="TEXT", help="password of the user")
    group.add_argument("-t", "--token", metavar="TEXT", help="bearer token, in place of a user")


def history_option(parser: argparse._ActionsContainer) -> None:
    """Where the shell keeps what is typed."""
    parser.add_argument(
        "--history-file", type=Path, default=Path.home() / ".millstream-history", metavar="FILE",
        help="where what is typed is kept (default: ~/.millstream-history)",
    )  # fmt: skip


def check_credentials(reader: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Exit with an error if the options for the credentials contradict each other."""
    if options.password is not None and options.user is None:
        reader.error("a password is given, but no user")
    if options.token is not None and options.user is not None:
        reader.error("a token is given and a user as well")


def password_of(options: argparse.Namespace) -> str | None:
    """The password of the user, which is asked for at a terminal; None without a user."""
    password: str | None = options.password
    while options.user is not None and not password:
        if not sys.stdin.isatty():
            raise StatementError("A user is given, but no password", hint="Give --password.")
        password = getpass(f"Password of {options.user}: ")
    return password


def credentials_of(options: argparse.Namespace) -> tuple[str, str] | str | None:
    """The token, or the user with the password, as `millstream.connect` takes them."""
    password = password_of(options)
    return options.token or (None if password is None else (options.user, password))


def _shell_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("the shell")
    group.add_argument(
        "--output", choices=(*FORMS, *BINARY_FORMS), default="TABULAR", type=str.upper,
        help="how results are printed; ARROW and PARQUET with --execute or --file, into a file or"
        " pipe",
    )  # fmt: skip
    group.add_argument(
        "--config-file", metavar="FILE",
        help="a file of name=value: ssl.*, sasl.* and security.protocol are settings of the"
        " connection, ksql.schema.registry.* those of the schema registry, all others properties as"
        " SET gives them",
    )  # fmt: skip
    group.add_argument(
        "--query-row-limit", type=_positive, metavar="N", help="end a push query after N rows"
    )
    group.add_argument(
        "--query-timeout", type=_positive, metavar="MS", help="end a push query after MS"
    )
    history_option(group)
    group.add_argument("--vi", action="store_true", help="edit with the keys of vi")
    group.add_argument("-V", "--version", action="version", version=f"millstream {VERSION}")
