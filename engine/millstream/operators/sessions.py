"""Session windows: rows of a key with gaps of at most `size_ms` between them.

Steps: number the keys; fetch their stored sessions; decide which row joins which session
(`session_plan`); compute the states, chain by chain, one generation of merges at a time; emit the
changes: deletions of the sessions that a row replaces, oldest first, then the session with the row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
import pyarrow.compute as pc

from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.operators.accumulators import (
    Accumulator,
    merged_texts,
    result_text,
    state_columns,
)
from millstream.operators.closing import closing_clock_text
from millstream.operators.folds import running_steps
from millstream.operators.grouping import END, START
from millstream.operators.program import Call, Expiry, Repeat, Sql, StateTable, Step, Upsert
from millstream.operators.relation import SelectFragment, Setting, names, quoted
from millstream.operators.session_plan import PLAN, session_plan
from millstream.operators.sql import identifier, unquoted
from millstream.operators.windows import clock_name, grace_of, timed_rows
from millstream.plan.nodes import Aggregate

P, SQ, RT, DF = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))
CHAIN, GENERATION = '"$chain"', '"$generation"'
_PLAN_COLUMNS = (
    f"SELECT {', '.join(f'NULL::BIGINT AS {name}' for name in quoted(PLAN.names))} WHERE FALSE"
)


@dataclass(frozen=True, slots=True)
class _Sessions:
    """The names that the texts are made from; `keys` and `states` are quoted columns."""

    node: Aggregate
    label: str
    items: tuple[Accumulator, ...]
    keys: tuple[str, ...]
    states: tuple[str, ...]
    gap: int
    grace: int
    carried: tuple[str, ...]

    def name(self, suffix: str) -> str:
        """The quoted name of one of the relations."""
        return identifier(f"{self.label}_{suffix}")

    def same(self, left: str, right: str) -> str:
        """Both sides have one partition and key."""
        names = (P, *self.keys)
        return " AND ".join(f"{left}.{n} IS NOT DISTINCT FROM {right}.{n}" for n in names)


def compile_sessions(
    node: Aggregate,
    part: SelectFragment,
    items: Sequence[Accumulator],
    label: str,
    setting: Setting,
) -> SelectFragment:
    """`part`: rows with key columns and arguments, `$diff` = 1."""
    window = node.window
    assert window is not None
    columns = quoted(names(node.schema))
    plan = _Sessions(
        node=node,
        label=label,
        items=tuple(items),
        keys=columns[: len(node.schema.key) - 2],
        states=quoted(name for name, _ in state_columns(items)),
        gap=window.size_ms,
        grace=grace_of(window, final=node.final),
        carried=quoted(setting.carried),
    )
    part = timed_rows(part, label)
    clock = f"{label}_clock"
    steps: tuple[Step, ...] = (
        *_structure(plan, paired=setting.cached),
        *_states(plan, setting),
        Sql(f"{label}_changes", _changes_text(plan)),
        Sql(f"{label}_last", _last_text(plan)),
        *_clocks(plan, closing=node.final and setting.closing),
    )
    part = replace(
        part,
        source=plan.name("changes"),
        steps=(*part.steps, *steps),
        writes=(*part.writes, Upsert(clock, f"{clock}_new"), _stored_last(label)),
        tables=(*part.tables, _table(plan)),
        late=(*part.late, f"{clock}_new"),
        traced=False,
    )
    return _opened(plan, part)


def _stored_last(label: str) -> Upsert:
    return Upsert(label, f"{label}_last", deletes=True)


def _table(plan: _Sessions) -> StateTable:
    schema = plan.node.schema
    pairs = tuple(
        (name, duckdb_type(column.type))
        for column, name in zip(schema.columns, names(schema), strict=True)
    )[: len(schema.key)]
    # A closed session and one that later rows create may begin at the same time.
    window = plan.node.window
    assert window is not None
    retention = max(plan.gap + plan.grace, window.retention_ms or 0)
    expiry = Expiry(unquoted(END), clock_name(plan.label), "time", retention)
    return StateTable(plan.label, pairs, tuple(state_columns(plan.items)), expiry=expiry)


def _structure(plan: _Sessions, *, paired: bool) -> tuple[Step, ...]:
    group = f"dense_rank() OVER (ORDER BY {', '.join((P, *plan.keys))}) - 1"
    rows = f'SELECT *, {group} AS "$group"\nFROM {plan.name("timed")}\nORDER BY {SQ}'
    keys = ", ".join((P, *plan.keys))
    stored = (
        f'SELECT g."$group", row_number() OVER () - 1 AS {CHAIN}, s.*\n'
        f'FROM (SELECT DISTINCT "$group", {keys} FROM {plan.name("rows")}) g\n'
        f"JOIN {identifier(plan.label)} s ON {plan.same('s', 'g')}"
    )
    rows_name, stored_name = f"{plan.label}_rows", f"{plan.label}_stored"
    call = Call(
        f"{plan.label}_plan",
        f"session_plan(gap {plan.gap} ms, grace {plan.grace} ms)",
        session_plan(rows_name, stored_name, plan.gap, plan.grace, paired=paired),
        (rows_name, stored_name),
        _PLAN_COLUMNS,
        stub=True,
    )
    return (Sql(rows_name, rows), Sql(stored_name, stored), call)


def _states(plan: _Sessions, setting: Setting) -> tuple[Step, ...]:
    """`done`: every row with the states of its session after it. Chains that begin with a merge
    (`left`) wait for the chains that they merge."""
    label = plan.label
    left, now, done, seeds = (plan.name(name) for name in ("left", "now", "done", "seeds"))
    kept = [f"b.{name}" for name in (P, *plan.keys, SQ, DF, START, END)]
    kept += [f"b.{identifier(name)}" for name in _OLD]
    kept += [f"b.{name}" for name in plan.carried]

    def running(target: str, planned: str, before: str) -> tuple[Sql | Call, ...]:
        rows = f'(SELECT * EXCLUDE ("$group", "$time", "$before") FROM {plan.name("rows")})'
        source = (
            f"(SELECT b.*, p.* EXCLUDE ({SQ})\n  FROM {rows} b JOIN {planned} p USING ({SQ})) b "
            f"LEFT JOIN {before} s ON s.{CHAIN} = b.{CHAIN}"
        )
        name = f"{label}_{target}"
        return running_steps(plan.items, name, source, (CHAIN,), kept, setting, order=f"b.{SQ}")

    first = f"(SELECT * FROM {plan.name('plan')} WHERE {GENERATION} = 0)"
    following = (
        f"(SELECT * FROM {left} WHERE {GENERATION} = (SELECT min({GENERATION}) FROM {left}))"
    )
    columns = ", ".join((CHAIN, *plan.states, *(name.removeprefix("b.") for name in kept)))
    columns += ', "$last"'
    return (
        *running("done", first, plan.name("stored")),
        Call(
            f"{label}_left",
            "merging",
            _merging(f"{label}_plan"),
            (f"{label}_plan",),
            f"SELECT * FROM {plan.name('plan')} WHERE {GENERATION} > 0",
        ),
        Repeat(
            f"{label}_left",
            (
                Sql(f"{label}_seeds", _seeds_text(plan, following)),
                *running("now", following, seeds),
                Sql(
                    f"{label}_done",
                    f"SELECT {columns} FROM {done}\nUNION ALL\nSELECT {columns} FROM {now}",
                ),
                Sql(
                    f"{label}_left",
                    f"SELECT * FROM {left}\n"
                    f"WHERE {GENERATION} > (SELECT min({GENERATION}) FROM {left})",
                ),
            ),
        ),
    )


def _merging(planned: str) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    """The planned rows of chains that begin with a merge: most runs have none."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        rows = relations[planned]
        return rows.filter(pc.greater(rows["$generation"], 0))

    return run


def _seeds_text(plan: _Sessions, following: str) -> str:
    """The states of all chains so far, and the initial states of the next generation."""
    states = ", ".join((CHAIN, *plan.states))
    done = plan.name("done")
    merged = [f"{t} AS {s}" for t, s in zip(_merged(plan), plan.states, strict=True)]
    return (
        f"WITH x AS (\n  SELECT {states} FROM {plan.name('stored')}\n"
        f"  WHERE {CHAIN} NOT IN (SELECT {CHAIN} FROM {done})\n"
        f'  UNION ALL\n  SELECT {states} FROM {done} WHERE "$last"\n)\n'
        f"SELECT {states} FROM x\nUNION ALL\nSELECT {', '.join(('m.' + CHAIN, *merged))}\n"
        f'FROM (SELECT DISTINCT {CHAIN}, "$a", "$b" FROM {following} WHERE "$a" >= 0) m\n'
        f'JOIN x a ON a.{CHAIN} = m."$a" JOIN x b ON b.{CHAIN} = m."$b"'
    )


_OLD = tuple(f"$old{side}_{name}" for side in (1, 2) for name in ("start", "end", "chain", "seq"))


def _merged(plan: _Sessions) -> tuple[str, ...]:
    return tuple(text for item in plan.items for text in merged_texts(item))


def _changes_text(plan: _Sessions) -> str:
    """Replaced sessions with their state, then the session with the row."""
    done, stored = plan.name("done"), plan.name("stored")
    shared = [*(f"d.{name}" for name in (P, *plan.keys, SQ))]
    tail = [f"d.{name}" for name in plan.carried]
    selects = []
    for side in (1, 2):
        start, end, chain, seq = (
            identifier(f"$old{side}_{n}") for n in ("start", "end", "chain", "seq")
        )
        before = [
            f"CASE WHEN d.{seq} < 0 THEN s.{state} ELSE o.{state} END AS {state}"
            for state in plan.states
        ]
        columns = [
            *shared,
            f"d.{start} AS {START}",
            f"d.{end} AS {END}",
            *before,
            f"d.{end} AS {RT}",
            f"-1::TINYINT AS {DF}",
            f'{side} AS "$place"',
            *tail,
        ]
        selects.append(
            f"SELECT {', '.join(columns)}\nFROM {done} d\n"
            f"LEFT JOIN {done} o ON o.{CHAIN} = d.{chain} AND o.{SQ} = d.{seq}\n"
            f"LEFT JOIN {stored} s ON s.{CHAIN} = d.{chain}\nWHERE d.{start} IS NOT NULL"
        )
    columns = [
        *shared,
        START,
        END,
        *plan.states,
        f"{END} AS {RT}",
        f"1::TINYINT AS {DF}",
        '3 AS "$place"',
        *tail,
    ]
    selects.append(f"SELECT {', '.join(columns)}\nFROM {done} d")
    return "\nUNION ALL\n".join(selects)


def _last_text(plan: _Sessions) -> str:
    """The last change of each (key, start, end), which the store must hold."""
    listed = ", ".join((P, *plan.keys, START, END, *plan.states, RT))
    partition = ", ".join((P, *plan.keys, START, END))
    return (
        f'SELECT {listed}, {DF} = -1 AS "$deleted"\nFROM {plan.name("changes")}\n'
        f"QUALIFY row_number() OVER (PARTITION BY {partition} "
        f'ORDER BY {SQ} DESC, "$place" DESC) = 1'
    )


def _clocks(plan: _Sessions, *, closing: bool) -> tuple[Step, ...]:
    clock, planned = f"{plan.label}_clock", (f"{plan.label}_rows", f"{plan.label}_plan")
    target = f"{clock}_moved" if closing else f"{clock}_new"
    moved = Call(target, "stream_time", _clock(*planned), planned, _clock_text(plan))
    if not closing:
        return (moved,)
    closed = f"{END} + {plan.gap + plan.grace + 1}"
    return moved, Sql(f"{clock}_new", closing_clock_text(plan.label, target, closed))


def _clock(rows: str, planned: str) -> Callable[[Mapping[str, pa.Table]], pa.Table]:
    """The stream time of each partition, and how many of its rows came too late for a session."""

    def run(relations: Mapping[str, pa.Table]) -> pa.Table:
        given = relations[rows].select([PART, SEQ, "$time", "$before"])
        known = pc.is_in(given[SEQ], value_set=relations[planned][SEQ].combine_chunks())
        given = given.append_column("late", pc.cast(pc.invert(known), pa.int64()))
        found = given.group_by(PART, use_threads=False).aggregate(
            [("$time", "max"), ("$before", "min"), ("late", "sum")]
        )
        columns = [found[name] for name in (PART, "$time_max", "$before_min", "late_sum")]
        return pa.Table.from_arrays(columns, [PART, "time", "before", "late"])

    return run


def _clock_text(plan: _Sessions) -> str:
    late = f"{SQ} NOT IN (SELECT {SQ} FROM {plan.name('plan')})"
    return (
        f'SELECT {P}, max("$time") AS "time", min("$before") AS "before",\n'
        f"  count(*) FILTER (WHERE {late}) AS late\nFROM {plan.name('rows')}\nGROUP BY {P}"
    )


def _opened(plan: _Sessions, part: SelectFragment) -> SelectFragment:
    """The result columns, and new numbers: because one record may cause several changes."""
    results = {item.name: result_text(item) for item in plan.items}
    schema = plan.node.schema
    columns = tuple(results.get(name, identifier(name)) for name in names(schema))
    meta: tuple[tuple[str, str], ...] = ((SQ, f'row_number() OVER (ORDER BY {SQ}, "$place") - 1'),)
    source = part.source
    if plan.node.final:
        meta, source = (), _closed_text(plan)
    return replace(part, schema=schema, source=source, columns=columns, where=(), meta=meta)


def _closed_text(plan: _Sessions) -> str:
    """EMIT FINAL: the sessions that stream time has closed in this run, each once."""
    last, clock = plan.name("last"), plan.name("clock_new")
    listed = ", ".join((P, *plan.keys, START, END, *plan.states, RT))
    order = ", ".join((P, END, START, *plan.keys))
    closing = plan.gap + plan.grace
    every = (
        f'SELECT {listed} FROM {last} WHERE NOT "$deleted"\n  UNION ALL\n'
        f"  SELECT {listed} FROM {identifier(plan.label)} s\n"
        f"  WHERE NOT EXISTS (FROM {last} l WHERE {plan.same('s', 'l')} AND s.{START} = l.{START} "
        f"AND s.{END} = l.{END})"
    )
    closer = "".join(
        f",\n  (SELECT arg_min_null(t.{name}, t.{SQ}) FROM {plan.name('timed')} t "
        f'WHERE t.{P} = x.{P} AND t."$time" > x.{END} + {closing}) AS {name}'
        for name in plan.carried
    )
    return (
        f"(\n  SELECT x.*, row_number() OVER (ORDER BY {order}) - 1 AS {SQ}, "
        f"1::TINYINT AS {DF}{closer}\n  FROM (\n  {every}\n  ) x JOIN {clock} c USING ({P})\n"
        f'  WHERE {END} + {closing} < c."time" AND {END} + {closing} >= c."before"\n)'
    )
