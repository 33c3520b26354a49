"""The program step of aggregates that SQL cannot say exactly (see `functions.fold`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from millstream.model.batch import DIFF
from millstream.operators.accumulators import Accumulator
from millstream.operators.program import Call, Sql, Step


def fold_step(folded: Sequence[Accumulator], target: str, text: str) -> tuple[Step, ...]:
    """Steps that make `target` from the SELECT `text`, whose rows are sorted by group and order
    and have `$group`, the arguments and, named `<state>$seed`, the stored states."""
    source = f"{target}_sorted"
    label = ", ".join(item.call.function for item in folded)
    return (Sql(source, text), Call(target, label, _folding(tuple(folded), source), (source,)))


def _folding(
    folded: tuple[Accumulator, ...], source: str
) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        rows = relations[source]
        group = rows["$group"].to_numpy().astype(np.int64, copy=False)
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
        dropped = {"$group"}
        for item in folded:
            dropped |= {*item.arguments, *(f"{name}$seed" for name, _ in item.states)}
        return rows.drop_columns(sorted(dropped))

    return run


def _whole(column: pa.ChunkedArray) -> pa.Array:
    combined = column.combine_chunks()
    return combined if isinstance(combined, pa.Array) else combined.chunk(0)
