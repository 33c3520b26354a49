"""Tumbling, hopping and sliding windows: late rows, closed windows, expiry."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pyarrow as pa

from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.schema import WindowKind
from millstream.operators.closing import closing_clock_text
from millstream.operators.grouping import END, START, Plan
from millstream.operators.program import Call, Expiry, Sql, StateTable, Step, Upsert
from millstream.operators.relation import SelectFragment, Setting, quoted
from millstream.operators.sliding import (
    Sliding,
    paired_rows,
    sliding_steps,
    sliding_tables,
    sliding_writes,
    too_late,
)
from millstream.operators.sql import identifier, unquoted
from millstream.plan.nodes import Window

_DAY_MS = 24 * 60 * 60 * 1000
P, SQ, RT, DF = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))


def grace_of(window: Window, *, final: bool) -> int:
    """The grace period in ms; by default a day minus the window, none with EMIT FINAL."""
    if window.grace_ms is not None:
        return window.grace_ms
    return 0 if final else max(_DAY_MS - window.size_ms, 0)


def open_ms(window: Window, *, final: bool) -> int:
    """For how long a window is open behind its end. Sliding windows have their end, too."""
    return grace_of(window, final=final) + (window.kind is WindowKind.SLIDING)


def clock_name(label: str) -> str:
    """The state table for the stream time of windows."""
    return f"{label}_clock"


def clock_table(label: str) -> StateTable:
    """Stream time: the highest event time of a partition so far."""
    return StateTable(clock_name(label), (), (("time", "BIGINT"),), plain=True)


def expiry_of(window: Window, label: str, *, final: bool) -> Expiry:
    """When results of windows are no longer kept."""
    retention = max(window.size_ms + grace_of(window, final=final), window.retention_ms or 0)
    return Expiry(unquoted(START), clock_name(label), "time", retention)


def emitted_rows(window: Window | None, rows: str, clock: str) -> str:
    """EMIT FINAL: the stored windows whose result has been emitted."""
    assert window is not None
    grace = grace_of(window, final=True)
    closed = f's.{END} + {open_ms(window, final=True)} <= c."time"'
    if window.kind is WindowKind.SESSION:
        closed = f's.{END} + {window.size_ms + grace} < c."time"'
    return f"(SELECT s.* FROM {rows} s JOIN {clock} c USING ({P}) WHERE {closed})"


def timed_rows(part: SelectFragment, label: str) -> SelectFragment:
    """Adds `$time`, the stream time at each row (including its own time). Rows before the epoch are
    dropped."""
    source, clock = f"{label}_input", f"{label}_clock"
    rows = f"SELECT * FROM {part.source} WHERE {RT} >= 0"
    stored = Sql(f"{clock}_stored", f"SELECT * FROM {identifier(clock)}")
    call = Call(
        f"{label}_timed",
        "stream_time",
        _stream_time(source, f"{clock}_stored"),
        (source, f"{clock}_stored"),
        _stream_time_text(source, f"{clock}_stored"),
    )
    return replace(
        part,
        source=identifier(f"{label}_timed"),
        steps=(*part.steps, Sql(source, rows, part.nodes, part.nested), stored, call),
        tables=(*part.tables, clock_table(label)),
        nodes=part.nodes[-1:],
        nested=(),
    )


def _stream_time_text(source: str, clock: str) -> str:
    known = 'coalesce(c."time", -1)'
    return (
        f'SELECT b.*, greatest(max(b.{RT}) OVER w, {known}) AS "$time", {known} AS "$before"\n'
        f"FROM {identifier(source)} b LEFT JOIN {identifier(clock)} c ON b.{P} = c.{P}\n"
        f"WINDOW w AS (PARTITION BY b.{P} ORDER BY b.{SQ})"
    )


def _stream_time(source: str, clock: str) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        rows, stored = relations[source], relations[clock]
        known = dict(zip(stored[PART].to_pylist(), stored["time"].to_pylist(), strict=True))
        part, seq = rows[PART].to_numpy(), rows[SEQ].to_numpy()
        times = rows[ROWTIME].to_numpy()
        before = np.full(len(times), -1, np.int64)
        result = np.empty(len(times), np.int64)
        for number in np.unique(part).tolist():
            own = np.flatnonzero(part == number)
            if np.any(seq[own][1:] < seq[own][:-1]):
                own = own[np.argsort(seq[own], kind="stable")]
            start = known.get(number, -1)
            result[own] = np.maximum.accumulate(np.maximum(times[own], start))
            before[own] = start
        return rows.append_column("$time", pa.array(result)).append_column(
            "$before", pa.array(before)
        )

    return run


def windowed_rows(
    part: SelectFragment, window: Window, label: str, *, final: bool, closing: bool
) -> SelectFragment:
    """Each row once for every window it falls into that is still open, with WINDOWSTART and
    WINDOWEND; the stream time is stored, late rows are counted once for each window missed.
    `closing`: stream time also passes all windows with EMIT FINAL."""
    part = timed_rows(part, label)
    size, advance = window.size_ms, window.advance_ms or window.size_ms
    if window.kind is WindowKind.TUMBLING:
        start = f"{RT} - {RT} % {size}"
    else:
        first = f"greatest({RT} - {size - advance}, 0) // {advance} * {advance}"
        start = f"unnest(range({first}, {RT} + 1, {advance}))"
    timed = f"(SELECT *, {start} AS {START} FROM {part.source})"
    late = f'{START} + {size} <= "$time" - {grace_of(window, final=final)}'
    rows = f"(\n  SELECT *, {START} + {size} AS {END}\n  FROM {timed}\n  WHERE NOT ({late})\n)"
    part = clocked(part, window, label, (timed, late), final=final, closing=closing)
    return replace(part, source=rows)


def sliding_rows(
    part: SelectFragment, window: Window, sliding: Sliding, *, final: bool, closing: bool
) -> SelectFragment:
    """As `windowed_rows`, for sliding windows: with `$at`, and with rows of earlier runs."""
    part = timed_rows(part, sliding.label)
    counted = part.source, too_late(sliding)
    part = clocked(part, window, sliding.label, counted, final=final, closing=closing)
    return replace(
        part,
        source=paired_rows(sliding),
        steps=(*part.steps, *sliding_steps(sliding)),
        writes=(*part.writes, *sliding_writes(sliding)),
        tables=(*part.tables, *sliding_tables(sliding)),
    )


def clocked(
    part: SelectFragment,
    window: Window,
    label: str,
    counted: tuple[str, str],
    *,
    final: bool,
    closing: bool,
) -> SelectFragment:
    """Adds the clock of windows: their stream time, and how many of the `counted` rows are late,
    which the text behind them tells."""
    rows, late = counted
    clock = (
        f'SELECT {P}, max("$time") AS "time", any_value("$before") AS "before",\n'
        f"  count(*) FILTER (WHERE {late}) AS late\nFROM {rows}\nGROUP BY {P}"
    )
    name = clock_name(label)
    clocks: tuple[Step, ...] = (Sql(f"{name}_new", clock),)
    if final and closing:
        until = f"{END} + {open_ms(window, final=final)}"
        closed = closing_clock_text(label, f"{name}_moved", until)
        clocks = (Sql(f"{name}_moved", clock), Sql(f"{name}_new", closed))
    return replace(
        part,
        steps=(*part.steps, *clocks),
        writes=(*part.writes, Upsert(name, f"{name}_new")),
        late=(*part.late, f"{name}_new"),
        traced=False,
    )


def closed_windows(plan: Plan, part: SelectFragment, setting: Setting) -> SelectFragment:
    """EMIT FINAL: the windows that stream time has closed in this run, each once, ordered by start
    and key."""
    window = plan.node.window
    assert window is not None
    grace = open_ms(window, final=True)
    last, clock = identifier(f"{plan.label}_last"), identifier(f"{plan.label}_clock_new")
    columns = ", ".join((P, *plan.columns, *plan.states, RT))
    same = " AND ".join(f"s.{name} IS NOT DISTINCT FROM l.{name}" for name in (P, *plan.keys))
    every = (
        f"SELECT {columns} FROM {last}\n  UNION ALL\n"
        f"  SELECT {columns} FROM {identifier(plan.label)} s\n"
        f"  WHERE NOT EXISTS (FROM {last} l WHERE {same})"
    )
    order = ", ".join((P, START, *(name for name in plan.keys if name != START)))
    closed = (
        f"(\n  SELECT x.*, row_number() OVER (ORDER BY {order}) - 1 AS {SQ}, 1::TINYINT AS {DF}"
        f"{_of_the_closing_row(plan, grace, setting)}\n"
        f"  FROM (\n  {every}\n  ) x JOIN {clock} c USING ({P})\n"
        f'  WHERE {END} + {grace} <= c."time" AND {END} + {grace} > c."before"'
        f"{_remembered(plan, window, grace) if window.forgetful else ''}\n)"
    )
    return replace(part, source=closed)


def _remembered(plan: Plan, window: Window, grace: int) -> str:
    """Only windows not too far behind the newest one at the closing row. A window that is closed
    without a row is always remembered."""
    timed, advance = identifier(f"{plan.label}_timed"), window.advance_ms or window.size_ms
    closing = (
        f'(SELECT min(t."$time") FROM {timed} t '
        f'WHERE t.{P} = x.{P} AND t."$time" >= x.{END} + {grace})'
    )
    oldest = f"{closing} // {advance} * {advance} - {window.size_ms + grace}"
    return f"\n  AND {START} >= coalesce({oldest}, {START})"


def _of_the_closing_row(plan: Plan, grace: int, setting: Setting) -> str:
    """The columns carried from the row that closes a window."""
    timed = identifier(f"{plan.label}_timed")
    return "".join(
        f",\n  (SELECT arg_min_null(t.{name}, t.{SQ}) FROM {timed} t "
        f'WHERE t.{P} = x.{P} AND t."$time" >= x.{END} + {grace}) AS {name}'
        for name in quoted(setting.carried)
    )
