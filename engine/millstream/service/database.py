"""The Python API: `millstream.connect(...)` and the `Database` that it returns."""

from __future__ import annotations

import atexit
from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow as pa

from millstream.applications.application import Application, deploy
from millstream.backup.backup import BackedUp
from millstream.dsl.streams import KStream, stream
from millstream.dsl.tables import KTable, table
from millstream.functions.user import UserFunction
from millstream.historical.sealing import seal_streams
from millstream.metrics.figures import EngineMetrics
from millstream.model.clock import now_ms
from millstream.model.errors import StatementError
from millstream.model.extras import install
from millstream.model.settings import (
    EngineSettings,
    InstanceSettings,
)
from millstream.processors.topology import Topology
from millstream.query.results import Result, Stream
from millstream.query.session import Session
from millstream.query.subscription import Subscription
from millstream.service.backing_up import backup
from millstream.service.chain_connection import ChainConnection
from millstream.service.engine import Engine
from millstream.service.execution import (
    check_running,
    execute_script,
    execute_statement,
    open_engine,
    parse_push_query,
)
from millstream.service.many import execute_many
from millstream.statements.appender import BATCH_ROWS, Appender, open_appender
from millstream.statements.bulk_inserts import insert_rows
from millstream.statements.row_tables import Insertable, RowValues
from millstream_parser import Values


class Database:
    """An engine in this process with one session. Use it in a `with` statement, or `close()` it. A
    database from `connect` is closed at the end of the program at the latest."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self.engine = engine
        self.session = session

    def execute(self, sql: str, parameters: Values = ()) -> Result:
        """Execute one or more statements; returns the result of the last one.

        `parameters` are the values of `?`, or of `$1`, `$2`, …, in the text; or, as a mapping, of
        `:name`. Each stands for a literal: None, a bool, int, float (DOUBLE), Decimal, str, date,
        time or datetime. All statements are parsed before the first one runs. Raises
        MillstreamError.
        """
        results = list(self.each(sql, parameters))
        if not results:
            raise StatementError("there is no statement in the text")
        return results[-1]

    def executemany(self, sql: str, rows: Iterable[Values]) -> int:
        """Execute a text once for each row of `parameters`; returns the number of rows.

        `INSERT INTO … VALUES (?, …)` is one transaction for all rows, and as fast as `insert`; the
        parameters may be bytes, lists and dicts, too. Other statements are executed one after
        another; those before an invalid row stay executed. Queries are refused. Raises
        MillstreamError with the number of the row, counted from 1.
        """
        check_running(self.engine)
        return execute_many(self.engine, sql, rows, self.session)

    def each(self, sql: str, parameters: Values = ()) -> Iterator[Result]:
        """Execute statements one after another, and yield the result of each. On Kafka, statements
        in a row that create are executed before the result of the first of them is yielded."""
        return execute_script(self.engine, sql, self.session, parameters)

    def subscribe(self, sql: str, parameters: Values = ()) -> Subscription:
        """The rows of a push query, for asyncio: `async for row in db.subscribe("SELECT … EMIT
        CHANGES")`. The query is parsed now, and runs while it is iterated. Raises
        MillstreamError."""
        check_running(self.engine)
        parsed = parse_push_query(sql, self.session, parameters)

        def start() -> Stream:
            result = execute_statement(self.engine, parsed, self.session)
            assert isinstance(result, Stream)
            return result

        return Subscription(start)

    def sql(self, sql: str, parameters: Values = ()) -> Result:
        """The same as `execute`."""
        return self.execute(sql, parameters)

    def stream(self, name: str) -> KStream:
        """A stream as the start of a chain: `db.stream("orders").filter(col("amount") > 10)`; see
        docs/dsl.md. The name is upper case, as in SQL, unless it is between backticks. Raises
        StatementError if there is no such stream."""
        return stream(ChainConnection(self.engine, self.session), name)

    def table(self, name: str) -> KTable:
        """A table as the start of a chain, and of pull queries:
        `db.table("spending").where(col("total") > 10).df()`. See `stream`."""
        return table(ChainConnection(self.engine, self.session), name)

    def deploy(self, topology: Topology, name: str) -> Application:
        """Run a topology of processors: creates its streams and queries, which keep running.

        The streams of its sources and sinks have their names, in upper case. If the application
        runs already, because the database was opened again, it is only returned. Raises
        StatementError for a topology that cannot be, ConflictError if something else has one of its
        names.
        """
        check_running(self.engine)
        return deploy(topology, name, ChainConnection(self.engine, self.session))

    def insert(self, target: str, data: Insertable, *, columns: Sequence[str] | None = None) -> int:
        """Insert rows into a stream or table, in one transaction; returns their number.

        `data` is a table of pyarrow, polars, DuckDB or another library with Arrow's C interface, a
        pandas DataFrame (without its index), or an iterable of dicts or of tuples. Names match the
        columns as in SQL: exactly, or in upper case; ROWTIME is the time of the record. `columns`:
        those to take from named data, and the order of the values of tuples, which otherwise are
        values of all columns. What a row does not have is NULL. Each value is converted as its
        literal in INSERT INTO … VALUES, bytes go to BYTES, lists and dicts to ARRAY, MAP and
        STRUCT. Raises MillstreamError with the number of the first row that does not fit, counted
        from 1: then no row is inserted.
        """
        return self._insert(target, data, columns)

    def _insert(
        self, target: str, data: Insertable, columns: Sequence[str] | None, before: int = 0
    ) -> int:
        """`before`: how many rows errors count before the first one."""
        check_running(self.engine)
        return insert_rows(target, data, columns, self.engine.inserts, self.session, before)

    def append(
        self, target: str, *, columns: Sequence[str] | None = None, batch_rows: int = BATCH_ROWS
    ) -> Appender:
        """Insert rows as they are produced, in batches: `with db.append("orders") as appender:`
        and `appender.add(row)`, from any number of threads.

        Each batch of `batch_rows` rows is one transaction; the `add` that completes it waits for
        it, and so do the others meanwhile. The end of the `with` inserts what is left; where an
        exception leaves it, what was not inserted yet is discarded. See `insert` for rows and
        `columns`. Raises MillstreamError if the target takes no rows.
        """

        def insert(rows: Sequence[RowValues], before: int) -> int:
            return self._insert(target, rows, columns, before)

        return open_appender(target, insert, batch_rows)

    def register(self, *functions: UserFunction) -> None:
        """Register Python functions (`millstream.udf`, `udaf`, `udtf`) for later statements.

        The file does not store them: pass those that its queries call to `connect`. Raises
        ConflictError if a name is taken.
        """
        self.engine.register(functions)

    def wait(self) -> None:
        """Wait until every running query has processed and committed all records that are there
        now; if no more arrive, until there is nothing left to do."""
        self.engine.drain()

    def metrics(self) -> EngineMetrics:
        """The metrics of the queries since the database was opened, their positions and rates, and
        the resources of the process. docs/metrics.md explains each metric.

        The result is a snapshot of plain data; `arrow()` converts it to a table, and
        `millstream.exposition` to the text format of Prometheus.
        """
        return self.engine.metrics.now()

    def seal(self) -> str:
        """Publish the current streams and tables for `spark.read.format("millstream")`. Writes
        their new records to Parquet files beside the database, each record once, and returns the
        folder. On Kafka it writes only the definitions of streams and tables, to a topic, and
        returns the name of the topic."""
        return seal_streams(self.engine.historical)

    def backup(self, url: str, *, keep: int | None = None) -> BackedUp:
        """Back up the database to a folder or a URL (`s3://bucket/shop`), while it goes on; of the
        backups there, the newest `keep` stay. `millstream restore` makes a database of one.

        Raises StatementError for a database on Kafka, whose topics are not ours to back up, and
        what `millstream.backup.backup.back_up` raises.
        """
        return backup(self.engine.registry, url, keep)

    def processing_log(self) -> pa.Table:
        """The records that queries could not process, newest last."""
        return self.engine.processing_log.table()

    def close(self) -> None:
        """Commit and release everything; idempotent."""
        atexit.unregister(self.close)
        self.engine.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_log_engine(
    path: str,
    kafka: str | None,
    service_id: str,
    kafka_settings: Mapping[str, str] | None,
    sharing: InstanceSettings | None,
    settings: EngineSettings,
    functions: Sequence[UserFunction],
) -> Engine:
    """An engine over a log in a file or on Kafka, which is not started yet. See `connect` for the
    parameters."""
    if kafka is None:
        return open_engine(path, settings, now_ms, functions)
    try:
        from millstream.service.on_kafka import open_kafka_engine
    except ModuleNotFoundError as error:
        raise StatementError("The Kafka client is not installed", hint=install("kafka")) from error
    return open_kafka_engine(
        kafka, service_id, path, settings, now_ms, functions, kafka_settings, sharing
    )
