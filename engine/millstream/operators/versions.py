"""The versions of a keyed row: those of the batch and the stored one before them."""

from __future__ import annotations

from dataclasses import dataclass, replace

from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.model.schema import Role, Schema
from millstream.model.types import Array, Struct
from millstream.operators.program import Sql, StateTable, Upsert
from millstream.operators.relation import SelectFragment, names, quoted
from millstream.operators.sql import identifier

P, SQ, RT, DF = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))
HAD = '"$had"'
"""Whether a row existed before a change."""
LAST = '"$last"'


def key_names(schema: Schema) -> tuple[str, ...]:
    """The quoted physical names of the key columns."""
    return _quoted(schema, key=True)


def value_names(schema: Schema) -> tuple[str, ...]:
    """The quoted physical names of the other columns."""
    return _quoted(schema, key=False)


def _quoted(schema: Schema, *, key: bool) -> tuple[str, ...]:
    pairs = zip(schema.columns, quoted(names(schema)), strict=True)
    return tuple(name for column, name in pairs if (column.role is Role.KEY) is key)


def row_table(name: str, schema: Schema) -> StateTable:
    """A state table with the columns of a schema."""
    pairs = [
        (column.role is Role.KEY, (physical, duckdb_type(column.type)))
        for column, physical in zip(schema.columns, names(schema), strict=True)
    ]
    return StateTable(
        name,
        tuple(pair for is_key, pair in pairs if is_key),
        tuple(pair for is_key, pair in pairs if not is_key),
        nullable=len(schema.key) > 1,
    )


def matched(keys: tuple[str, ...], left: str, right: str) -> str:
    """The join condition of two relations on partition and key."""
    same = "=" if len(keys) == 1 else "IS NOT DISTINCT FROM"
    checks = (f"{left}.{name} {same} {right}.{name}" for name in keys)
    return " AND ".join((f"{left}.{P} = {right}.{P}", *checks))


def same_keys(left: str, mine: Schema, right: str, theirs: Schema) -> list[str]:
    """The conditions on partition and key of an ASOF join of two relations.

    DuckDB's ASOF joins miss equal lists and structs (2.0), so those are compared as text.
    """
    checks = [f"{left}.{P} = {right}.{P}"]
    pairs = zip(mine.key, key_names(mine), key_names(theirs), strict=True)
    for column, one, other in pairs:
        text = "%s.%s::VARCHAR" if isinstance(column.type, Array | Struct) else "%s.%s"
        checks.append(f"{text % (left, one)} = {text % (right, other)}")
    return checks


def old_names(schema: Schema) -> dict[str, str]:
    """For each value column that a state table keeps the name of its value before a change."""
    return {name: identifier(f"$old{index}") for index, name in enumerate(value_names(schema))}


@dataclass(frozen=True, slots=True)
class VersionedTable:
    """How changes are combined with the state. `schema`: the key and the stored columns, all of
    them columns of the changes. `old`: the value before each change is needed. `pairs`: the changes
    may hold -1 and +1 of one number, of which the +1 counts."""

    table: str
    schema: Schema
    old: bool
    pairs: bool = False


def kept(part: SelectFragment, how: VersionedTable) -> SelectFragment:
    """Each change of a relation, marked `$last` if it is the last one of its key, and with `old`
    extended by the columns of the previous row: `$had`, `$old<i>`. The last ones are written to the
    state."""
    rows, last = f"{how.table}_rows", f"{how.table}_last"
    columns = ", ".join((P, *quoted(names(how.schema)), RT))
    stored = f'SELECT {columns}, {DF} <> 1 AS "$deleted"\nFROM {identifier(rows)} WHERE {LAST}'
    return replace(
        part,
        source=identifier(rows),
        columns=None,
        where=(),
        meta=(),
        steps=(
            *part.steps,
            Sql(rows, _rows_text(part, how), part.nodes, part.nested),
            Sql(last, stored),
        ),
        writes=(*part.writes, Upsert(how.table, last, deletes=True)),
        tables=(*part.tables, row_table(how.table, how.schema)),
        nodes=part.nodes[-1:],
        nested=(),
    )


def _rows_text(part: SelectFragment, how: VersionedTable) -> str:
    keys = key_names(how.schema)
    extra, join = [f"lead(b.{SQ}) OVER w IS NULL AS {LAST}"], ""
    if how.old:
        olds = old_names(how.schema).items()
        extra += [f"lag(b.{value}, 1, s.{value}) OVER w AS {old}" for value, old in olds]
        extra.append(f"lag(b.{DF} = 1, 1, s.{P} IS NOT NULL) OVER w AS {HAD}")
        join = f" LEFT JOIN {identifier(how.table)} s ON {matched(keys, 'b', 's')}"
    listed = ",\n  ".join(("b.*", *extra))
    where = f" WHERE {' AND '.join(part.where)}" if part.where else ""
    partition = ", ".join((P, *keys))
    one = (
        f"\n  QUALIFY row_number() OVER (PARTITION BY {partition}, {SQ} ORDER BY {DF} DESC) = 1"
        if how.pairs
        else ""
    )
    partition = ", ".join(f"b.{name}" for name in (P, *keys))
    return (
        f"SELECT {listed}\nFROM (SELECT * FROM {part.source}{where}{one}) b{join}\n"
        f"WINDOW w AS (PARTITION BY {partition} ORDER BY b.{SQ})"
    )


def known(how: VersionedTable, others: str, their_keys: tuple[str, ...]) -> str:
    """All versions of the rows whose keys (or the first columns of them) the relation `others` has:
    `$seq`: from when on (-1: from before the batch); `$live`: whether the row exists then."""
    columns = (P, *quoted(names(how.schema)), RT)
    stored = stored_versions(how.table, key_names(how.schema), columns, others, their_keys)
    return (
        f'SELECT {", ".join(columns)}, {SQ}, {DF} = 1 AS "$live"'
        f" FROM {identifier(how.table + '_rows')}\n  UNION ALL\n  {stored}"
    )


def stored_versions(
    table: str,
    keys: tuple[str, ...],
    columns: tuple[str, ...],
    others: str,
    their_keys: tuple[str, ...],
) -> str:
    """The stored rows whose keys `others` has, as versions from before the batch. An ASOF join
    sorts its input, and the whole table may be large."""
    same = " AND ".join(
        f"s.{mine} = k.{theirs}" for mine, theirs in zip(keys, their_keys, strict=False)
    )
    return (
        f"SELECT {', '.join(f's.{name}' for name in columns)}, -1, TRUE"
        f" FROM {identifier(table)} s\n  SEMI JOIN {others} k ON s.{P} = k.{P} AND {same}"
    )
