"""Prints results on the screen in the selected format."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Sequence
from dataclasses import replace

from millstream.model.errors import MillstreamError
from millstream.query.changes import Deletion
from millstream_cli.screen.cells import cell, to_json
from millstream_cli.screen.live import Followed, follow, incoming, marked
from millstream_cli.screen.output import Output
from millstream_cli.screen.tables import TableStyle, table, vertical
from millstream_cli.screen.window_times import with_times
from millstream_cli.sessions.interrupts import Interrupt, noted
from millstream_cli.sessions.results import Live, Message, Outcome, ResultTable, Row

TOMBSTONE = "$tombstone"
"""The extra field of a deletion in JSON. No column of a query has a name like this."""
FORMS = ("TABULAR", "JSON", "CSV", "VERTICAL")


def show(outcome: Outcome, out: Output, look: TableStyle) -> None:
    """Print one result; a push query is printed until it ends or Ctrl-C ends it."""
    match outcome:
        case Message() | ResultTable() if look.form == "JSON" and outcome.entity is not None:
            out.line(to_json(outcome.entity, indent=2))
        case Message(text):
            _say(text, outcome.warning, out, look)
        case ResultTable() if look.form == "TABULAR" and outcome.columns == ["Stage", "Text"]:
            for stage, text in outcome.rows:
                out.line(stage, "bold")
                out.line(text)
        case ResultTable():
            _answer(outcome, out, look)
        case Live():
            _live(outcome, out, look)


def show_error(error: MillstreamError, out: Output) -> None:
    """Print an error: the message, the line with a caret under the position, and the hint."""
    out.line(error.message, "bold red")
    if error.detail:
        out.lines(_underlined(error, out.width))
    if error.hint:
        out.line(error.hint, "cyan")


def _underlined(error: MillstreamError, width: int) -> list[str]:
    """The detail, with carets under the whole span if it shows the line; of a long line, the part
    around them."""
    lines = error.detail.split("\n")
    if error.span is None or len(lines) != 2 or lines[1].strip(" ^"):
        return lines
    line, at = lines[0].rstrip(), lines[1].index("^")
    marked = max(min(error.span.end - error.span.start, len(line) - at), 1)
    # An entry of a script is padded with blanks that keep its columns.
    left = len(line) - len(line.lstrip()) if len(line) > width else 0
    if at - left + marked > width:
        left = max(at - width // 3, 0)
    return [line[left : left + width], " " * (at - left) + "^" * marked]


def _say(text: str, warning: bool, out: Output, look: TableStyle) -> None:
    match look.form:
        case "JSON":
            out.line(to_json({"message": text}))
        case _ if warning:
            out.line(f"WARNING: {text}", "yellow")
        case _:
            out.line(text)


def _answer(answer: ResultTable, out: Output, look: TableStyle) -> None:
    if look.form in ("JSON", "CSV"):
        out.lines(list(_records(answer.columns, answer.rows, look.form)))
        return
    rows = with_times(answer.columns, answer.rows)
    lines = [answer.title] if answer.title else []
    if look.form == "VERTICAL":
        lines += vertical(answer.columns, rows)
    else:
        lines += table(answer.columns, rows, out.width, look)
    if answer.footer:
        lines.append(answer.footer)
    if look.pager:
        out.pages(lines)
    else:
        out.lines(lines)


def _live(live: Live, out: Output, look: TableStyle) -> None:
    if look.form not in ("JSON", "CSV"):
        batches = (with_times(live.columns, batch) for batch in live.batches)
        live = replace(live, batches=batches)
    # An exception in the middle of drawing would leave the console in its buffering state.
    with noted() as interrupt:
        if live.columns and look.form == "TABULAR":
            followed = follow(live, out, look, interrupt)
        else:
            followed = _listed(live, out, look, interrupt)
    quiet = look.form in ("JSON", "CSV") or (not live.columns and not followed.interrupted)
    if followed.ended and not quiet:
        out.line(followed.ended)
    if not followed.count and live.hint and not quiet:
        out.line(live.hint, "cyan")
    if out.screen.is_terminal:
        out.line(followed.summary(), "dim")


def _listed(live: Live, out: Output, look: TableStyle, interrupt: Interrupt) -> Followed:
    """Rows as lines of a format without column widths, or lines of text."""
    followed = Followed(live)
    if live.columns and look.form == "CSV":
        out.line(_csv([live.columns]))
    for rows in incoming(live, followed, look, interrupt):
        for number, row in enumerate(rows or (), followed.count - len(rows or ()) + 1):
            if not live.columns:
                out.line(cell(row[0]))
            elif look.form == "VERTICAL":
                out.lines(vertical(live.columns, [marked(row)], number))
            elif look.form == "CSV":
                out.line(_csv([marked(row)]))
            else:
                mark = {TOMBSTONE: True} if isinstance(row, Deletion) else {}
                out.line(to_json({**dict(zip(live.columns, row, strict=True)), **mark}))
    if interrupt.wanted:
        followed.interrupted = True
        followed.ended = "Query terminated" if live.columns else "Topic printing ceased"
    return followed


def _records(columns: Sequence[str], rows: Sequence[Row], form: str) -> Iterable[str]:
    if form == "JSON":
        return (to_json(dict(zip(columns, row, strict=True))) for row in rows)
    return [_csv([tuple(columns), *rows])]


def _csv(rows: Iterable[Sequence[object]]) -> str:
    """RFC 4180 without the last line break; NULL is an empty field."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerows([["" if v is None else cell(v) for v in r] for r in rows])
    return text.getvalue().rstrip("\n")
