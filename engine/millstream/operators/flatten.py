"""Table functions in SELECT: each row times the zip of the returned lists."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.batch import SEQ
from millstream.model.expressions import TableCall
from millstream.operators.relation import (
    ORIGIN,
    PRESENT,
    SelectFragment,
    Setting,
    aliased,
    meta_names,
    names,
    nested,
    quoted,
    reported,
    value_text,
)
from millstream.operators.scalar import rows_function, rows_text
from millstream.operators.sql import guarded, identifier
from millstream.plan.nodes import Flatten

POSITION = '"$position"'


def compile_flatten(
    node: Flatten, given: SelectFragment, label: str, setting: Setting
) -> SelectFragment:
    """Shorter lists are padded with NULL, a row disappears when all are empty; `$seq` is numbered
    anew because one record becomes several rows. A row whose list fails to compute is dropped, and
    so is a record without a value."""
    part = nested(given, setting)
    arguments = [("a table function", a) for call in node.calls for a in call.arguments]
    part = reported(part, label, arguments, setting)
    kept = quoted(names(part.schema))
    added = quoted(names(node.schema)[len(kept) :])
    lists = quoted(f"$list{index}" for index in range(len(node.calls)))
    meta, seq = quoted(meta_names(setting)), identifier(SEQ)
    texts = [list_text(call, part, setting) for call in node.calls]
    where = f"\n  WHERE {' AND '.join((*part.where, PRESENT))}"
    inner = (
        f"SELECT {', '.join((*kept, *meta))}, {aliased(part.origin or seq, ORIGIN)}, "
        + ", ".join(aliased(text, name) for text, name in zip(texts, lists, strict=True))
        + f"\n  FROM {part.source}{where}"
    )
    longest = f"greatest({', '.join(f'coalesce(len({name}), 0)' for name in lists)})"
    unnested = (
        f"SELECT {', '.join((*kept, *meta, ORIGIN))}, "
        + ", ".join(f"unnest({text}) AS {name}" for text, name in zip(lists, added, strict=True))
        + f", unnest(range({longest})) AS {POSITION}\n  FROM (\n  {inner}\n  )"
    )
    return replace(
        part,
        schema=node.schema,
        source=f"(\n  {unnested}\n)",
        columns=(*kept, *added),
        where=(),
        meta=((seq, f"row_number() OVER (ORDER BY {seq}, {POSITION})"),),
        traced=False,
        origin=ORIGIN,
    )


def list_text(call: TableCall, part: SelectFragment, setting: Setting) -> str:
    """The list of a table function's rows."""
    arguments = [value_text(argument, part.schema, setting) for argument in call.arguments]
    if rows_function(call, setting.catalogue) is not None:
        return rows_text(call, arguments, exact=setting.exact)
    template = setting.catalogue.table[call.function].sql
    text = template.format(*(f"({argument})" for argument in arguments))
    return guarded(text) if setting.exact else text
