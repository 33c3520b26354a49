"""Starting a server: a file of properties, the environment and flags, in this order of strength.

The file has ksqlDB's form: `name=value` lines, `#` or `!` for comments, a `\\` at the end of a line
that goes on. In the environment a property's name is in upper case with `_` for `.`, and begins
with KSQL_ as in ksqlDB's images: KSQL_LISTENERS, KSQL_KSQL_SERVICE_ID.
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import millstream
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings, check_property
from millstream.service.database import Database
from millstream_server.guard import Guard
from millstream_server.listening import Listener, Tls, bind, serve
from millstream_server.routes import application
from millstream_server.server import Server, ServerSettings

DEFAULT_LISTENER = "http://127.0.0.1:8088"
STATE_FILE = "millstream.db"
PUSH_BUFFER_BYTES = 1 << 20
_LOG = logging.getLogger("millstream.server")


@dataclass(frozen=True, slots=True)
class StartSettings:
    """What a server is started with. `kafka`: the brokers, "" for one file without any.
    `client`: further settings of the Kafka client. `unknown`: names that mean nothing here."""

    service_id: str = "default_"
    listeners: tuple[str, ...] = (DEFAULT_LISTENER,)
    directory: str = ""
    kafka: str = ""
    queries_file: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, str] = field(default_factory=dict)
    tls: Tls | None = None
    unknown: tuple[str, ...] = ()


def read_properties(text: str) -> dict[str, str]:
    """The names and values of a file."""
    found: dict[str, str] = {}
    whole = ""
    for line in text.splitlines():
        whole += line.strip()
        if whole.endswith("\\"):
            whole = whole[:-1]
            continue
        if whole and whole[0] not in "#!":
            name, separator, value = whole.partition("=")
            if not separator:
                name, _, value = whole.partition(":")
            found[name.strip()] = value.strip()
        whole = ""
    return found


def from_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The properties that the environment gives. A name is `_` for `.`; three of them are a `_`."""
    found = {}
    for name, value in environment.items():
        if name.startswith("KSQL_") and name not in _NOT_PROPERTIES:
            bare = name.removeprefix("KSQL_").lower()
            found[bare.replace("___", "\0").replace("_", ".").replace("\0", "_")] = value
    return found


_NOT_PROPERTIES = frozenset({"KSQL_OPTS", "KSQL_HEAP_OPTS", "KSQL_JMX_OPTS", "KSQL_LOG4J_OPTS"})
_CLIENT_PREFIXES = ("security.", "sasl.", "ssl.")
_SERVED = frozenset(
    {
        "ksql.service.id",
        "listeners",
        "ksql.streams.state.dir",
        "bootstrap.servers",
        "ksql.queries.file",
        "ssl.keystore.location",
        "ssl.key.location",
        "ssl.key.password",
        "ssl.truststore.location",
        "ssl.client.authentication",
    }
)


def start_settings(given: Mapping[str, str]) -> StartSettings:
    """From properties by their names in ksqlDB's file; what has no meaning here is `unknown`.

    Raises StatementError for a value that is none.
    """
    properties: dict[str, str] = {}
    client: dict[str, str] = {}
    unknown = []
    for name, value in given.items():
        if name in _SERVED:
            continue
        if name.startswith(_CLIENT_PREFIXES):
            client[name] = value
            continue
        try:
            canonical, checked = check_property(name, value)
        except StatementError as error:
            if not error.message.startswith("Unknown property"):
                raise
            unknown.append(name)
        else:
            properties[canonical] = checked
    listeners = given.get("listeners", DEFAULT_LISTENER)
    return StartSettings(
        given.get("ksql.service.id", "default_"),
        tuple(item.strip() for item in listeners.split(",") if item.strip()),
        given.get("ksql.streams.state.dir", ""),
        given.get("bootstrap.servers", ""),
        given.get("ksql.queries.file", ""),
        properties,
        client,
        _tls(given),
        tuple(unknown),
    )


def _tls(given: Mapping[str, str]) -> Tls | None:
    """PEM files; a Java key store cannot be read here."""
    certificate = given.get("ssl.keystore.location", "")
    if not certificate:
        return None
    wanted = given.get("ssl.client.authentication", "NONE").upper()
    return Tls(
        certificate,
        given.get("ssl.key.location", certificate),
        given.get("ssl.key.password", ""),
        given.get("ssl.truststore.location", "") if wanted != "NONE" else "",
    )


def open_database(settings: StartSettings) -> Database:
    """Open what the server serves: a file in its directory, or Kafka with the state there."""
    path = ":memory:"
    if settings.directory:
        folder = Path(settings.directory)
        folder.mkdir(parents=True, exist_ok=True)
        path = str(folder / STATE_FILE)
    return millstream.connect(
        path,
        kafka=settings.kafka or None,
        service_id=settings.service_id.rstrip("_") or "default",
        kafka_settings=dict(settings.client) if settings.kafka else None,
        settings=EngineSettings(push_buffer_bytes=PUSH_BUFFER_BYTES),
        properties=dict(settings.properties),
        queries_file=settings.queries_file or None,
    )


def run_server(
    settings: StartSettings,
    *,
    guard: Guard | None = None,
    told: Callable[[Sequence[str]], None] = lambda urls: None,
) -> None:
    """Serve until SIGINT or SIGTERM. `told` is called with the addresses once they are bound.

    Raises MillstreamError where the database or an address cannot be had.
    """
    for name in settings.unknown:
        _LOG.warning("The property %s is not known here and has no effect", name)
    listeners = [bind(url) for url in settings.listeners]
    try:
        database = open_database(settings)
    except BaseException:
        for listener in listeners:
            listener.bound.close()
        raise
    with database:
        server = Server(database.engine, _served(settings, listeners[0]), guard)
        told([listener.url for listener in listeners])
        asyncio.run(_serve(server, listeners, settings.tls))


def _served(settings: StartSettings, listener: Listener) -> ServerSettings:
    host, port = listener.address
    return ServerSettings(
        settings.service_id,
        settings.kafka or "embedded",
        f"{host}:{port}",
        settings.properties,
    )


async def _serve(server: Server, listeners: Sequence[Listener], tls: Tls | None) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)

    async def stopped() -> None:
        await stop.wait()
        server.close()

    await serve(application(server), listeners, stopped, tls)


def load(
    path: str | None, environment: Mapping[str, str], flags: Mapping[str, str]
) -> StartSettings:
    """The settings from a file (if any), the environment and flags; later ones win.

    Raises StatementError for a file that cannot be read, or a value that is none.
    """
    given: dict[str, str] = {}
    if path is not None:
        try:
            given = read_properties(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise StatementError(f"Cannot read the properties in {path}: {error}") from error
    return start_settings({**given, **from_environment(environment), **flags})
