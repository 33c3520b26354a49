"""Results of statements for the shell, in the same form from a local engine and from a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from millstream.service.database import Database
from millstream_cli.sessions.names import Names

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `entity` is the server's object, shown unchanged in JSON."""

    text: str
    warning: bool = False
    entity: Any = None


@dataclass(frozen=True, slots=True)
class ResultTable:
    """A finished table. `query`: the rows of a SELECT rather than a listing."""

    columns: Sequence[str]
    rows: Sequence[Row]
    title: str = ""
    footer: str = ""
    query: bool = False
    entity: Any = None


FROM_NOW_ON = (
    "Only records from now on were read: SET 'auto.offset.reset' = 'earliest'; for earlier ones."
)
TABLE_ROWS_MAX = 10_000
"""A result with more rows is shown as it arrives, without waiting for the last row."""


@dataclass(frozen=True, slots=True)
class Live:
    """Rows that arrive until the query ends. `batches` blocks until there are some and ends with
    the query; `close` ends it from another thread. `key`: each row replaces the previous one with
    the same values in these columns. Without `columns`, rows are lines of text."""

    columns: Sequence[str]
    batches: Iterator[Sequence[Row]]
    close: Callable[[], None]
    key: tuple[int, ...] = ()
    limited: bool = False
    """Whether it ends by itself."""
    hint: str = ""
    """What to say if it is ended without a row."""


Outcome = Message | ResultTable | Live


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The progress of a persistent query; `to_restore` of `restore_total` changelog records must be
    replayed before it continues. Unknown values are None."""

    query_id: str
    state: str
    lag: int | None = None
    restore_left: int = 0
    restore_total: int = 0
    eta_seconds: float | None = None
    skipped: int = 0
    """Records that it could not process, late ones aside."""


@dataclass(frozen=True, slots=True)
class Status:
    """The contents of the toolbar: the connection and the state of the queries."""

    where: str
    queries: tuple[QueryStatus, ...] = ()
    reachable: bool = True

    @property
    def lag(self) -> int | None:
        """Records not yet processed by all queries; None if unknown."""
        lags = [query.lag for query in self.queries]
        return None if None in lags else sum(lag for lag in lags if lag is not None)


class Progress(Protocol):
    """Called with the progress of a long statement: the kind of work, the amount done, and the
    total if known."""

    def __call__(self, done: int, total: int | None, name: str = "rows") -> None:
        """The callback, as described above."""


class Session(Protocol):
    """A session that executes statements: on an engine in this process, or on a server."""

    where: str
    """The file, the cluster or the URL."""
    database: Database
    """The same database, for data in and out."""
    pipelining: bool
    """Whether a statement is sent without waiting for the effect of the one before."""

    def run(self, text: str, progress: Progress | None = None) -> Iterator[Outcome]:
        """Execute statements one after another. Raises MillstreamError."""

    def define(self, name: str, value: str) -> None:
        """Set a variable."""

    def names(self) -> Names:
        """The current names; cached ones if a request to a server would be necessary."""

    def status(self) -> Status:
        """The current status of the queries. May block."""

    def version(self) -> str:
        """The version of the engine or server."""

    def close(self) -> None:
        """Release everything; idempotent."""
