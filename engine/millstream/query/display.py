"""Results as HTML, for notebooks."""

from __future__ import annotations

import html
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import pyarrow as pa

from millstream.model.errors import MillstreamError
from millstream.query.changes import Row, changed_rows

ROWS_SHOWN = 20
_KEYS_KEPT = 1_000
"""Of so many keys the newest row is kept, for when newer ones are deleted."""
_REFRESH_SECONDS = 0.25
_RUNNING = "running"


def html_table(columns: Sequence[str], rows: Iterable[Sequence[Any]], caption: str) -> str:
    """A table with a line of text below it."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    return (
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        f"<p>{html.escape(caption)}</p>"
    )


def _cell(value: Any) -> str:
    return f"<td>{'<i>NULL</i>' if value is None else html.escape(str(value))}</td>"


def counted(shown: int, rows: int) -> str:
    """The caption of a table with so many of the rows."""
    of = "" if shown == rows else f"{shown:,} of "
    return f"{of}{rows:,} {'row' if rows == 1 else 'rows'}"


class Arriving(Protocol):
    """The rows of a push query as they come; see `Stream`."""

    columns: list[str]
    key: tuple[str, ...]
    on_put: Callable[[], None] | None

    @property
    def ready(self) -> bool:
        """Whether `next_change` returns without waiting."""

    def next_change(self) -> Any:
        """The next rows; None at the end."""


class LiveRows:
    """The newest rows of a push query: of a table's, the newest of each key."""

    def __init__(self, columns: Sequence[str], key: Sequence[str]) -> None:
        self._columns = columns
        self._key = [index for index, name in enumerate(columns) if name in key]
        self._rows: dict[object, Row] = {}
        self.count = 0
        """All rows that came."""

    def add(self, table: pa.Table) -> None:
        """Add rows; a row with a key replaces the former one, or deletes it."""
        for row in changed_rows(table):
            self.count += 1
            name = repr([row[index] for index in self._key]) if self._key else self.count
            self._rows.pop(name, None)
            if not row.deleted:
                self._rows[name] = row
            if len(self._rows) > _KEYS_KEPT:
                del self._rows[next(iter(self._rows))]

    def html(self, state: str) -> str:
        """The newest rows, the last one first. `state`: what is said below them."""
        newest = list(self._rows.values())[: -ROWS_SHOWN - 1 : -1]
        return html_table(self._columns, newest, f"{counted(self.count, self.count)}, {state}")


def show_live(stream: Arriving, show: Callable[[str], None]) -> threading.Thread:
    """Read a push query in a thread of its own, and call `show` with its newest rows, as HTML,
    whenever there are more, a few times a second at most, and at its end."""
    rows, arrived = LiveRows(stream.columns, stream.key), threading.Event()

    def follow() -> None:
        state = _RUNNING
        while state == _RUNNING:
            state = _taken(stream, rows)
            show(rows.html(state))
            if state == _RUNNING:
                arrived.wait()
                arrived.clear()
                threading.Event().wait(_REFRESH_SECONDS)

    stream.on_put = arrived.set
    thread = threading.Thread(target=follow, name="millstream-display", daemon=True)
    thread.start()
    return thread


def _taken(stream: Arriving, rows: LiveRows) -> str:
    """Add everything that has come; returns the state of the query."""
    try:
        while stream.ready:
            change = stream.next_change()
            if change is None:
                return "ended"
            rows.add(change.rows)
    except MillstreamError as error:
        return f"failed: {error}"
    return _RUNNING
