"""Runs the statements of a test in memory, one record at a time, in the thread of the test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from millstream.applications.statements import script
from millstream.catalog.source import Source
from millstream.ddl.topics import refuse_internal
from millstream.formats.partition import partition_of
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.user import UserFunction
from millstream.log.in_memory import InMemoryLog
from millstream.log.log import Appended, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import StatementError, UnavailableError
from millstream.model.nearest import topic_hint
from millstream.model.schema import SourceKind
from millstream.model.settings import EngineSettings
from millstream.processors.topology import Topology
from millstream.query.results import History, Result, Rows, Stream
from millstream.query.session import Session
from millstream.runtime.spec import QueryState
from millstream.service.engine import with_functions
from millstream.service.execution import execute_statement, parse_script, resume_engine
from millstream.state.store import Store
from millstream.statements.column_values import conversion
from millstream.statements.inserting import encode_rows
from millstream.testing.records import (
    FetchedRecords,
    GivenHeaders,
    OutputRecord,
    output_records,
    raw_headers,
)
from millstream.testing.times import Duration, Time, duration_ms, time_ms
from millstream.testing.topics import InputTopic, OutputTopic, create_missing_topic
from millstream.testing.values import ROWTIME, column_array, row_values
from millstream_parser import Values
from millstream_parser import statements as s

_SETTINGS = EngineSettings(threads=1)
_PROPERTIES = {"auto.offset.reset": "earliest"}
_READ_MAX = 100_000
_STOPPED = (QueryState.ERROR, QueryState.FENCED)


class TopologyTestDriver:
    """Executes a script over an engine in memory, and processes what is piped into its topics.

    ```python
    with TopologyTestDriver("CREATE STREAM …; CREATE TABLE spending AS …;") as driver:
        driver.pipe("orders", {"amount": 12.5}, key="ann")
        (record,) = driver.read("spending")
        assert record.key == "ann" and record.value == {"TOTAL": 12.5}
    ```

    There are no threads and no clock: `pipe` returns when all queries have processed and committed
    the record, event time comes from the records, and only `advance_wall_clock` moves the wall
    clock. Streams and tables are given by their names, or by the names of their topics. A query
    that fails makes the next `pipe`, `advance_wall_clock` or `read` raise its error, once.
    """

    def __init__(
        self,
        sql: str | Topology,
        /,
        *,
        properties: Mapping[str, object] | None = None,
        functions: Sequence[UserFunction] = (),
        start: Time = 0,
        timeout_seconds: float = 60.0,
    ) -> None:
        """Execute the statements of `sql`, or those of a topology of processors. A topic that they
        name without PARTITIONS is created, with one partition. `properties`: as in SET;
        `auto.offset.reset` is `earliest` unless it is given. `functions`: Python functions that the
        statements call. `start`: the wall clock. `timeout_seconds`: how long the queries may work
        on what was piped at once. Raises MillstreamError with the position (`span`) of the
        statement that failed."""
        self._now = time_ms(start, "start")
        self._session = Session(dict(_PROPERTIES))
        for name, value in (properties or {}).items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            self._session.set(name, text)
        self._timeout_seconds = timeout_seconds
        self._positions: dict[str, list[int]] = {}
        self._piped: dict[str, int] = {}
        self._failed: set[str] = set()
        self._closed = False
        if isinstance(sql, Topology):
            parts = sql.parts("tested")
            functions = (*functions, *(part.function for part in parts))
            sql = script(parts)
        catalogue = with_functions(builtin_catalogue(), functions)
        log, store = InMemoryLog(), Store.open(":memory:")
        self._engine = resume_engine(log, store, _SETTINGS, lambda: self._now, catalogue)
        try:
            self._run(sql)
        except BaseException:
            self.close()
            raise

    # ---- records in --------------------------------------------------------------------------

    def pipe(
        self,
        target: str,
        value: object = None,
        *,
        key: object = None,
        timestamp: Time | None = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
    ) -> None:
        """Append a record to the topic of a stream or table, and process it. Of a list, each record
        is processed before the next one is appended.

        `value`: a dict of columns (names as in SQL; ROWTIME too), a tuple of all columns (of those
        without the key if `key` is given), or the value of the only column. Values are converted
        as `Database.insert` does. None is a record without a value: in a table the deletion of
        `key`. Bytes are the record itself, and with them a `key` in bytes. `key`: a tuple if it has
        several columns. `timestamp`: the time of the wall clock if it is not given. `partition`:
        that of the key if it is not given, or one after the other without a key.
        """
        topic, source = self._find(target, written=False)
        self._check_writable(topic, source)
        values = value if isinstance(value, list) else [value]
        records = self._encoded(topic, source, values, key) if values else []
        time = self._now if timestamp is None else time_ms(timestamp)
        given = raw_headers(headers)
        for raw_key, raw_value, rowtime in records:
            batch = raw_batch([(raw_key, raw_value, time if rowtime is None else rowtime)], [given])
            chosen = self._partition(topic, raw_key, partition)
            self._engine.writer.append([Appended(topic.name, chosen, batch, 1, batch.nbytes)])
            # Over several inputs or partitions, results depend on what has come when they are read.
            self._process()

    def _check_writable(self, topic: Topic, source: Source | None) -> None:
        refuse_internal(self._engine.settings, topic.name, "pipe records into")
        catalog = self._engine.catalog
        if (
            source is not None
            and source.kind is SourceKind.TABLE
            and source.query_id in catalog.queries
        ):
            raise StatementError(
                f"Records cannot be piped into {source.name}: query {source.query_id} writes it",
                hint="Pipe into what the query reads.",
            )

    def _encoded(
        self, topic: Topic, source: Source | None, values: Sequence[object], key: object
    ) -> list[tuple[bytes | None, bytes | None, int | None]]:
        """Key, value and time of each record. All that are rows are encoded together."""
        if key is None or isinstance(key, bytes):
            raw = [value for value in values if value is None or isinstance(value, bytes)]
            if len(raw) == len(values):
                return [(key, value, None) for value in raw]
        if source is None:
            raise StatementError(
                f"No stream or table reads the topic {topic.name}: its records are bytes",
                hint="Give key and value in bytes.",
            )
        if source.window is not None:
            raise StatementError(
                f"The keys of {source.name} are windowed: rows cannot be piped into it",
                hint="Give key and value in bytes.",
            )
        rows = [self._row(source, value, key) for value in values]
        registry = self._engine.registry
        with conversion(registry) as convert:
            columns = {
                column.name: column_array([row.get(column.name) for row in rows], column, convert)
                for column in (*source.schema.key, *source.schema.value)
            }
        encoded = encode_rows(source, columns, len(rows), registry)
        return [
            (
                encoded_key,
                given if given is None or isinstance(given, bytes) else encoded_value,
                None if row.get(ROWTIME) is None else time_ms(row[ROWTIME], ROWTIME),
            )
            for given, row, encoded_key, encoded_value in zip(
                values, rows, encoded.key.to_pylist(), encoded.value.to_pylist(), strict=True
            )
        ]

    @staticmethod
    def _row(source: Source, value: object, key: object) -> dict[str, Any]:
        if value is None or isinstance(value, bytes):
            return row_values(source, {}, key)
        return row_values(source, value, key)

    def _partition(self, topic: Topic, key: bytes | None, given: int | None) -> int:
        if given is not None:
            if not 0 <= given < topic.partitions:
                count = topic.partitions
                raise StatementError(
                    f"There is no partition {given} of {topic.name}: it has {count}, from 0 on"
                )
            return given
        if key is not None:
            return int(partition_of(pa.array([key], pa.binary()), topic.partitions)[0])
        count = self._piped.get(topic.name, 0)
        self._piped[topic.name] = count + 1
        return count % topic.partitions

    def input(self, target: str, *, start: Time | None = None, advance: Duration = 0) -> InputTopic:
        """The topic of a stream or table to pipe into. With `start`, records without a timestamp
        get this time, and each next one `advance` more."""
        self._find(target, written=False)
        first = None if start is None else time_ms(start, "start")
        if first is None and advance:
            first = self._now
        return InputTopic(target, self.pipe, first, duration_ms(advance, "advance"))

    # ---- records out -------------------------------------------------------------------------

    def read(self, target: str) -> list[OutputRecord]:
        """The records of a topic that `read` has not returned yet."""
        topic, source = self._find(target, written=True)
        self._check_queries()
        positions = self._positions.setdefault(topic.name, [0] * topic.partitions)
        return self._read(topic, source, positions)

    def read_all(self, target: str) -> list[OutputRecord]:
        """All records of a topic; `read` goes on where it was."""
        topic, source = self._find(target, written=True)
        self._check_queries()
        return self._read(topic, source, [0] * topic.partitions)

    def _read(
        self, topic: Topic, source: Source | None, positions: list[int]
    ) -> list[OutputRecord]:
        """The records from these positions on, which are moved to the end."""
        found = []
        for partition in range(topic.partitions):
            first = self._engine.log.start_offset(topic.name, partition)
            positions[partition] = max(first, positions[partition])
            while True:
                fetched = self._engine.log.read(
                    topic.name, partition, positions[partition], _READ_MAX
                )
                positions[partition] = fetched.next_offset
                if fetched.count:
                    found.append(FetchedRecords(topic.name, partition, fetched.records()))
                if fetched.end:
                    break
        return output_records(found, source, self._engine.store, self._engine.schemas)

    def output(self, target: str) -> OutputTopic:
        """The topic of a stream or table to read from; it has a position of its own."""
        topic, source = self._find(target, written=True)
        positions = [0] * topic.partitions

        def read() -> list[OutputRecord]:
            self._check_open()
            self._check_queries()
            return self._read(topic, source, positions)

        return OutputTopic(target, read)

    # ---- state -------------------------------------------------------------------------------

    def query(self, sql: str, parameters: Values = ()) -> Rows:
        """The rows of a SELECT over the current state. `parameters`: as in `Database.execute`."""
        self._check_open()
        parsed = tuple(parse_script(sql, self._session, parameters))
        if len(parsed) != 1 or not isinstance(parsed[0].statement, s.SelectStatement):
            raise StatementError("`query` takes one SELECT; the driver takes other statements")
        result = execute_statement(self._engine, parsed[0], self._session)
        match result:
            case Rows():
                return result
            case History():
                return Rows(result.arrow(), schema=result.schema)
        self._end(result)
        raise StatementError(
            "A query with EMIT CHANGES does not end: it has no rows to return",
            hint="Leave EMIT CHANGES out, or make a stream of the query and `read` it.",
        )

    def table(self, name: str) -> dict[Any, dict[str, Any]]:
        """The rows of a table by their keys: what `SELECT *` returns now. A key of several columns
        is a tuple; that of a window ends with its start and end, in ms."""
        _, source = self._find(name, written=True)
        if source is None or source.kind is not SourceKind.TABLE:
            raise StatementError(
                f"{name} is no table", hint="`read` returns the records of a topic."
            )
        quoted = source.name.replace("`", "``")
        rows = self.query(f"SELECT * FROM `{quoted}`;")
        keys = [column.name for column in source.schema.key]
        keys += ["WINDOWSTART", "WINDOWEND"] if source.window is not None else []
        names = rows.columns
        found: dict[Any, dict[str, Any]] = {}
        for values in rows:
            row = dict(zip(names, values, strict=True))
            key = tuple(row.pop(column) for column in keys)
            try:
                found[key[0] if len(key) == 1 else key] = row
            except TypeError as error:
                raise StatementError(
                    f"The rows of {source.name} cannot be found by their keys, such as {key!r}",
                    hint="`query` returns them as tuples.",
                ) from error
        return found

    def processing_log(self) -> list[dict[str, Any]]:
        """The records that queries could not process, oldest first: `query`, `kind`, `message`,
        `topic`, `partition`, `offset`, `count`, `raw_key`, `raw_value`."""
        self._check_open()
        entries: list[dict[str, Any]] = self._engine.processing_log.table().to_pylist()
        return entries

    # ---- time --------------------------------------------------------------------------------

    @property
    def now_ms(self) -> int:
        """The time of the wall clock, in ms since 1970."""
        return self._now

    def advance_wall_clock(self, duration: Duration) -> None:
        """Move the wall clock, at once, and do what is due then: with `idle.window.close.ms`,
        `max.task.idle.ms`. It is no event time: records bring that."""
        self._check_open()
        self._now += duration_ms(duration, "advance")
        self._process()

    # ---- the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Release everything; idempotent."""
        if not self._closed:
            self._closed = True
            self._engine.close()

    def __enter__(self) -> TopologyTestDriver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- statements and queries --------------------------------------------------------------

    def _run(self, sql: str) -> None:
        empty = True
        for parsed in parse_script(sql, self._session):
            empty, statement = False, parsed.statement
            if isinstance(statement, s.CreateSource):
                create_missing_topic(statement, self._engine.log)
            self._end(execute_statement(self._engine, parsed, self._session))
            if isinstance(statement, s.InsertValues | s.CopyFrom):
                self._process()
        if empty:
            raise StatementError("There is no statement in the text that is to be tested")
        self._process()

    @staticmethod
    def _end(result: Result) -> None:
        if isinstance(result, Stream | History):
            result.close()

    def _process(self) -> None:
        """Let all queries process and commit what there is."""
        if not self._engine.driver.idle_within(self._timeout_seconds):
            raise UnavailableError(
                f"The queries do not become idle within {self._timeout_seconds:g} s",
                hint="Does a query write to what it reads? Otherwise give `timeout_seconds`.",
                code="E-TEST-TIMEOUT",
            )
        self._check_queries()

    def _check_queries(self) -> None:
        """Raise the error of a query that has stopped, once."""
        states = self._engine.runtime.states().items()
        stopped = {name for name, state in states if state in _STOPPED} - self._failed
        if not stopped:
            return
        self._failed |= stopped
        status = next(each for each in self._engine.statuses() if each.query_id in stopped)
        raise StatementError(
            f"Query {status.query_id} has stopped: {status.error}", code=status.code
        )

    def _check_open(self) -> None:
        if self._closed:
            raise StatementError("The test driver is closed")

    def _find(self, target: str, *, written: bool) -> tuple[Topic, Source | None]:
        """The topic of a name, and the source whose columns its records have. `written`: of the
        sources over a topic, prefer one that a query writes."""
        self._check_open()
        if not isinstance(target, str):
            raise TypeError(f"A stream, table or topic is given by its name, not by {target!r}")
        catalog, log = self._engine.catalog, self._engine.log
        source = catalog.find(target) or catalog.find(target.upper())
        if source is None:
            over = catalog.over_topic(target)
            preferred = (each for each in over if (each.query_id is not None) is written)
            source = next(preferred, next(iter(over), None))
        topic = log.topic(target if source is None else source.topic)
        if topic is None:
            hint = catalog.spelling_hint(target.upper())
            names = (known.name for known in log.topics())
            raise StatementError(
                f"There is no stream, table or topic {target}",
                hint=hint or topic_hint(target, names, "Names are those of the statements."),
            )
        return topic, source
