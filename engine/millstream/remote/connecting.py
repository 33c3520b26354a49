"""`millstream.connect`: a database in this process, or on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from millstream.functions.user import UserFunction
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings, InstanceSettings
from millstream.query.session import Session
from millstream.service import database


def connect(
    path: str | Path = ":memory:",
    *,
    kafka: str | None = None,
    service_id: str = "default",
    kafka_settings: Mapping[str, str] | None = None,
    sharing: InstanceSettings | None = None,
    settings: EngineSettings | None = None,
    properties: dict[str, str] | None = None,
    functions: Sequence[UserFunction] = (),
    queries_file: str | None = None,
    credentials: tuple[str, str] | str | None = None,
) -> database.Database:
    """Open a database: a file, which is created if it is missing, or ":memory:"; or one on a
    server, if `path` is its URL ("http://localhost:8088"). For a server, `credentials` are a user
    and a password, or a token, and only `properties` may be given besides; see docs/data.md for
    what is not possible there.

    With `kafka` (host:port of brokers, comma separated), the records are in a Kafka cluster, and
    `path` holds only the state. With ":memory:", each start restores the state from the changelogs.
    One cluster can hold several services with different `service_id`. `kafka_settings` are passed
    to all Kafka clients unchanged, e.g. {"security.protocol": "ssl"}; `sharing` configures how this
    instance works with the other instances of its service.
    `properties` are session properties as in SET, e.g. {"auto.offset.reset": "earliest"};
    `functions` are Python functions that statements may call, see `millstream.udf`. With a
    `queries_file`, only its statements define streams, tables and queries.
    Raises UnavailableError (code E-LOG-LOCKED) while another process has the file open,
    ConflictError (E-LOG-OPEN) if this process has it open, CorruptionError if the file is not a
    database, and StatementError for an unknown property or an invalid Kafka client setting.
    """
    url = str(path)
    if not url.startswith(("http://", "https://")):
        if credentials is not None:
            raise StatementError("credentials are for a database on a server: give its URL")
        return database.connect(
            url,
            kafka=kafka,
            service_id=service_id,
            kafka_settings=kafka_settings,
            sharing=sharing,
            settings=settings,
            properties=properties,
            functions=functions,
            queries_file=queries_file,
        )
    if any((kafka, kafka_settings, sharing, settings, functions, queries_file)):
        raise StatementError("A database on a server has its settings and functions there")
    # httpx takes as long to import as a small database to open.
    from millstream.remote.database import open_remote

    session = Session()
    for name, value in (properties or {}).items():
        session.set(name, value)
    return open_remote(url, credentials, session)
