"""A push query on the screen: rows below each other, or a table whose rows are replaced."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from rich.cells import set_cell_size
from rich.console import Console, Group
from rich.live import Live as Region
from rich.text import Text

from millstream.model.errors import MillstreamError
from millstream.query.changes import Deletion
from millstream_cli.screen.keys import Keys
from millstream_cli.screen.output import Output
from millstream_cli.screen.tables import TableStyle, stream_layout, table_layout
from millstream_cli.sessions.interrupts import Interrupt
from millstream_cli.sessions.results import Live, Row

TICK_SECONDS = 0.2
_BUFFERED = 64
_AT_ONCE = 1_000
"""The number of rows printed between checks for Ctrl-C."""
_FOOTER_LINES = 1


@dataclass(slots=True)
class Followed:
    """The rows received from a query so far. `latest`: the newest row of each key, in the order in
    which the keys appeared; `fresh` are the keys that have changed since it was last `drawn`."""

    live: Live
    started: float = field(default_factory=time.monotonic)
    count: int = 0
    latest: dict[Row, Row] = field(default_factory=dict)
    fresh: set[Row] = field(default_factory=set)
    drawn: bool = False
    """Whether the screen shows the fresh keys."""
    in_place: bool = False
    ended: str = ""
    """The message about its end."""
    interrupted: bool = False

    def take(self, rows: Sequence[Row]) -> Sequence[Row]:
        """Count rows, and replace earlier ones of the same key."""
        self.count += len(rows)
        if self.live.key:
            keyed = {tuple(map(_hashable, (row[i] for i in self.live.key))): row for row in rows}
            self.latest.update(keyed)
            for key, row in keyed.items():
                if isinstance(row, Deletion):
                    del self.latest[key]
            before = set() if self.drawn else self.fresh
            self.fresh = self.latest.keys() & (before | keyed.keys())
            self.drawn = False
        return rows

    def enough(self, look: TableStyle) -> bool:
        """Whether a limit of the shell ends the query."""
        if look.row_limit is not None and self.count >= look.row_limit:
            self.ended = "Limit Reached"
        elif look.timeout_ms is not None and self.seconds * 1000 >= look.timeout_ms:
            self.ended = "Query terminated"
        return bool(self.ended)

    @property
    def seconds(self) -> float:
        """The elapsed time."""
        return time.monotonic() - self.started

    def summary(self) -> str:
        """The number of rows and the elapsed time."""
        noun = "row" if self.count == 1 else "rows"
        return f"{self.count} {noun} in {self.seconds:.1f} s"


def incoming(
    live: Live, followed: Followed, look: TableStyle, interrupt: Interrupt
) -> Iterator[Sequence[Row] | None]:
    """The batches of a query, and None at intervals without any. Ends with the query, at the limits
    of the settings or with Ctrl-C; raises the error that ended it."""
    inbox: queue.Queue[Sequence[Row] | Exception | None] = queue.Queue(_BUFFERED)
    left = threading.Event()
    thread = threading.Thread(target=_read, args=(live, inbox, left), daemon=True)
    thread.start()
    try:
        while not followed.enough(look) and not interrupt.wanted:
            try:
                item = inbox.get(timeout=TICK_SECONDS)
            except queue.Empty:
                yield None
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                followed.ended = "Limit Reached" if live.limited else "Query Completed"
                return
            room = len(item) if look.row_limit is None else look.row_limit - followed.count
            for begin in range(0, min(room, len(item)), _AT_ONCE):
                yield followed.take(item[begin : min(room, begin + _AT_ONCE)])
                if interrupt.wanted:
                    break
    finally:
        left.set()
        live.close()


def _read(
    live: Live, inbox: queue.Queue[Sequence[Row] | Exception | None], left: threading.Event
) -> None:
    end: Exception | None = None
    try:
        for batch in live.batches:
            if not _put(inbox, batch, left):
                return
    except MillstreamError as error:
        end = error
    except Exception as error:  # the waiting thread must receive any error
        end = MillstreamError("The query ended", detail=str(error))
    _put(inbox, end, left)


def _put(
    inbox: queue.Queue[Sequence[Row] | Exception | None],
    item: Sequence[Row] | Exception | None,
    left: threading.Event,
) -> bool:
    while not left.is_set():
        try:
            inbox.put(item, timeout=TICK_SECONDS)
        except queue.Full:
            continue
        return True
    return False


def follow(live: Live, out: Output, look: TableStyle, interrupt: Interrupt) -> Followed:
    """Show the rows until the query ends, or Ctrl-C or q ends it.

    While it runs, t switches between rows below each other and rows in place.
    """
    followed = Followed(live, in_place=bool(live.key) and look.live and out.screen.is_terminal)
    layout = stream_layout(live.columns, out.width, look)
    if not followed.in_place:
        out.lines(layout.head())
    region = Region(
        console=out.screen, auto_refresh=False, transient=True, vertical_overflow="crop"
    )
    drawn_at = 0.0
    with Keys.of_terminal() as keys, region:
        for batch in incoming(live, followed, look, interrupt):
            if batch is not None and not followed.in_place:
                out.lines([line for row in batch for line in layout.row(marked(row))])
            if not _obeyed(keys.pressed(), followed, out, look):
                break
            # Drawing for each batch takes longer than its rows, which a server sends one by one.
            if batch is None or time.monotonic() - drawn_at >= TICK_SECONDS:
                region.update(_picture(followed, out.screen, look), refresh=True)
                followed.drawn, drawn_at = True, time.monotonic()
    if interrupt.wanted:
        followed.ended = "Query terminated"
    if followed.in_place:
        out.lines(_whole(followed, out.width, look))
    return followed


def _obeyed(pressed: str, followed: Followed, out: Output, look: TableStyle) -> bool:
    """Handle a key; returns False to end the query."""
    if "q" in pressed:
        followed.ended = "Query terminated"
        return False
    if "t" in pressed and followed.live.key:
        followed.in_place = not followed.in_place
        if not followed.in_place:
            out.lines(_whole(followed, out.width, look))
    return True


def _picture(followed: Followed, screen: Console, look: TableStyle) -> Group:
    """The live part of the screen: the table whose rows are replaced, and the line below it."""
    toggle = "t rows below each other, " if followed.in_place else "t rows in place, "
    keys = f"{toggle if followed.live.key else ''}Ctrl-C ends"
    footer = set_cell_size(f" {followed.summary()}   {keys}", max(screen.width - 1, 1))
    parts: list[Text] = []
    if followed.in_place:
        room = screen.height - _FOOTER_LINES - 5
        keys_shown = list(followed.latest)
        if len(keys_shown) > room:
            keys_shown = [key for key in keys_shown if key in followed.fresh][-max(room, 1) :]
        parts = _table(followed, keys_shown, screen, look)
    return Group(*parts, Text(footer, style="reverse", no_wrap=True))


def _table(
    followed: Followed, keys: Sequence[Row], screen: Console, look: TableStyle
) -> list[Text]:
    rows = [followed.latest[key] for key in keys]
    unwrapped = replace(look, wrap=False)
    layout = table_layout(followed.live.columns, rows, screen.width, unwrapped)
    lines = [Text(line, style="bold", no_wrap=True) for line in layout.head()]
    for key, row in zip(keys, rows, strict=True):
        style = "bold green" if key in followed.fresh else ""
        for line in layout.row(row):
            lines.append(Text(line, style=style, no_wrap=True))
    hidden = len(followed.latest) - len(keys)
    if hidden:
        lines.append(Text(f"  … {hidden} more", style="dim"))
    return lines


def _whole(followed: Followed, width: int, look: TableStyle) -> list[str]:
    rows = list(followed.latest.values())
    layout = table_layout(followed.live.columns, rows, width, look)
    lines = [line for row in rows for line in layout.row(row)]
    return [*layout.head(), *lines, layout.rule] if lines else layout.head()


def marked(row: Row) -> Row:
    """A deletion with `<TOMBSTONE>` for NULL values, any other row unchanged."""
    if not isinstance(row, Deletion):
        return row
    return tuple("<TOMBSTONE>" if value is None else value for value in row)


def _hashable(value: object) -> object:
    return repr(value) if isinstance(value, list | dict) else value
