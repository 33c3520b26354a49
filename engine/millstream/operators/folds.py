"""The program step of aggregates that SQL cannot express exactly (see `functions.fold`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.model.batch import DIFF, SEQ
from millstream.operators.accumulators import Accumulator, running_texts
from millstream.operators.program import Call, Sql
from millstream.operators.relation import Setting, quoted
from millstream.operators.sql import identifier


def running_steps(
    items: Sequence[Accumulator],
    target: str,
    source: str,
    group: Sequence[str],
    extra: Sequence[str],
    setting: Setting,
    *,
    order: str,
) -> tuple[Sql | Call, ...]:
    """Steps that compute `target`: for each row of `source` (rows `b`, stored states `s`) its group
    columns, the states after it, the `extra` columns (over `b`, `s` and the window `w` of the
    group) and `$last`, whether it is the last of its group.

    A fold over the sorted rows follows if SQL cannot express an aggregate exactly."""
    folded = tuple(item for item in items if item.fold)
    listed = [f"b.{name}" for name in group]
    for item in items:
        if not item.fold:
            texts = running_texts(item, setting)
            listed += [
                f"{text} AS {identifier(name)}"
                for text, (name, _) in zip(texts, item.states, strict=True)
            ]
    listed += [*extra, f'lead(b.{identifier(SEQ)}) OVER w IS NULL AS "$last"']
    for item in folded:
        listed += [f"b.{name}" for name in quoted(item.arguments)]
        listed += [
            f"s.{identifier(name)} AS {identifier(name + '$seed')}" for name, _ in item.states
        ]
    partition = ", ".join(f"b.{name}" for name in group)
    columns = ",\n  ".join(listed)
    text = (
        f"SELECT {columns}\nFROM {source}\nWINDOW w AS (PARTITION BY {partition} ORDER BY {order})"
    )
    if not folded:
        return (Sql(target, text),)
    number = f"dense_rank() OVER (ORDER BY {', '.join(group)}) - 1"
    sorting = ", ".join((*group, identifier(SEQ), identifier(DIFF)))
    text = f'SELECT *, {number} AS "$fold"\nFROM (\n{text}\n)\nORDER BY {sorting}'
    sorted_rows = f"{target}_sorted"
    label = ", ".join(item.call.function for item in folded)
    function = _folding(folded, sorted_rows)
    shown = _columns_text(folded, sorted_rows)
    call = Call(target, label, function, (sorted_rows,), shown, stub=True)
    return (Sql(sorted_rows, text), call)


def _columns_text(folded: tuple[Accumulator, ...], source: str) -> str:
    states = [
        f"CAST(NULL AS {kind}) AS {identifier(name)}"
        for item in folded
        for name, kind in item.states
    ]
    dropped = ", ".join(map(identifier, sorted(_dropped(folded))))
    return f"SELECT * EXCLUDE ({dropped}), {', '.join(states)}\nFROM {identifier(source)}"


def _dropped(folded: tuple[Accumulator, ...]) -> set[str]:
    """The columns that only a fold reads."""
    found = {"$fold"}
    for item in folded:
        found |= {*item.arguments, *(f"{name}$seed" for name, _ in item.states)}
    return found


def last_rows_text(source: str, columns: Sequence[str]) -> str:
    """`last_rows` in SQL."""
    listed = ", ".join(map(identifier, columns)) or '* EXCLUDE ("$last")'
    return f'SELECT {listed}\nFROM {identifier(source)}\nWHERE "$last"'


def last_rows(source: str, columns: Sequence[str]) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    """The rows flagged `$last`, with these columns (none: all except the flag). It is a Call
    because that saves one statement in a run of a single record."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        rows = relations[source]
        kept = rows.filter(rows["$last"])
        return kept.select(list(columns)) if columns else kept.drop_columns(["$last"])

    return run


def _folding(
    folded: tuple[Accumulator, ...], source: str
) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        rows = relations[source]
        group = rows["$fold"].to_numpy().astype(np.int64, copy=False)
        diffs = rows[DIFF].to_numpy()
        first = np.concatenate([[True], group[1:] != group[:-1]])[: len(group)]
        leaders = rows.filter(pa.array(first, pa.bool_()))
        for item in folded:
            arguments = [_whole(rows[name]) for name in item.arguments]
            seeds = [_whole(leaders[f"{name}$seed"]) for name, _ in item.states]
            function: Any = item.fold
            states = function(group, diffs, arguments, seeds, item.call.constants)
            for (name, _), state in zip(item.states, states, strict=True):
                rows = rows.append_column(name, state)
        return rows.drop_columns(sorted(_dropped(folded)))

    return run


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else combined.chunk(0)
