"""The door for Python programs: `millstream.connect(...)` and what it returns."""

from __future__ import annotations

import atexit
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from millstream.functions.user import UserFunction
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings, InstanceSettings
from millstream.service.clock import now_ms
from millstream.service.engine import Engine
from millstream.service.execution import execute_script, open_engine
from millstream.service.headless import run_queries_file
from millstream.service.history.sealing import seal_streams
from millstream.service.metrics.figures import EngineMetrics
from millstream.service.metrics.metrics import metrics
from millstream.service.results import Result
from millstream.service.session import Session
from millstream_parser import Values


class Database:
    """An engine in this process with one session. Use it in a `with`, or `close()` it; what
    `connect` gave is closed at the end of the program at the latest."""

    def __init__(self, engine: Engine, session: Session) -> None:
        self.engine = engine
        self.session = session

    def execute(self, sql: str, parameters: Values = ()) -> Result:
        """Execute one or more statements; returns what the last one gave.

        `parameters` are the values of `?`, or of `$1`, `$2`, …, in the text; or, as a mapping, of
        `:name`. Each stands for a literal: None, a bool, int, float (DOUBLE), Decimal, str, date,
        time or datetime. All statements are parsed before the first one runs. Raises
        MillstreamError.
        """
        results = list(self.each(sql, parameters))
        if not results:
            raise StatementError("there is no statement in the text")
        return results[-1]

    def each(self, sql: str, parameters: Values = ()) -> Iterator[Result]:
        """Execute statements one after another, giving each one's result."""
        return execute_script(self.engine, sql, self.session, parameters)

    def sql(self, sql: str, parameters: Values = ()) -> Result:
        """The same as `execute`."""
        return self.execute(sql, parameters)

    def register(self, *functions: UserFunction) -> None:
        """Make functions in Python (`millstream.udf`, `udaf`, `udtf`) known to later statements.

        They are not kept in the file: give those that its queries call to `connect`. Raises
        ConflictError for a name that is taken.
        """
        self.engine.register(functions)

    def wait(self) -> None:
        """Wait until every running query has processed all there is, and committed it."""
        self.engine.drain()

    def metrics(self) -> EngineMetrics:
        """What the queries have done since the database was opened, how far and how fast they
        are, and what the process costs; docs/metrics.md explains each figure.

        Plain data, taken now; `arrow()` makes a table of it, `millstream.exposition` text for
        Prometheus.
        """
        return metrics(self.engine)

    def seal(self) -> str:
        """Have `spark.read.format("millstream")` read the streams and tables as they are now:
        writes them down as Parquet beside the file, each record once, and returns the folder. On
        Kafka only what streams and tables there are is written, to a topic, whose name it
        returns."""
        return seal_streams(self.engine)

    def processing_log(self) -> pa.Table:
        """The rows that queries could not use, newest last."""
        return self.engine.processing_log.table()

    def close(self) -> None:
        """Commit and release everything; idempotent."""
        atexit.unregister(self.close)
        self.engine.close()

    def __enter__(self) -> Database:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def connect(
    path: str = ":memory:",
    *,
    kafka: str | None = None,
    service_id: str = "default",
    kafka_settings: Mapping[str, str] | None = None,
    sharing: InstanceSettings | None = None,
    settings: EngineSettings | None = None,
    properties: dict[str, str] | None = None,
    functions: Sequence[UserFunction] = (),
    queries_file: str | None = None,
) -> Database:
    """Open a database: a file, which is made when missing, or ":memory:".

    With `kafka` (host:port of brokers, comma separated) the records lie in a Kafka cluster and
    `path` holds the state only, which ":memory:" makes anew from the changelogs at each start;
    services of different `service_id` live side by side in one cluster. `kafka_settings` go to
    each of its clients as they are, e.g. {"security.protocol": "ssl"}; `sharing` says how this
    instance goes along with the others of its service.
    `properties` are session properties as SET gives them, e.g. {"auto.offset.reset": "earliest"};
    `functions` are functions in Python that statements may call, see `millstream.udf`. With a
    `queries_file` its statements make the streams, tables and queries, and no others can.
    Raises UnavailableError (code E-LOG-LOCKED) while another process has the file open,
    ConflictError (E-LOG-OPEN) when this one has, CorruptionError for a file that is no database,
    StatementError for a property that is unknown or a setting that the Kafka client refuses.
    """
    session = Session()
    for name, value in (properties or {}).items():
        session.set(name, value)
    if kafka_settings and kafka is None:
        raise StatementError("kafka_settings are given, but no kafka")
    if sharing and kafka is None:
        raise StatementError("A database in a file is not shared: give kafka with sharing")
    settings = _with_threads(settings or EngineSettings(), session)
    engine = open_log_engine(path, kafka, service_id, kafka_settings, sharing, settings, functions)
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


def _with_threads(settings: EngineSettings, session: Session) -> EngineSettings:
    """The property that tells the engine its number of threads, where it is given."""
    given = session.properties.get("num.stream.threads")
    if given is None:
        return settings
    if int(given) < 1:
        raise StatementError(f"There must be at least one processing thread, not {given}")
    return replace(settings, processing_threads=int(given))


def open_log_engine(
    path: str,
    kafka: str | None,
    service_id: str,
    kafka_settings: Mapping[str, str] | None,
    sharing: InstanceSettings | None,
    settings: EngineSettings,
    functions: Sequence[UserFunction],
) -> Engine:
    """An engine that is not started, over a log in a file or on Kafka; for the rest see
    `connect`."""
    if kafka is None:
        return open_engine(path, settings, now_ms, functions)
    try:
        from millstream.service.on_kafka import open_kafka_engine
    except ModuleNotFoundError as error:
        raise StatementError(
            "The Kafka client is not installed", hint="pip install 'millstream[kafka]'"
        ) from error
    return open_kafka_engine(
        kafka, service_id, path, settings, now_ms, functions, kafka_settings, sharing
    )
