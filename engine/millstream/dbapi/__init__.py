"""The standard interface of Python to databases (PEP 249), for tools that need it.

```python
from millstream import dbapi

with dbapi.connect("shop.db") as connection:
    cursor = connection.cursor()
    cursor.execute("SELECT customer, total FROM spending WHERE total > ?", (100,))
    print(cursor.fetchall())
```

Every statement is durable when `execute` returns: there are no transactions of several statements.
`millstream.connect` gives more: DataFrames, Arrow, chains of methods.
"""

from datetime import date as Date
from datetime import datetime as Timestamp
from datetime import time as Time

from millstream.dbapi.connection import Connection, connect
from millstream.dbapi.cursor import Cursor
from millstream.dbapi.exceptions import (
    DatabaseError,
    DataError,
    Error,
    IntegrityError,
    InterfaceError,
    InternalError,
    NotSupportedError,
    OperationalError,
    ProgrammingError,
    Warning,
)
from millstream.dbapi.types import (
    BINARY,
    DATETIME,
    NUMBER,
    ROWID,
    STRING,
    DateFromTicks,
    TimeFromTicks,
    TimestampFromTicks,
)

apilevel = "2.0"
threadsafety = 1
"""Threads may share the module, but not connections."""
paramstyle = "qmark"
"""`?`; `$1` and `:name` are understood as well, see `Database.execute`."""

Binary = bytes

__all__ = [
    "BINARY",
    "DATETIME",
    "NUMBER",
    "ROWID",
    "STRING",
    "Binary",
    "Connection",
    "Cursor",
    "DataError",
    "DatabaseError",
    "Date",
    "DateFromTicks",
    "Error",
    "IntegrityError",
    "InterfaceError",
    "InternalError",
    "NotSupportedError",
    "OperationalError",
    "ProgrammingError",
    "Time",
    "TimeFromTicks",
    "Timestamp",
    "TimestampFromTicks",
    "Warning",
    "apilevel",
    "connect",
    "paramstyle",
    "threadsafety",
]
