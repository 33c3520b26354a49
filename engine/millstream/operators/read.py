"""The leaves: records of a stream, changes of a table, rows of a repartition topic."""

from __future__ import annotations

from dataclasses import replace

from millstream.model.batch import DIFF, HEADERS, PART, ROWTIME, SEQ
from millstream.model.physical import duckdb_type
from millstream.model.schema import Role, Schema, SourceKind
from millstream.operators.program import Sql, StateTable, Upsert
from millstream.operators.relation import Part, Setting, names, quoted
from millstream.operators.sql import identifier
from millstream.plan.nodes import Read


def compile_read(node: Read, source: str, label: str, setting: Setting, *, old: bool) -> Part:
    """A stream passes through; a table loses records without a key and, when materialised,
    becomes pairs of the old (-1) and the new (+1) row, the old one only if `old`."""
    part = Part(node.schema, identifier(source))
    if node.kind is SourceKind.STREAM:
        return part
    keyed = " OR ".join(f"{name} IS NOT NULL" for name in key_names(node.schema))
    part = replace(part, where=(f"({keyed})",))
    return materialise(part, label, setting, old=old) if node.materialised else part


def key_names(schema: Schema) -> tuple[str, ...]:
    """The quoted physical names of the key columns."""
    pairs = zip(schema.columns, quoted(names(schema)), strict=True)
    return tuple(name for column, name in pairs if column.role is Role.KEY)


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
    part = identifier(PART)
    same = "=" if len(keys) == 1 else "IS NOT DISTINCT FROM"
    checks = (f"{left}.{name} {same} {right}.{name}" for name in keys)
    return " AND ".join((f"{left}.{part} = {right}.{part}", *checks))


def materialise(part: Part, label: str, setting: Setting, *, old: bool) -> Part:
    """The earlier row of each change comes from the batch or, for a key's first change, from the
    table of current rows. A reader that does not need old rows gets the changes as they came."""
    columns = quoted(names(part.schema))
    rows, last = f"{label}_rows", f"{label}_last"
    p, rowtime, diff = (identifier(name) for name in (PART, ROWTIME, DIFF))
    kept = (
        f'SELECT {p}, {", ".join(columns)}, {rowtime}, {diff} <> 1 AS "$deleted"\n'
        f'FROM {identifier(rows)} WHERE "$last"'
    )
    return replace(
        part,
        source=_changes(part.schema, rows, setting) if old else identifier(rows),
        where=(),
        steps=(*part.steps, Sql(rows, _rows_text(part, label, old)), Sql(last, kept)),
        writes=(*part.writes, Upsert(label, last)),
        tables=(*part.tables, row_table(label, part.schema)),
    )


def _values(schema: Schema) -> tuple[tuple[str, str], ...]:
    """(column, name of its old value) for each value column."""
    keys = key_names(schema)
    values = [name for name in quoted(names(schema)) if name not in keys]
    return tuple((name, identifier(f"$old{index}")) for index, name in enumerate(values))


def _rows_text(part: Part, label: str, old: bool) -> str:
    keys = key_names(part.schema)
    p, seq, diff = (identifier(name) for name in (PART, SEQ, DIFF))
    extra, join = [f'lead(b.{seq}) OVER w IS NULL AS "$last"'], ""
    if old:
        extra += [f"lag(b.{v}, 1, s.{v}) OVER w AS {o}" for v, o in _values(part.schema)]
        extra.append(f'lag(b.{diff} = 1, 1, s.{p} IS NOT NULL) OVER w AS "$had"')
        join = f" LEFT JOIN {identifier(label)} s ON {matched(keys, 'b', 's')}"
    listed = ",\n  ".join(("b.*", *extra))
    where = " AND ".join(part.where)
    partition = ", ".join(f"b.{name}" for name in (p, *keys))
    return (
        f"SELECT {listed}\nFROM (SELECT * FROM {part.source} WHERE {where}) b{join}\n"
        f"WINDOW w AS (PARTITION BY {partition} ORDER BY b.{seq})"
    )


def _changes(schema: Schema, rows: str, setting: Setting) -> str:
    """The pairs: old rows, then new ones and deletions of nothing."""
    p, seq, rowtime, diff = (identifier(name) for name in (PART, SEQ, ROWTIME, DIFF))
    tail = ", ".join((identifier(HEADERS),) if setting.headers else ())
    renamed = dict(_values(schema))
    columns = quoted(names(schema))
    before = ", ".join(
        f"{renamed[name]} AS {name}" if name in renamed else name for name in columns
    )
    tail = f", {tail}" if tail else ""
    return (
        f"(\n  SELECT {before}, {p}, {seq}, {rowtime}, -1::TINYINT AS {diff}{tail}\n"
        f'  FROM {identifier(rows)} WHERE "$had"\n  UNION ALL\n'
        f"  SELECT {', '.join(columns)}, {p}, {seq}, {rowtime}, {diff}{tail}\n"
        f'  FROM {identifier(rows)} WHERE {diff} = 1 OR NOT "$had"\n)'
    )
