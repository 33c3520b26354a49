"""`millstream.connect`: opens a database in this process, or on a server."""

from __future__ import annotations

import atexit
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from millstream.functions.user import UserFunction
from millstream.model.errors import StatementError
from millstream.model.settings import (
    OF_SHARING,
    ConnectSettings,
    EngineSettings,
    InstanceSettings,
    canonical_name,
    shared_settings,
)
from millstream.query.session import Session
from millstream.service.database import Database, open_log_engine
from millstream.service.headless import run_queries_file


def connect(
    path: str | Path = ":memory:",
    *,
    kafka: str | None = None,
    service_id: str = "default",
    kafka_settings: Mapping[str, str] | None = None,
    sharing: InstanceSettings | None = None,
    schema_registry: str | Mapping[str, str] | None = None,
    kafka_connect: str | ConnectSettings | None = None,
    settings: EngineSettings | None = None,
    properties: dict[str, str] | None = None,
    functions: Sequence[UserFunction] = (),
    queries_file: str | None = None,
    credentials: tuple[str, str] | str | None = None,
) -> Database:
    """Open a database: a file, which is created if it is missing, or ":memory:"; or one on a
    server, if `path` is its URL ("http://localhost:8088"). For a server, `credentials` are a user
    and a password, or a token, and only `properties` may be given besides; see docs/data.md for
    what is not possible there.

    With `kafka` (host:port of brokers, comma separated), the records are in a Kafka cluster, and
    `path` holds only the state. With ":memory:", each start restores the state from the changelogs.
    One cluster can hold several services with different `service_id`. `kafka_settings` are passed
    to all Kafka clients unchanged, e.g. {"security.protocol": "ssl"}; `sharing` configures how this
    instance works with the other instances of its service.
    `schema_registry`: the URL of a schema registry, or the settings of its client, e.g. {"url":
    "https://registry:8081", "basic.auth.user.info": "ann:secret"}. Without, a file has a registry
    of its own, and the formats that need one are refused on Kafka.
    `kafka_connect`: the URL of a Kafka Connect, or its settings, for CREATE CONNECTOR.
    `properties` are session properties as in SET, e.g. {"auto.offset.reset": "earliest"};
    `functions` are Python functions that statements may call, see `millstream.udf`. With a
    `queries_file`, only its statements define streams, tables and queries.
    Raises UnavailableError (code E-LOG-LOCKED) while another process has the file open,
    ConflictError (E-LOG-OPEN) if this process has it open, CorruptionError if the file is not a
    database, and StatementError for an unknown property or an invalid Kafka client setting.
    """
    where, properties = str(path), properties or {}
    if where.startswith(("http://", "https://")):
        of_log = (kafka, kafka_settings, sharing, schema_registry, kafka_connect)
        if any((*of_log, settings, functions, queries_file)):
            raise StatementError("A database on a server has its settings and functions there")
        return _on_server(where, credentials, properties)
    if credentials is not None:
        raise StatementError("credentials are for a database on a server: give its URL")
    session = Session()
    sharing = shared_settings(sharing, properties)
    for name, value in properties.items():
        if canonical_name(name) not in OF_SHARING:
            session.set(name, value)
        elif kafka is None:
            raise StatementError(f"{name} is for instances that share a log on Kafka: give kafka")
    if kafka_settings and kafka is None:
        raise StatementError("kafka_settings are given, but no kafka")
    if sharing and kafka is None:
        raise StatementError("A database in a file is not shared: give kafka with sharing")
    settings = _with_threads(settings or EngineSettings(), session)
    settings = _with_services(settings, schema_registry, kafka_connect)
    engine = open_log_engine(where, kafka, service_id, kafka_settings, sharing, settings, functions)
    try:
        if queries_file is not None:
            run_queries_file(engine, queries_file, session)
    except BaseException:
        engine.close()
        raise
    engine.start()
    database = Database(engine, session)
    atexit.register(database.close)
    return database


def _with_services(
    settings: EngineSettings,
    registry: str | Mapping[str, str] | None,
    kafka_connect: str | ConnectSettings | None,
) -> EngineSettings:
    """The settings with where a schema registry and Kafka Connect are, if that is given."""
    if registry:
        client = {"url": registry} if isinstance(registry, str) else registry
        settings = replace(settings, schema_registry=client)
    if kafka_connect:
        if isinstance(kafka_connect, str):
            kafka_connect = ConnectSettings(kafka_connect)
        settings = replace(settings, kafka_connect=kafka_connect)
    return settings


def _on_server(
    url: str, credentials: tuple[str, str] | str | None, properties: Mapping[str, str]
) -> Database:
    # httpx takes as long to import as a small database to open.
    from millstream.remote.database import open_remote

    session = Session()
    for name, value in properties.items():
        session.set(name, value)
    return open_remote(url, credentials, session)


def _with_threads(settings: EngineSettings, session: Session) -> EngineSettings:
    """The settings with the number of threads that the session's properties give, if any."""
    if settings.function_threads < 1:
        threads = settings.function_threads
        raise StatementError(f"There must be at least one thread for functions, not {threads}")
    given = session.properties.get("num.stream.threads")
    if given is None:
        return settings
    if int(given) < 1:
        raise StatementError(f"There must be at least one processing thread, not {given}")
    return replace(settings, processing_threads=int(given))
