"""GROUP BY: one row per key, updated by each input row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.model.schema import SourceKind, WindowKind
from millstream.model.types import Struct
from millstream.operators.accumulators import (
    Accumulator,
    accumulator,
    grouped_texts,
    result_text,
    state_columns,
)
from millstream.operators.folds import last_rows, last_rows_text, running_steps
from millstream.operators.grouping import END, START, Plan
from millstream.operators.program import Call, Sql, StateTable, Step, Upsert
from millstream.operators.relation import (
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
from millstream.operators.sessions import compile_sessions
from millstream.operators.sliding import AT, Sliding
from millstream.operators.sql import identifier, unquoted
from millstream.operators.windows import (
    closed_windows,
    expiry_of,
    grace_of,
    sliding_rows,
    windowed_rows,
)
from millstream.plan.nodes import Aggregate

P, SQ, RT, DF = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))


def compile_aggregate(
    node: Aggregate, given: SelectFragment, label: str, setting: Setting, *, old: bool
) -> SelectFragment:
    """`old`: each change is preceded by the row it replaces (-1)."""
    undo = node.input.kind is SourceKind.TABLE
    physical = dict(zip(node.schema.names, names(node.schema), strict=True))
    items = tuple(
        accumulator(physical[name], call, setting, undo=undo) for name, call in node.aggregates
    )
    part = _arguments(node, given, items, label, setting)
    if node.window is not None and node.window.kind is WindowKind.SESSION:
        return compile_sessions(node, part, items, label, setting)
    windowed = node.window is not None
    if node.window is not None:
        part = _windowed(node, part, items, label, setting)
    plan = Plan(
        node=node,
        label=label,
        items=items,
        keys=(*_key_columns(node), *((START,) if windowed else ())),
        carried=(END,) if windowed else (),
        table=state_table(node, items, label),
        undo=undo,
        old=old,
    )
    part = _updated(plan, part, setting)
    return _opened(plan, part, setting)


def _windowed(
    node: Aggregate,
    part: SelectFragment,
    items: tuple[Accumulator, ...],
    label: str,
    setting: Setting,
) -> SelectFragment:
    """The rows with the bounds of their windows."""
    window, final, closing = node.window, node.final, setting.closing
    assert window is not None
    if window.kind is not WindowKind.SLIDING:
        return windowed_rows(part, window, label, final=final, closing=closing)
    keys = state_table(node, items, label).key[:-1]
    grace = grace_of(window, final=final)
    sliding = Sliding(label, keys, items, window.size_ms, grace, quoted(setting.carried))
    return sliding_rows(part, window, sliding, final=final, closing=closing)


def _key_columns(node: Aggregate) -> tuple[str, ...]:
    columns = quoted(names(node.schema))
    count = len(node.schema.key) - (2 if node.window is not None else 0)
    return columns[:count]


def state_table(node: Aggregate, items: Sequence[Accumulator], label: str) -> StateTable:
    """Keyed by the grouping columns and the window's start."""
    count = len(_key_columns(node))
    listed = list(zip(node.schema.key, names(node.schema)[: len(node.schema.key)], strict=True))
    pairs = tuple((name, duckdb_type(column.type)) for column, name in listed)
    window = node.window
    if window is None:
        return StateTable(label, pairs, tuple(state_columns(items)))
    return StateTable(
        label,
        pairs[: count + 1],
        (*pairs[count + 1 :], *state_columns(items)),
        expiry=expiry_of(window, label, final=node.final),
    )


def _arguments(
    node: Aggregate,
    given: SelectFragment,
    items: Sequence[Accumulator],
    label: str,
    setting: Setting,
) -> SelectFragment:
    """The rows to aggregate, with key columns and the arguments of all aggregates."""
    part = nested(given, setting)
    keys = _key_columns(node)
    sources = quoted(names(part.schema))[: len(keys)]
    checks = [
        f"{name} IS NOT NULL"
        for name, column in zip(sources, part.schema.columns, strict=False)
        if not isinstance(column.type, Struct)
    ]
    where = (*part.where, *(c for c in (PRESENT, *checks) if c not in part.where))
    part = replace(part, where=where)
    arguments = [
        (f"an argument of {item.call.function}", argument)
        for item in items
        for argument in item.call.arguments
    ]
    part = reported(part, label, arguments, setting)
    texts = [aliased(source, key) for source, key in zip(sources, keys, strict=True)]
    for item in items:
        for name, argument in zip(item.arguments, item.call.arguments, strict=True):
            text = value_text(argument, part.schema, setting)
            texts.append(aliased(text, identifier(name)))
    for name in quoted(meta_names(setting)):
        texts.append(aliased(dict(part.meta).get(name, name), name))
    text = f"SELECT {', '.join(texts)}\n  FROM {part.source}\n  WHERE {' AND '.join(part.where)}"
    # The rows have no `$origin`, which only the joins below need.
    return replace(part, source=f"(\n  {text}\n)", columns=None, where=(), meta=(), origin=None)


def _updated(plan: Plan, part: SelectFragment, setting: Setting) -> SelectFragment:
    """Adds the steps that compute the state after each row (or each group) and store the last
    one."""
    grouped = setting.cached or plan.node.final
    by_row = not grouped or any(item.fold for item in plan.items)
    rows, last = f"{plan.label}_rows", f"{plan.label}_last"
    if not by_row:
        steps: tuple[Step, ...] = (
            Sql(last, _grouped_text(plan, part, setting), part.nodes, part.nested),
        )
    else:
        columns = () if grouped else (P, *plan.columns, *plan.states, RT)
        chosen = tuple(unquoted(name) for name in columns)
        kept, shown = last_rows(rows, chosen), last_rows_text(rows, chosen)
        first, *others = _running_steps(plan, part, rows, setting)
        steps = (
            replace(first, nodes=part.nodes, nested=part.nested),
            *others,
            Call(last, "last_of_group", kept, (rows,), shown),
        )
    source = identifier(last if grouped else rows)
    if plan.sliding and by_row:
        source = f"(SELECT * REPLACE ({AT} AS {SQ}) FROM {source} WHERE {AT} IS NOT NULL)"
    return replace(
        part,
        source=source,
        steps=(*part.steps, *steps),
        writes=(*part.writes, Upsert(plan.label, last)),
        tables=(*part.tables, plan.table),
        nodes=part.nodes[-1:],
        nested=(),
    )


def _stored(plan: Plan) -> str:
    """The join with the stored states."""
    types = dict(plan.table.key)
    conditions = [f"s.{P} = b.{P}"]
    for name in plan.keys:
        nested_type = "STRUCT" in types.get(name.strip('"'), "")
        conditions.append(f"s.{name} {'IS NOT DISTINCT FROM' if nested_type else '='} b.{name}")
    return f"LEFT JOIN {identifier(plan.label)} s ON {' AND '.join(conditions)}"


def _grouped_text(plan: Plan, part: SelectFragment, setting: Setting) -> str:
    texts = [text for item in plan.items for text in grouped_texts(item, setting)]
    extra = [
        f"greatest(any_value(s.{RT}), max(b.{RT})) AS {RT}",
        f"max(b.{AT if plan.sliding else SQ}) AS {SQ}",
        f"1::TINYINT AS {DF}",
    ]
    for name in quoted(setting.carried):
        extra.append(f"arg_max_null(b.{name}, b.{SQ}) AS {name}")
    if plan.old:
        extra += [
            f"any_value(s.{state}) AS {identifier(f'$old{index}')}"
            for index, state in enumerate(plan.states)
        ]
        extra.append(f'count(s.{P}) > 0 AS "$had"')
    states = [f"{text} AS {name}" for text, name in zip(texts, plan.states, strict=True)]
    listed = ",\n  ".join((plan.partition, *states, *extra))
    return f"SELECT {listed}\nFROM {part.source} b {_stored(plan)}\nGROUP BY {plan.partition}"


def _running_steps(
    plan: Plan, part: SelectFragment, rows: str, setting: Setting
) -> tuple[Sql | Call, ...]:
    extra = [
        f"b.{SQ}",
        f"b.{DF}",
        f"greatest(s.{RT}, max(b.{RT}) OVER w) AS {RT}",
    ]
    extra += [f"b.{name}" for name in quoted(setting.carried)]
    if plan.sliding:
        extra.append(f"b.{AT}")
    if plan.undo:
        extra.append(f'lead(b.{SQ}) OVER w IS NOT DISTINCT FROM b.{SQ} AS "$more"')
    if plan.old:
        extra += [
            f"s.{state} AS {identifier(f'$old{index}')}" for index, state in enumerate(plan.states)
        ]
        extra.append(f's.{P} IS NOT NULL AS "$had"')
    source = f"{part.source} b {_stored(plan)}"
    group = (P, *plan.columns)
    return running_steps(plan.items, rows, source, group, extra, setting, order=plan.order)


def _opened(plan: Plan, part: SelectFragment, setting: Setting) -> SelectFragment:
    """The result columns over the states; changes in the form that the reader needs."""
    if plan.node.final:
        part = closed_windows(plan, part, setting)
    elif plan.undo and not setting.cached:
        part = replace(part, source=f'(SELECT * FROM {part.source} WHERE NOT "$more")')
    source = _with_old(plan, part, setting) if plan.old and not plan.node.final else part.source
    results = {item.name: result_text(item) for item in plan.items}
    known = names(plan.node.schema)
    columns = tuple(results.get(name, identifier(name)) for name in known)
    meta: tuple[tuple[str, str], ...] = ()
    if not plan.node.final:
        meta = _numbering(plan, setting)
        diff = "1::TINYINT" if not plan.old else '"$change"'
        meta = (*meta, (DF, diff))
    return replace(
        part,
        schema=plan.node.schema,
        source=source,
        columns=columns,
        where=(),
        meta=meta,
        traced=False,
    )


def _numbering(plan: Plan, setting: Setting) -> tuple[tuple[str, str], ...]:
    """New numbers where one input row changes several groups, or one row represents many."""
    window = plan.node.window
    hopping = window is not None and window.kind in (WindowKind.HOPPING, WindowKind.SLIDING)
    if not (hopping or plan.undo or setting.cached):
        return ()
    order = [SQ]
    if plan.undo:
        order.append(DF)
    if hopping:
        order.append(START)
    if setting.cached:
        order += [P, *plan.columns]
    return ((SQ, f"dense_rank() OVER (ORDER BY {', '.join(order)}) - 1"),)


def _with_old(plan: Plan, part: SelectFragment, setting: Setting) -> str:
    """Each change preceded by the row it replaces, if there was one; `$change` is its diff."""
    olds = quoted(f"$old{index}" for index in range(len(plan.states)))
    kept = ", ".join((P, *plan.columns, SQ, DF, RT, *quoted(setting.carried)))
    before = part.source
    if not setting.cached:
        window = f"w AS (PARTITION BY {plan.partition} ORDER BY {plan.order})"
        lagged = [
            f"lag(b.{state}, 1, b.{old}) OVER w AS {old}"
            for state, old in zip(plan.states, olds, strict=True)
        ]
        lagged.append('lag(TRUE, 1, b."$had") OVER w AS "$had"')
        before = (
            f"(SELECT b.* REPLACE ({', '.join(lagged)})\n  FROM {part.source} b WINDOW {window})"
        )
    renamed = ", ".join(f"{old} AS {state}" for state, old in zip(plan.states, olds, strict=True))
    current = ", ".join(plan.states)
    return (
        f'(\n  SELECT {kept}, {renamed}, -1::TINYINT AS "$change" FROM {before} WHERE "$had"\n'
        f'  UNION ALL\n  SELECT {kept}, {current}, 1::TINYINT AS "$change" FROM {part.source}\n)'
    )
