"""A relation under construction: one SELECT that stateless operators are fused into.

An operator takes and returns a `SelectFragment`: the SELECT so far, the steps that must run before
it and the state writes at the end of a run (so that a failing expression never leaves half a run in
the state).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from millstream.catalog.rules import PSEUDO_COLUMNS
from millstream.functions.function import Catalogue
from millstream.model.batch import DIFF, PART, ROWTIME, SEQ
from millstream.model.expressions import ColumnRef, Expression, Literal, column_names
from millstream.model.physical import physical_names
from millstream.model.schema import Schema
from millstream.operators.expressions import compile_expression
from millstream.operators.guards import guarded_text
from millstream.operators.program import Nested, Nodes, Sql, StateTable, Step
from millstream.operators.sql import identifier, literal

ORIGIN = identifier("$origin")
"""The number of the input record that caused the row, where `$seq` has been renumbered."""
PRESENT = f"{identifier(DIFF)} <> 0"
"""The row has a value."""


@dataclass(frozen=True, slots=True)
class Setting:
    """How a program is compiled; see `compile_subtopology`. `exact`: with guards. `carried`: the
    columns that each row carries of the record that caused it. `closing`: what waits for stream
    time is released, see `closing.py`."""

    catalogue: Catalogue
    carried: tuple[str, ...]
    cached: bool
    exact: bool
    closing: bool = False


@dataclass(frozen=True, slots=True)
class SelectFragment:
    """`SELECT columns, meta FROM source WHERE where`, after `steps`.

    `columns` holds the text of each column of `schema`, or None if `source` has them under their
    physical names. `meta` overrides the text of bookkeeping columns. `traced`: `$seq` is still that
    of the input records. `origin`: otherwise the text of that number, if known. `nodes`: those that
    are fused into the SELECT so far; the last one is the one that is being compiled. `nested`: the
    SELECTs that it reads.
    """

    schema: Schema
    source: str
    columns: tuple[str, ...] | None = None
    where: tuple[str, ...] = ()
    meta: tuple[tuple[str, str], ...] = ()
    steps: tuple[Step, ...] = ()
    writes: tuple[Step, ...] = ()
    tables: tuple[StateTable, ...] = ()
    late: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    traced: bool = True
    origin: str | None = None
    nodes: Nodes = ()
    nested: tuple[Nested, ...] = ()


def names(schema: Schema) -> tuple[str, ...]:
    """The physical names of a schema's columns."""
    return physical_names(schema.names)


def quoted(items: Iterable[str]) -> tuple[str, ...]:
    """Names as SQL identifiers."""
    return tuple(identifier(item) for item in items)


def meta_names(setting: Setting) -> tuple[str, ...]:
    """The bookkeeping columns of every relation, in order."""
    return (PART, SEQ, ROWTIME, DIFF, *setting.carried)


def select_text(part: SelectFragment, setting: Setting) -> str:
    """The SELECT of a fragment: the schema's columns, then the bookkeeping ones."""
    items = [aliased(text, name) for name, text in column_texts(part, setting).items()]
    if part.origin is not None:
        items.append(aliased(part.origin, ORIGIN))
    where = f"\nWHERE {' AND '.join(part.where)}" if part.where else ""
    return f"SELECT {', '.join(items)}\nFROM {part.source}{where}"


def column_texts(part: SelectFragment, setting: Setting) -> dict[str, str]:
    """The text of each column of a fragment under its identifier; see `select_text`."""
    columns, meta = quoted(names(part.schema)), dict(part.meta)
    texts = part.columns if part.columns is not None else columns
    bookkeeping = {name: meta.get(name, name) for name in quoted(meta_names(setting))}
    return dict(zip(columns, texts, strict=True)) | bookkeeping


def aliased(text: str, name: str) -> str:
    """`text AS name`, or the name alone where they are the same."""
    return name if text == name else f"{text} AS {name}"


def plain(part: SelectFragment) -> bool:
    """Whether all columns are plain names of the source, without computation."""
    return part.columns is None and not part.meta


def nested(part: SelectFragment, setting: Setting) -> SelectFragment:
    """The same relation, its columns plain names again."""
    if plain(part):
        return part
    # Text is only concatenated, never edited, because a line may begin inside a literal.
    text, origin = f"\n{select_text(part, setting)}\n", part.origin and ORIGIN
    return replace(
        part,
        source=f"({text})",
        columns=None,
        where=(),
        meta=(),
        origin=origin,
        nodes=part.nodes[-1:],
        nested=(*part.nested, Nested(hash(text), part.nodes[:-1])),
    )


def materialised(part: SelectFragment, name: str, setting: Setting) -> SelectFragment:
    """The same relation, run as a step under its own name."""
    step = Sql(name, select_text(part, setting), part.nodes, part.nested)
    return replace(
        part,
        source=identifier(name),
        columns=None,
        where=(),
        meta=(),
        steps=(*part.steps, step),
        origin=part.origin and ORIGIN,
        nodes=part.nodes[-1:],
        nested=(),
    )


def column_lookup(schema: Schema) -> Callable[[str], str]:
    """Maps a column's logical name to SQL; ROWTIME is always present."""
    known = dict(zip(schema.names, quoted(names(schema)), strict=True))

    def lookup(name: str) -> str:
        if name not in known and name == "ROWTIME":
            return identifier(ROWTIME)
        return known[name]

    return lookup


def value_text(expression: Expression, schema: Schema, setting: Setting) -> str:
    """An expression as a value: in exact programs NULL where it fails."""
    lookup = column_lookup(schema)
    if setting.exact and not cannot_fail(expression):
        return guarded_text(expression, setting.catalogue, lookup)
    return compile_expression(expression, setting.catalogue, exact=setting.exact, columns=lookup)


def key_text(expression: Expression, schema: Schema, setting: Setting) -> str:
    """As `value_text`, for a key column: one that reads value columns is NULL in a record without a
    value."""
    text = value_text(expression, schema, setting)
    keys = {column.name for column in schema.key}
    if all(name in keys or schema.find(name) is None for name in column_names(expression)):
        return text
    if isinstance(expression, ColumnRef) and not expression.name.endswith(PSEUDO_COLUMNS):
        return text  # decoded as NULL; pseudo columns exist without a value
    return f"CASE WHEN {PRESENT} THEN {text} END"


def cannot_fail(expression: Expression) -> bool:
    """Columns and constants need no guard."""
    return isinstance(expression, ColumnRef | Literal)


def reported(
    part: SelectFragment,
    label: str,
    expressions: Iterable[tuple[str, Expression]],
    setting: Setting,
) -> SelectFragment:
    """In exact programs: add a step that lists the rows in which one of the expressions, or a
    part of one, fails (`$part`, `$seq`, `message`). The expressions are over the present columns
    of `part`."""
    checks = [(what, e) for what, e in expressions if not cannot_fail(e)]
    if not setting.exact or not checks:
        return part
    lookup = column_lookup(part.schema)
    seq = identifier(SEQ) if part.traced else part.origin or "-1::BIGINT"
    selects = []
    for what, expression in checks:
        known = guarded_text(
            expression,
            setting.catalogue,
            lookup,
            shape="(%s) IS NULL",
            contained=False,
        )
        where = " AND ".join((*part.where, f"{known} IS NULL"))
        message = literal(f"the expression of {what} failed")
        selects.append(
            f"SELECT {identifier(PART)}, {seq} AS {identifier(SEQ)}, {message} AS message\n"
            f"FROM {part.source}\nWHERE {where}"
        )
    name = f"{label}_problems"
    return replace(
        part,
        steps=(*part.steps, Sql(name, "\nUNION ALL\n".join(selects), part.nodes, part.nested)),
        problems=(*part.problems, name),
    )
