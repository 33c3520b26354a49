"""`millstream.connect("http://…")`: a database on a server."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NoReturn

import pyarrow as pa

from millstream.model.errors import MillstreamError, StatementError, UnavailableError, prefixed
from millstream.model.nearest import did_you_mean
from millstream.model.shown_types import schema_of
from millstream.query.results import Change, Result, Rows, Stream
from millstream.query.session import Session
from millstream.query.subscription import Subscription
from millstream.remote import wordings
from millstream.remote.arrow_response import ARROW, ArrowResponse
from millstream.remote.entities import result_of
from millstream.remote.http import Credentials, Reply, Wire
from millstream.remote.literals import literal
from millstream.scripts.text import ParsedStatement, parse_text, read_script, split_text
from millstream.service.database import Database
from millstream.service.execution import parse_push_query, parse_script
from millstream.statements.control import set_property
from millstream.statements.row_tables import Insertable, read_rows
from millstream_parser import Values, print_statement
from millstream_parser import statements as s
from millstream_parser.names import quote

BUFFERED_BYTES = 16 << 20
"""The rows of a push query that wait here; beyond, the connection is not read."""
_PAUSE_SECONDS = 0.01
_HERE = "it belongs to the process of the server"


class RemoteDatabase(Database):
    """A database on a server, with a session of its own: its properties and variables are kept here
    and sent along. What needs the engine in this process raises StatementError."""

    def __init__(self, wire: Wire, session: Session) -> None:
        self.session = session
        self._wire = wire
        self._sequence = -1

    def __getattr__(self, name: str) -> NoReturn:
        if name == "engine":
            raise wordings.ONLY_ON_SERVER(what="The engine", why=_HERE)
        raise AttributeError(name)

    def each(self, sql: str, parameters: Values = ()) -> Iterator[Result]:
        """See `Database`."""
        count = sum(1 for _ in split_text(sql)) if parameters else 0
        for parsed in parse_script(sql, self.session, parameters):
            if not (parameters and isinstance(parsed.statement, s.SelectStatement)):
                yield from self._executed(parsed)
            elif count > 1:
                raise wordings.SEVERAL_WITH_PARAMETERS(count=count)
            else:
                yield self._query(replace(parsed, text=sql), parameters)

    def executemany(self, sql: str, rows: Iterable[Values]) -> int:
        """See `Database`. INSERT INTO … VALUES is one statement with all rows."""
        found: list[s.Statement] = []
        for number, row in enumerate(rows, 1):
            try:
                found += (one.statement for one in parse_script(sql, self.session, row))
            except StatementError as error:
                raise prefixed(f"Row {number} of the parameters: ", error) from error
        inserts = [one for one in found if isinstance(one, s.InsertValues)]
        same = {(one.target, one.columns) for one in inserts}
        if len(inserts) == len(found) and len(same) == 1:
            whole = replace(inserts[0], rows=tuple(row for one in inserts for row in one.rows))
            self._post(print_statement(whole))
            return len(found)
        if any(isinstance(one, s.SelectStatement) for one in found):
            raise wordings.ONLY_ON_SERVER(what="executemany of a query", why="execute it for each")
        for one in found:
            self._post(print_statement(one))
        return len(found)

    def subscribe(self, sql: str, parameters: Values = ()) -> Subscription:
        """See `Database`."""
        parsed = parse_push_query(sql, self.session, parameters)

        def start() -> Stream:
            result = self._query(replace(parsed, text=sql), parameters)
            assert isinstance(result, Stream)
            return result

        return Subscription(start)

    def _insert(
        self, target: str, data: Insertable, columns: Sequence[str] | None, before: int = 0
    ) -> int:
        types = self._columns_of(target)
        rows = read_rows(data, columns, len(types), before)
        if not rows.rows:
            return 0
        known = types.keys() | {"ROWTIME"}
        names = [name if name in known else name.upper() for name in rows.names] or list(types)
        unknown = next((name for name in names if name not in known), None)
        if unknown is not None:
            raise StatementError(
                f"{target} has no column {unknown}", hint=did_you_mean(unknown, known)
            )
        texts = []
        for row in range(rows.rows):
            try:
                values = (
                    literal(rows.value(column, row), types.get(name, {}))
                    for column, name in enumerate(names)
                )
                texts.append(f"({', '.join(values)})")
            except StatementError as error:
                raise prefixed(f"Row {before + row + 1}: ", error) from error
        listed = ", ".join(map(quote, names))
        self._post(f"INSERT INTO {_target(target)} ({listed}) VALUES {', '.join(texts)};")
        return rows.rows

    def close(self) -> None:
        """Close the connections; idempotent."""
        self._wire.close()

    # ---- what the process of an engine can do --------------------------------------------------

    def stream(self, name: str) -> NoReturn:
        """Not for a server: write SQL."""
        raise wordings.ONLY_ON_SERVER(what=f"The stream {name} as a chain", why="write it as SQL")

    def table(self, name: str) -> NoReturn:
        """Not for a server: write SQL."""
        raise wordings.ONLY_ON_SERVER(what=f"The table {name} as a chain", why="write it as SQL")

    def deploy(self, topology: object, name: str) -> NoReturn:
        """Not for a server: its own process runs processors."""
        raise wordings.ONLY_ON_SERVER(what=f"Application {name}", why="the server loads processors")

    def register(self, *functions: object) -> NoReturn:
        """Not for a server: it loads functions itself."""
        raise wordings.ONLY_ON_SERVER(what="register", why="the server loads functions")

    def wait(self) -> NoReturn:
        """Not for a server, which others write to at the same time."""
        raise wordings.ONLY_ON_SERVER(what="wait", why="others write there, so it might never end")

    def metrics(self) -> NoReturn:
        """Not for a server: its figures are at /metrics."""
        raise wordings.ONLY_ON_SERVER(what="metrics", why="its figures are at /metrics")

    def seal(self) -> NoReturn:
        """Not for a server: the files are beside its database."""
        raise wordings.ONLY_ON_SERVER(what="seal", why="the files are beside its database")

    def processing_log(self) -> NoReturn:
        """Not for a server: its processing log is a stream."""
        raise wordings.ONLY_ON_SERVER(
            what="processing_log", why="query the stream KSQL_PROCESSING_LOG"
        )

    # ---- requests ------------------------------------------------------------------------------

    def _executed(self, parsed: ParsedStatement) -> Iterator[Result]:
        match parsed.statement:
            case s.SelectStatement() | s.Peek():
                yield self._query(parsed, ())
            case s.PrintTopic(topic):
                raise wordings.ONLY_ON_SERVER(what=f"PRINT {topic}", why="the shell prints topics")
            case s.RunScript(path):
                yield from self.each(read_script(path))
            case s.SetProperty(system=False) | s.DefineVariable():
                yield set_property(parsed.statement, self.session)
            case _:
                yield self._post(print_statement(parsed.statement))

    def _post(self, text: str) -> Result:
        body: dict[str, Any] = {"ksql": text, "streamsProperties": self.session.properties}
        if self._sequence >= 0:
            body["commandSequenceNumber"] = self._sequence
        entities = self._wire.post("/ksql", body)
        if not isinstance(entities, list):
            raise UnavailableError(f"{self._wire.url} does not answer as a ksqlDB server does")
        for entity in entities:
            self._sequence = max(self._sequence, entity.get("commandSequenceNumber") or -1)
            status = entity.get("commandStatus") or {}
            if status.get("status") == "ERROR":
                raise StatementError(str(status.get("message")))
        return result_of(entities)

    def _query(self, parsed: ParsedStatement, parameters: Values) -> Result:
        query = getattr(parsed.statement, "query", None)
        push = isinstance(parsed.statement, s.SelectStatement) and bool(query and query.emit)
        body: dict[str, Any] = {"sql": parsed.text, "properties": self.session.properties}
        if self._sequence >= 0:
            body["commandSequenceNumber"] = self._sequence
        if parameters:
            body["parameters"] = _plain(parameters)
        accept = f"{ARROW};changes=true" if push else ARROW
        reply = self._wire.open("/query-stream", body, accept)
        if push:
            return self._pushed(reply, getattr(query, "limit", None), parsed.text)
        with reply:
            rows = ArrowResponse(reply)
            found = list(rows)
            table = pa.concat_tables(found) if found else rows.schema.empty_table()
        table = table.replace_schema_metadata(None)
        return Rows(table, schema=schema_of(table))

    def _pushed(self, reply: Reply, limit: int | None, text: str) -> Stream:
        try:
            rows = ArrowResponse(reply)
        except BaseException:
            reply.close()
            raise
        metadata = rows.schema.metadata or {}
        query_id = metadata.get(b"queryId", b"").decode()
        schema = schema_of(rows.schema.empty_table().drop_columns(["$diff"]))

        def close() -> None:
            reply.close()
            self._end(query_id)

        stream = Stream(query_id, schema, list(schema.names), close, limit, statement=text)
        threading.Thread(target=_read, args=(rows, stream), daemon=True).start()
        return stream

    def _end(self, query_id: str) -> None:
        try:
            self._wire.post("/close-query", {"queryId": query_id})
        except MillstreamError:
            return  # It has ended by itself, or the server detects the closed connection.

    def _columns_of(self, target: str) -> dict[str, Mapping[str, Any]]:
        """The columns that take values, with their types."""
        [entity] = self._wire.post("/ksql", {"ksql": f"DESCRIBE {_target(target)};"})
        fields = entity["sourceDescription"]["fields"]
        return {
            field["name"]: field.get("schema") or {}
            for field in fields
            if field.get("type") != "HEADER"
        }


def _read(rows: ArrowResponse, stream: Stream) -> None:
    """Pass rows on until the query or the stream ends."""
    try:
        for table in rows:
            while stream.buffered_bytes > BUFFERED_BYTES and not stream.closed:
                time.sleep(_PAUSE_SECONDS)
            if stream.closed:
                return
            stream.put(Change(table))
        stream.close()
    except MillstreamError as error:
        if not stream.closed:
            stream.fail(error)


def _target(name: str) -> str:
    """A name as in SQL: one that is quoted is already."""
    parsed = parse_text(f"INSERT INTO {name} VALUES (NULL);")
    if len(parsed) != 1 or not isinstance(parsed[0].statement, s.InsertValues):
        raise StatementError(f"{name} is not the name of a stream or table")
    return name


def _plain(parameters: Values) -> list[Any] | dict[str, Any]:
    """Parameters as JSON."""
    if isinstance(parameters, Mapping):
        return {name: _scalar(value) for name, value in parameters.items()}
    return [_scalar(value) for value in parameters]


def _scalar(value: Any) -> Any:
    match value:
        case dt.datetime():
            moment = value if value.tzinfo is None else value.astimezone(dt.UTC)
            return moment.replace(tzinfo=None).isoformat(timespec="milliseconds")
        case dt.date() | dt.time():
            return value.isoformat()
        case Decimal():
            return float(value)
        case _:
            return value


def open_remote(
    url: str, credentials: tuple[str, str] | str | None, session: Session
) -> RemoteDatabase:
    """A database on the server of a URL; see `connect`. Raises UnavailableError if it does not
    answer."""
    match credentials:
        case (user, password):
            given = Credentials(user=user, password=password)
        case str(token):
            given = Credentials(token=token)
        case _:
            given = Credentials()
    wire = Wire(url.rstrip("/"), given)
    wire.get("/info")
    return RemoteDatabase(wire, session)
