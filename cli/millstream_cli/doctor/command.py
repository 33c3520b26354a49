"""`millstream doctor`, as it is typed."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console

from millstream.model.errors import MillstreamError
from millstream.model.extras import install
from millstream_cli.doctor.findings import Finding, Health, missing, of_this_machine
from millstream_cli.options import (
    check_credentials,
    password_of,
    registry_settings,
    server_options,
    service_options,
)
from millstream_cli.screen.output import Output

_WIDTH = 18
_NO_SUBJECT = "millstream-doctor"
"""Asked for to see whether a registry answers."""


def doctor_command(arguments: Sequence[str]) -> int:
    """Print a line for each examination, and what to do about what is bad; returns 1 if something
    is."""
    reader = _parser()
    options = reader.parse_args(arguments)
    check_credentials(reader, options)
    out = Output(Console(soft_wrap=True))
    bad = 0
    for finding in _findings(options):
        bad += finding.health is Health.BAD
        out.line(f"{finding.health.value}  {finding.subject:<{_WIDTH}}{finding.text}")
        if finding.advice:
            out.line(f"{'':<{_WIDTH + 4}}{finding.advice}")
    out.line("All is well." if not bad else f"{bad} of these are bad (!!).")
    return 1 if bad else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream doctor",
        description="Tells what is installed, and whether disk, clock, brokers, registry and server"
        " are well. The output has no passwords, so that it can be part of a report.",
    )
    parser.add_argument(
        "--database", metavar="FILE", help="where the database is (default: the current folder)"
    )
    parser.add_argument("--kafka", metavar="HOST:PORT", help="ask this Kafka cluster")
    service_options(parser)
    parser.add_argument("--server", metavar="URL", help="ask this server")
    server_options(parser)
    return parser


def _findings(options: argparse.Namespace) -> Iterator[Finding]:
    folder = Path(options.database).absolute().parent if options.database else Path.cwd()
    yield from of_this_machine(folder)
    if options.kafka is not None:
        yield _asked("Kafka", "kafka", lambda: _cluster(options.kafka, options.kafka_setting))
    if options.schema_registry is not None:
        settings = registry_settings(options)
        yield _asked("schema registry", "kafka", lambda: _registry(settings))
    if options.server is not None:
        yield _asked("server", None, lambda: _server(options))


def _asked(subject: str, extra: str | None, ask: Callable[[], str]) -> Finding:
    if extra is not None and missing(extra):
        absent = "it cannot be asked: its client is not installed"
        return Finding(subject, Health.BAD, absent, install(extra))
    try:
        return Finding(subject, Health.GOOD, ask())
    except MillstreamError as error:
        detail = f" ({error.detail.splitlines()[0]})" if error.detail else ""
        return Finding(subject, Health.BAD, f"{error.message}{detail}", error.hint)


# The clients take long to import, and not everybody has them.


def _cluster(servers: str, settings: Sequence[tuple[str, str]]) -> str:
    from millstream.log.kafka.topics import Topics

    topics = Topics(servers, dict(settings))
    return f"{servers} answers: cluster {topics.cluster_id()}, {len(topics.names())} topics"


def _registry(settings: Mapping[str, str]) -> str:
    from millstream.schemas.remote import RemoteRegistry

    registry = RemoteRegistry.open(settings)
    try:
        registry.latest(_NO_SUBJECT)
    finally:
        registry.close()
    return "it answers"


def _server(options: argparse.Namespace) -> str:
    from millstream.remote.http import Credentials
    from millstream_cli.sessions.remote import RemoteSession

    credentials = Credentials(options.user, password_of(options), options.token)
    session = RemoteSession.connect(options.server, credentials)
    try:
        return f"{options.server} answers: version {session.version()}"
    finally:
        session.close()
