"""Millstream: a streaming database for Python.

```python
import millstream

with millstream.connect("orders.db") as db:
    db.execute("CREATE STREAM orders (id INT KEY, amount DOUBLE) WITH (...)")
```
"""

from millstream.applications.application import Application
from millstream.connecting import connect
from millstream.dsl import fn
from millstream.dsl.cases import when
from millstream.dsl.expressions import Expr, col, lit, struct
from millstream.dsl.pulls import PullQuery
from millstream.dsl.streams import KGroupedStream, KStream, MergedKStream
from millstream.dsl.tables import AggregatedKTable, KGroupedTable, KTable
from millstream.dsl.windows import hopping, session, sliding, tumbling
from millstream.functions.user import reducer, udaf, udf, udtf
from millstream.metrics.prometheus import exposition
from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    FencedError,
    MillstreamError,
    RecordError,
    StatementError,
    UnavailableError,
)
from millstream.model.listener import InternalListener
from millstream.model.settings import EngineSettings, InstanceSettings
from millstream.processors.async_processor import AsyncContext, AsyncProcessor
from millstream.processors.batches import BatchContext, BatchProcessor
from millstream.processors.composed import Peeked
from millstream.processors.definition import processor
from millstream.processors.measuring import ProcessorMetrics
from millstream.processors.observing import observer
from millstream.processors.processor import (
    STREAM_TIME,
    WALL_CLOCK,
    Processor,
    ProcessorContext,
    Record,
)
from millstream.processors.store_kinds import (
    ListStore,
    SessionStore,
    TimestampedKeyValueStore,
    VersionedStore,
    WindowStore,
)
from millstream.processors.stores import KeyValueStore, Store
from millstream.processors.topology import Topology
from millstream.query.changes import Deletion, Row
from millstream.query.results import Done, History, Rows, Stream
from millstream.query.subscription import Subscription
from millstream.service.database import Database
from millstream.statements.appender import Appender

__version__ = "0.1.0"

__all__ = [
    "STREAM_TIME",
    "WALL_CLOCK",
    "AggregatedKTable",
    "Appender",
    "Application",
    "AsyncContext",
    "AsyncProcessor",
    "BatchContext",
    "BatchProcessor",
    "ConflictError",
    "CorruptionError",
    "Database",
    "Deletion",
    "Done",
    "EngineSettings",
    "Expr",
    "FencedError",
    "History",
    "InstanceSettings",
    "InternalListener",
    "KGroupedStream",
    "KGroupedTable",
    "KStream",
    "KTable",
    "KeyValueStore",
    "ListStore",
    "MergedKStream",
    "MillstreamError",
    "Peeked",
    "Processor",
    "ProcessorContext",
    "ProcessorMetrics",
    "PullQuery",
    "Record",
    "RecordError",
    "Row",
    "Rows",
    "SessionStore",
    "StatementError",
    "Store",
    "Stream",
    "Subscription",
    "TimestampedKeyValueStore",
    "Topology",
    "UnavailableError",
    "VersionedStore",
    "WindowStore",
    "__version__",
    "col",
    "connect",
    "exposition",
    "fn",
    "hopping",
    "lit",
    "observer",
    "processor",
    "reducer",
    "session",
    "sliding",
    "struct",
    "tumbling",
    "udaf",
    "udf",
    "udtf",
    "when",
]
