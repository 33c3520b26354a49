"""What is recorded of migrations: a stream of events, and a table of the latest of each version."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from millstream.model.errors import StatementError, UnavailableError
from millstream.query.results import Rows
from millstream.service.database import Database
from millstream_parser.names import quote

MIGRATED, RUNNING, ERROR = "MIGRATED", "RUNNING", "ERROR"
NOTHING = "N/A"
CURRENT = "CURRENT"
_FIRST = "<none>"
_WAIT_SECONDS, _LOOK_SECONDS = 30.0, 0.05
_COLUMNS = (
    "version", "name", "state", "checksum", "started_on", "completed_on", "previous",
    "error_reason",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Event:
    """What became of a migration; all are texts, as ksqlDB's tool writes them. `version` and
    `previous` are numbers, `started_on` and `completed_on` ms since the epoch."""

    version: str
    name: str
    state: str
    checksum: str
    started_on: str
    completed_on: str
    previous: str
    error_reason: str


@dataclass(frozen=True, slots=True)
class Metadata:
    """The names of both objects and of their topics."""

    stream: str
    table: str
    stream_topic: str
    table_topic: str
    replicas: str

    @staticmethod
    def of(settings: Mapping[str, str], service_id: str) -> Metadata:
        """As the properties of a project say, or ksqlDB's defaults."""
        stream = settings.get("ksql.migrations.stream.name", "MIGRATION_EVENTS")
        table = settings.get("ksql.migrations.table.name", "MIGRATION_SCHEMA_VERSIONS")
        topic = f"{service_id}ksql_"
        return Metadata(
            stream,
            table,
            settings.get("ksql.migrations.stream.topic.name", topic + stream),
            settings.get("ksql.migrations.table.topic.name", topic + table),
            settings.get("ksql.migrations.topic.replicas", "1"),
        )

    def initialize(self, database: Database) -> None:
        """Create both. Raises ConflictError if one is there."""
        columns = ", ".join(f"{name} STRING" for name in _COLUMNS)
        database.execute(
            f"CREATE STREAM {quote(self.stream)} (version_key STRING KEY, {columns}) WITH"
            f" (KAFKA_TOPIC={_text(self.stream_topic)}, VALUE_FORMAT='JSON', PARTITIONS=1,"
            f" REPLICAS={int(self.replicas)});"
        )
        latest = ", ".join(f"LATEST_BY_OFFSET({name}) AS {name}" for name in _COLUMNS)
        database.execute(
            f"CREATE TABLE {quote(self.table)} WITH (KAFKA_TOPIC={_text(self.table_topic)}) AS"
            f" SELECT version_key, {latest} FROM {quote(self.stream)} GROUP BY version_key;"
        )

    def destroy(self, database: Database) -> None:
        """Drop both, and their topics."""
        database.execute(f"DROP TABLE IF EXISTS {quote(self.table)} DELETE TOPIC;")
        database.execute(f"DROP STREAM IF EXISTS {quote(self.stream)} DELETE TOPIC;")

    def read(self, database: Database) -> dict[str, Event]:
        """The latest event of each version, by the version or CURRENT. Raises StatementError if
        the objects are not there."""
        try:
            found = database.execute(
                f"SELECT version_key, {', '.join(_COLUMNS)} FROM {quote(self.table)};"
            )
        except StatementError as error:
            if self.table not in str(error):
                raise
            raise StatementError(
                f"There is no table {self.table}, in which migrations are recorded.",
                hint="`initialize-metadata` creates it.",
            ) from error
        assert isinstance(found, Rows)
        return {key: Event(*values) for key, *values in found}

    def record(self, database: Database, event: Event) -> None:
        """Write an event, as that of its version and as the current one; returns when it can be
        read."""
        values = asdict(event)
        database.insert(
            self.stream,
            [{"VERSION_KEY": key, **{n.upper(): v for n, v in values.items()}}
             for key in (CURRENT, event.version)],
        )  # fmt: skip
        deadline = time.monotonic() + _WAIT_SECONDS
        while time.monotonic() < deadline:
            found = self.read(database)
            if found.get(event.version) == event == found.get(CURRENT):
                return
            time.sleep(_LOOK_SECONDS)
        raise UnavailableError(
            f"What was written into {self.stream} does not arrive in {self.table}.",
            hint="Does its query run? SHOW QUERIES; tells.",
        )


def latest_version(found: Mapping[str, Event]) -> str:
    """The version that was migrated last, or what ksqlDB's tool calls none."""
    done = [int(key) for key, event in found.items() if key != CURRENT and event.state == MIGRATED]
    return str(max(done)) if done else _FIRST


def _text(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
