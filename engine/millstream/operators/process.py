"""Processors: the rows of a stream through an operator in Python, with its state."""

from __future__ import annotations

from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.operators.program import ProcessorCall, Sql, StateTable, StoreTable, Upsert
from millstream.operators.relation import (
    ORIGIN,
    PRESENT,
    SelectFragment,
    Setting,
    meta_names,
    names,
    nested,
    quoted,
)
from millstream.operators.sql import identifier
from millstream.plan.nodes import Node, Process, inputs

VALUE = "value"
"""The column of the values of a store's table."""
STREAM_TIME, DUE = "stream_time", "due"
"""The columns of the table of what a task remembers of time: ms, and when each schedule is due."""


def compile_process(
    node: Process, given: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """A processor gets the rows with a value, and the deletions of tables, in the order of their
    task. `$seq` is numbered anew, because one row becomes any number of rows."""
    part = nested(given, setting)
    rows, out, times = f"{label}_input", f"{label}_rows", f"{label}_times"
    skipped = f"{label}_skipped"
    meta = quoted(meta_names(setting))
    origin = f"{part.origin or identifier(SEQ)} AS {ORIGIN}"
    listed = ", ".join((*quoted(names(part.schema)), *meta, origin))
    where = " AND ".join((*part.where, *_kept(node)))
    order = f"{identifier(PART)}, {identifier(SEQ)}"
    read = Sql(
        rows,
        f"SELECT {listed}\nFROM {part.source}\nWHERE {where}\nORDER BY {order}",
        part.nodes,
        part.nested,
    )
    stores = tuple(
        StoreTable(
            store.name,
            f"{label}_store_{store.name}",
            f"{label}_store_{store.name}_new",
            store.keys,
            store.value,
        )
        for store in node.processor.stores
    )
    call = ProcessorCall(
        out,
        rows,
        node,
        stores,
        times,
        f"{times}_new",
        skipped,
        setting.carried,
        _shown(node, rows, setting),
    )
    return SelectFragment(
        schema=node.schema,
        source=identifier(out),
        steps=(*part.steps, read, call),
        writes=(
            *part.writes,
            *(Upsert(store.table, store.changes, deletes=True) for store in stores),
            Upsert(times, f"{times}_new"),
        ),
        tables=(*part.tables, *map(_table, stores), _times_table(times)),
        late=part.late,
        problems=(*part.problems, skipped),
        traced=False,
        origin=ORIGIN,
    )


def _kept(node: Process) -> tuple[str, ...]:
    """Which rows without a value are none."""
    tables = [str(number) for number, stream in enumerate(node.streams) if stream.table]
    if len(tables) == len(node.streams):
        return ()
    if not tables:
        return (PRESENT,)
    number = identifier(names(node.input.schema)[0])
    return (f"({PRESENT} OR {number} IN ({', '.join(tables)}))",)


def shortest_interval(node: Node) -> int:
    """The shortest interval in ms of what processors schedule by the clock of the wall in a
    sub-topology; 0 without any."""
    own = [node.processor.interval_ms] if isinstance(node, Process) else []
    return min(filter(None, (*own, *map(shortest_interval, inputs(node)))), default=0)


def _table(store: StoreTable) -> StateTable:
    keys = zip(store.key_columns, map(duckdb_type, store.keys), strict=True)
    return StateTable(store.table, tuple(keys), ((VALUE, duckdb_type(store.value)),), plain=True)


def _times_table(name: str) -> StateTable:
    return StateTable(name, (), ((STREAM_TIME, "BIGINT"), (DUE, "BIGINT[]")), plain=True)


def _shown(node: Process, rows: str, setting: Setting) -> str:
    """A SELECT of the same columns, without rows."""
    columns = [
        f"CAST(NULL AS {duckdb_type(column.type)}) AS {name}"
        for column, name in zip(node.schema.columns, quoted(names(node.schema)), strict=True)
    ]
    kept = quoted((PART, SEQ, ROWTIME, DIFF, *setting.carried))
    listed = ", ".join((*columns, *kept, ORIGIN))
    return f"SELECT {listed}\nFROM {identifier(rows)}\nWHERE FALSE"
