"""Sends statements to a server over the ksqlDB REST API."""

from __future__ import annotations

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from typing import Any
from urllib.parse import quote

from millstream.history.progress import StageProgress
from millstream.model.errors import MillstreamError, StatementError, UnavailableError
from millstream.model.problem import LATE
from millstream.query.session import Session
from millstream.remote.database import RemoteDatabase
from millstream.remote.http import LINES, Credentials, RefusedError, Reply, Wire
from millstream.scripts.text import read_script, split_text, substituted
from millstream.service.database import Database
from millstream_cli.sessions import frames
from millstream_cli.sessions.config import Config
from millstream_cli.sessions.entities import outcomes, type_text
from millstream_cli.sessions.filling import asked, fills
from millstream_cli.sessions.keyed import key_positions
from millstream_cli.sessions.names import ColumnName, Names, SourceName, builtin_names
from millstream_cli.sessions.results import (
    FROM_NOW_ON,
    TABLE_ROWS_MAX,
    Live,
    Message,
    Outcome,
    Progress,
    QueryStatus,
    ResultTable,
    Row,
    Status,
)
from millstream_cli.sessions.settings import Settings
from millstream_parser.lexemes import LexemeKind, lexemes

_PROBLEMS = re.compile(
    r'^millstream_query_problems_total\{kind="([^"]+)",query="([^"]+)"\} (\d+)', re.MULTILINE
)
_LAG = re.compile(r'^millstream_query_lag_records\{query="([^"]+)"\} (\d+)', re.MULTILINE)
_NAMES = "LIST STREAMS EXTENDED; LIST TABLES EXTENDED; LIST TYPES; LIST TOPICS;"


class RemoteSession:
    """A session with a server; its properties and variables are kept here, and sent along."""

    def __init__(self, wire: Wire, settings: Settings) -> None:
        self.where = wire.url
        self.database: Database = RemoteDatabase(
            wire, Session(settings.properties, settings.variables)
        )
        self.wire = wire
        self.settings = settings
        self.pipelining = False
        self._sequence = -1
        self._names = Names(functions=builtin_names())
        self._stale = True
        self._tells_lags = True

    @staticmethod
    def connect(url: str, credentials: Credentials, config: Config | None = None) -> RemoteSession:
        """A session with the server of a URL. The server need not be reachable yet."""
        chosen = config or Config()
        wire = Wire(url.rstrip("/"), credentials, chosen.connection)
        return RemoteSession(wire, Settings(dict(chosen.properties)))

    def run(self, text: str, progress: Progress | None = None) -> Iterator[Outcome]:
        """Execute statements one after another. Raises MillstreamError."""
        waiting = ""
        for part in list(split_text(text)):
            statement = substituted(part.strip(), self.settings.variables) + ";"
            words = _words(statement)
            alone = words[:1] in (["SELECT"], ["PEEK"], ["PRINT"], ["RUN"])
            if not alone and not Settings.knows(words):
                waiting += statement + "\n"
                continue
            yield from self._send(waiting, progress)
            waiting = ""
            match words[0]:
                case "SELECT" | "PEEK":
                    yield self._query(statement, "EMIT" in words, progress)
                case "PRINT":
                    yield self._print(statement)
                case "RUN":
                    yield from self.run(read_script(_string(statement)))
                case _:
                    yield self.settings.apply(statement, self._is_property)
        yield from self._send(waiting, progress)

    def define(self, name: str, value: str) -> None:
        """Set a variable."""
        self.settings.variables[name] = value

    def names(self) -> Names:
        """The names as of the last request."""
        return self._names

    def status(self) -> Status:
        """The status of the persistent queries; refreshes the names too if they may have
        changed."""
        if self._stale:
            self._names = self._fetched()
            self._stale = False
        [entity] = self._post("SHOW QUERIES;")
        lags, skipped = self._told()
        return Status(
            self.where,
            tuple(
                QueryStatus(
                    query["id"],
                    str(query.get("state") or "RUNNING"),
                    lags.get(query["id"]),
                    skipped=skipped[query["id"]],
                )
                for query in entity["queries"]
                if query.get("queryType", "PERSISTENT") == "PERSISTENT"
            ),
        )

    def version(self) -> str:
        """The version that the server reports."""
        return str(self.wire.get("/info")["KsqlServerInfo"]["version"])

    def close(self) -> None:
        """Close the connections to the server."""
        self.wire.close()

    def _send(self, text: str, progress: Progress | None = None) -> Iterator[Outcome]:
        if not text:
            return
        self._stale = True
        try:
            with ExitStack() as stack:
                if progress is not None and "BACKFILL" in _words(text):
                    stack.enter_context(asked(progress, lambda: fills(self.wire.text("/metrics"))))
                entities = self._post(text)
        except RefusedError as error:
            for entity in error.entities:
                yield from outcomes(entity)
            raise
        for entity in entities:
            self._sequence = max(self._sequence, entity.get("commandSequenceNumber") or -1)
            status = entity.get("commandStatus") or {}
            if status.get("status") == "ERROR":
                raise StatementError(str(status.get("message")))
            yield from outcomes(entity)
        if not entities:
            yield Message(_silent(text))
        self._stale = True

    def _post(self, text: str) -> list[dict[str, Any]]:
        body: dict[str, Any] = {"ksql": text, "streamsProperties": self.settings.properties}
        if self._sequence >= 0 and not self.pipelining:
            body["commandSequenceNumber"] = self._sequence
        answer = self.wire.post("/ksql", body)
        if not isinstance(answer, list):
            raise UnavailableError(f"{self.where} does not answer as a ksqlDB server does")
        return answer

    def _query(self, statement: str, push: bool, progress: Progress | None) -> Outcome:
        body = {"ksql": statement, "streamsProperties": self.settings.properties}
        reply = self.wire.open("/query", body, "application/vnd.ksql.v1+json")
        objects = frames.objects(reply.pieces())
        query_id, columns = frames.header(objects)
        if not push:
            with ExitStack() as stack:
                query = reply.headers.get("millstream-query")
                if progress is not None and query is not None:
                    stack.enter_context(asked(progress, lambda: self._stages(query)))
                return _pulled(reply, columns, frames.rows(objects))

        def close() -> None:
            reply.close()
            self._close_query(query_id)

        key = key_positions(statement, columns, self._names)
        limited = "LIMIT" in _words(statement)
        known = self.settings.properties.get("auto.offset.reset")
        hint = FROM_NOW_ON if known == "latest" else ""
        return Live(columns, _one_by_one(frames.rows(objects)), close, key, limited, hint)

    def _stages(self, query: str) -> list[StageProgress]:
        told = self.wire.get(f"/history/{quote(query, safe='')}")
        return [StageProgress(one["name"], one["done"], one["total"]) for one in told["stages"]]

    def _print(self, statement: str) -> Live:
        body = {"sql": statement, "properties": self.settings.properties}
        reply = self.wire.open("/query-stream", body, LINES)
        lines = ((line,) for line in reply.lines())
        return Live((), _one_by_one(lines), reply.close)

    def _close_query(self, query_id: str) -> None:
        try:
            self.wire.post("/close-query", {"queryId": query_id})
        except MillstreamError:
            return  # It has ended by itself, or the server detects the closed connection.

    def _is_property(self, name: str) -> None:
        self.wire.get(f"/is_valid_property/{quote(name, safe='')}")

    def _told(self) -> tuple[dict[str, int], Counter[str]]:
        """Query -> records not yet processed, and records that it could not process; empty if the
        server does not report them."""
        skipped = Counter[str]()
        if not self._tells_lags:
            return {}, skipped
        try:
            figures = self.wire.text("/metrics")
        except MillstreamError:
            self._tells_lags = False
            return {}, skipped
        for kind, query, count in _PROBLEMS.findall(figures):
            skipped[query] += int(count) if kind != LATE else 0
        return {query: int(lag) for query, lag in _LAG.findall(figures)}, skipped

    def _fetched(self) -> Names:
        found = self._post(_NAMES)
        sources = itertools.chain(*(e.get("sourceDescriptions") or () for e in found))
        types = itertools.chain(*(e.get("types") or () for e in found))
        topics = itertools.chain(*(e.get("topics") or () for e in found))
        return Names(
            {source["name"]: _source(source) for source in sources},
            tuple(types),
            tuple(topic["name"] for topic in topics),
            tuple(query["id"] for e in self._post("SHOW QUERIES;") for query in e["queries"]),
            builtin_names(),
        )


def _silent(text: str) -> str:
    """The message for statements without a response entity."""
    rows = sum(_words(part)[:1] == ["INSERT"] for part in split_text(text))
    return f"{rows} {'row' if rows == 1 else 'rows'} inserted" if rows else "Done"


def _pulled(reply: Reply, columns: list[str], rows: Iterator[Row]) -> Outcome:
    """A table when there are few rows; else the rows as they arrive. Ctrl-C closes the
    connection."""
    with ExitStack() as failed:
        failed.enter_context(reply)
        first = list(itertools.islice(rows, TABLE_ROWS_MAX))
        if len(first) < TABLE_ROWS_MAX:
            return ResultTable(columns, first, query=True)
        failed.pop_all()
    return Live(columns, itertools.chain([first], _one_by_one(rows)), reply.close)


def _one_by_one(rows: Iterator[Row]) -> Iterator[Sequence[Row]]:
    return ([row] for row in rows)


def _source(source: dict[str, Any]) -> SourceName:
    columns = tuple(
        ColumnName(field["name"], type_text(field.get("schema")), field.get("type") == "KEY")
        for field in source["fields"]
    )
    return SourceName(source["name"], source["type"], columns, bool(source.get("windowType")))


def _words(statement: str) -> list[str]:
    return [word.upper for word in lexemes(statement) if word.kind is LexemeKind.WORD]


def _string(statement: str) -> str:
    texts = [word.text for word in lexemes(statement) if word.kind is LexemeKind.STRING]
    if not texts:
        raise StatementError("RUN SCRIPT takes a file.", hint="RUN SCRIPT '<file>';")
    return texts[0][1:-1].replace("''", "'")
