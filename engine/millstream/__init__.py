"""Millstream: a streaming database for Python.

```python
import millstream

with millstream.connect("orders.db") as db:
    db.execute("CREATE STREAM orders (id INT KEY, amount DOUBLE) WITH (...)")
```
"""

from millstream.functions.user import udaf, udf, udtf
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
from millstream.query.changes import Deletion, Row
from millstream.query.results import Done, History, Rows, Stream
from millstream.service.database import Database, connect

__version__ = "0.1.0"

__all__ = [
    "ConflictError",
    "CorruptionError",
    "Database",
    "Deletion",
    "Done",
    "EngineSettings",
    "FencedError",
    "History",
    "InstanceSettings",
    "InternalListener",
    "MillstreamError",
    "RecordError",
    "Row",
    "Rows",
    "StatementError",
    "Stream",
    "UnavailableError",
    "__version__",
    "connect",
    "exposition",
    "udaf",
    "udf",
    "udtf",
]
