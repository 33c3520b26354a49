"""The contents of a table, as a SELECT over the state of the query that maintains it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from millstream.functions.function import Catalogue
from millstream.model.batch import DIFF, SEQ
from millstream.model.expressions import ColumnRef
from millstream.operators.accumulators import accumulator, result_text
from millstream.operators.compile import compile_subtopology
from millstream.operators.filter import compile_filter
from millstream.operators.foreign_key import settled_rows
from millstream.operators.program import StateTable
from millstream.operators.project import compile_project
from millstream.operators.relation import (
    SelectFragment,
    Setting,
    aliased,
    column_lookup,
    column_texts,
    names,
    quoted,
)
from millstream.operators.table_join import joined_rows
from millstream.operators.windows import clock_name, emitted_rows
from millstream.plan.nodes import (
    Aggregate,
    Filter,
    Node,
    Project,
    Read,
    SubscriptionResolve,
    TableTableJoin,
)
from millstream.topology.topology import SubTopology

_META = ((f'"{SEQ}"', "0::BIGINT"), (f'"{DIFF}"', "1::TINYINT"))


@dataclass(frozen=True, slots=True)
class View:
    """A table over its state: the texts of its columns by their identifiers, including `$part` and
    `$rowtime`, for the rows of `source` that satisfy all of `where`."""

    columns: Mapping[str, str]
    source: str
    where: tuple[str, ...]

    @property
    def text(self) -> str:
        """A SELECT of all columns."""
        return self.select([(name, name) for name in self.columns])

    def select(self, items: Iterable[tuple[str, str]], *conditions: str) -> str:
        """A SELECT of some columns, each under the given identifier. More `conditions` apply to
        `source` too."""
        listed = ", ".join(aliased(self.columns[name], alias) for name, alias in items)
        where = " AND ".join((*self.where, *conditions))
        return f"SELECT {listed}\nFROM {self.source}" + (f"\nWHERE {where}" if where else "")


def table_view(sub: SubTopology, catalogue: Catalogue, table: Callable[[str], str]) -> View | None:
    """The rows of the table that the sub-topology writes, under the physical names of its schema;
    None where its state does not hold them.

    `table` gives the full SQL name of a state table.
    """
    program = compile_subtopology(sub, catalogue, headers=False, cached=False)
    setting = Setting(catalogue, carried=(), cached=False, exact=True)
    root = sub.root
    if isinstance(root, Read | Aggregate):
        return None
    part = _over_state(_input(root), program.tables, table, setting)
    return None if part is None else View(column_texts(part, setting), part.source, part.where)


def _input(node: Node) -> Node:
    match node:
        case Read() | Aggregate():
            return node
        case _:
            below: Node = node.input  # type: ignore[union-attr]
            return below


def _over_state(
    node: Node, tables: tuple[StateTable, ...], table: Callable[[str], str], setting: Setting
) -> SelectFragment | None:
    match node:
        case Read(materialised=True):
            found = _named(tables, "read_")
            return SelectFragment(node.schema, table(found), meta=_META) if found else None
        case Aggregate():
            found = _named(tables, "aggregate_")
            if found is None:
                return None
            rows = table(found)
            if node.final:
                rows = emitted_rows(node.window, rows, table(clock_name(found)))
            return _aggregated(node, rows, setting)
        case TableTableJoin():
            left, right = (_named(tables, "join_", side) for side in ("_left", "_right"))
            assert left is not None and right is not None
            return SelectFragment(
                node.schema, joined_rows(node, table(left), table(right)), meta=_META
            )
        case SubscriptionResolve():
            found = _named(tables, "settle_")
            assert found is not None
            return SelectFragment(node.schema, settled_rows(node, table(found)), meta=_META)
        case Filter():
            given = _over_state(node.input, tables, table, setting)
            return given and compile_filter(node, given, "filter", setting)
        case Project():
            given = _over_state(node.input, tables, table, setting)
            return given and _projected(node, given, setting)
    return None


def _projected(node: Project, given: SelectFragment, setting: Setting) -> SelectFragment:
    """Selected and renamed columns need no SELECT of their own: each costs DuckDB a tenth of a key
    lookup."""
    chosen = [e.name for e in node.expressions if isinstance(e, ColumnRef)]
    if len(chosen) < len(node.expressions):
        return compile_project(node, given, "project", setting)
    texts, lookup = column_texts(given, setting), column_lookup(given.schema)
    columns = tuple(texts[lookup(name)] for name in chosen)
    return replace(given, schema=node.schema, columns=columns)


def _named(tables: tuple[StateTable, ...], prefix: str, suffix: str = "") -> str | None:
    """The state table of a kind that the last step writes, if there is one."""
    names = [item.name for item in tables]
    found = [n for n in names if n.removeprefix(prefix).removesuffix(suffix).isdigit()]
    return found[-1] if found else None


def _aggregated(node: Aggregate, table: str, setting: Setting) -> SelectFragment:
    undo = node.input.kind.value == "TABLE"
    physical = dict(zip(node.schema.names, names(node.schema), strict=True))
    results = {
        physical[name]: result_text(accumulator(physical[name], call, setting, undo=undo))
        for name, call in node.aggregates
    }
    columns = tuple(
        results.get(name, text)
        for name, text in zip(names(node.schema), quoted(names(node.schema)), strict=True)
    )
    return SelectFragment(node.schema, table, columns=columns, meta=_META)
