"""What a statement gave, as the shell shows it: the same from a local engine and from a server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from millstream_cli.sessions.names import Names

Row = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Message:
    """A sentence. `entity` is what a server sent, shown as it is in JSON."""

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


TABLE_ROWS_MAX = 10_000
"""With more rows than these an answer is shown as it comes, without waiting for the last row."""


@dataclass(frozen=True, slots=True)
class Live:
    """Rows that come as long as nobody ends it. `batches` blocks until there are some and ends
    with the query; `close` ends it from another thread. `key`: where each row replaces the one
    before with the same values in these columns. Without `columns`, rows are lines of text."""

    columns: Sequence[str]
    batches: Iterator[Sequence[Row]]
    close: Callable[[], None]
    key: tuple[int, ...] = ()
    limited: bool = False
    """Whether it ends by itself."""


Outcome = Message | ResultTable | Live


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """How far a persistent query is; `to_restore` of `restore_total` changelog records are to be
    replayed before it goes on. What is not known is None."""

    query_id: str
    state: str
    lag: int | None = None
    restore_left: int = 0
    restore_total: int = 0
    eta_seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Status:
    """What the toolbar says: where statements go and what the queries do."""

    where: str
    queries: tuple[QueryStatus, ...] = ()
    reachable: bool = True

    @property
    def lag(self) -> int | None:
        """Records not yet processed by all queries; None where one does not know."""
        lags = [query.lag for query in self.queries]
        return None if None in lags else sum(lag for lag in lags if lag is not None)


class Progress(Protocol):
    """Told how much a long statement has done of what, and of how much, if that is known."""

    def __call__(self, done: int, total: int | None, name: str = "rows") -> None:
        """See above."""


class Session(Protocol):
    """Where statements go: an engine in this process, or a server."""

    where: str
    """The file, the cluster or the URL."""
    pipelining: bool
    """Whether a statement is sent without waiting for what the one before made."""

    def run(self, text: str, progress: Progress | None = None) -> Iterator[Outcome]:
        """Execute statements one after another. Raises MillstreamError."""

    def define(self, name: str, value: str) -> None:
        """Set a variable."""

    def names(self) -> Names:
        """What there is at the moment; from memory where a server would have to be asked."""

    def status(self) -> Status:
        """What the queries do at the moment. May take a while."""

    def version(self) -> str:
        """The version of what executes the statements."""

    def close(self) -> None:
        """Release everything; idempotent."""
