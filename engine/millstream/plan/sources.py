"""The sources of a query and their columns that expressions can use."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from sqlglot import exp

from millstream.catalog.catalog import Catalog
from millstream.catalog.rules import PSEUDO_COLUMNS, WINDOW_BOUNDS
from millstream.catalog.source import Source
from millstream.functions.function import Catalogue
from millstream.model import refusals
from millstream.model.errors import Span, StatementError, prefixed
from millstream.model.expressions import ColumnRef, Expression
from millstream.model.nearest import did_you_mean
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, BOOLEAN, INTEGER, SqlType
from millstream.plan import wordings
from millstream.plan.nodes import Node, Read
from millstream.plan.places import placed
from millstream.plan.processed import Processed, processed_by
from millstream.plan.scope import Scope, field_hint, location, text_hint, why_unresolved
from millstream.plan.typing import type_expression
from millstream_parser import print_expression, statements

PSEUDO_TYPES: Mapping[str, SqlType] = {
    "ROWTIME": BIGINT,
    "ROWPARTITION": INTEGER,
    "ROWOFFSET": BIGINT,
}


@dataclass(frozen=True, slots=True)
class NamedSource:
    """A source of FROM or JOIN under its alias. In joins `prefix` distinguishes its columns.

    With a `processor`, `source` has the columns of its output instead of its own.
    """

    alias: str
    source: Source
    prefix: str = ""
    processor: Processed | None = None

    @property
    def columns(self) -> tuple[Column, ...]:
        """All its columns under their own names, with window bounds and pseudo columns. Headers
        come after the value, as in ksqlDB, wherever they are declared."""
        declared = self.source.schema.columns
        pseudo = PSEUDO_COLUMNS if self.processor is None else ("ROWTIME",)
        keys = tuple(column for column in declared if column.role is Role.KEY)
        bounds = WINDOW_BOUNDS if self.source.window is not None else ()
        return (
            *keys,
            *(Column(name, BIGINT, Role.KEY) for name in bounds),
            *(Column(c.name, c.type) for c in declared if c.role is Role.VALUE),
            *(Column(c.name, c.type) for c in declared if c.role is Role.HEADERS),
            *(Column(name, PSEUDO_TYPES[name]) for name in pseudo),
        )

    @property
    def read_sources(self) -> tuple[Source, ...]:
        """The streams or tables that are read."""
        return (self.source,) if self.processor is None else self.processor.sources

    def has(self, name: str) -> bool:
        """Whether an expression may use this column."""
        return any(column.name == name for column in self.columns)

    def read(self) -> Node:
        """All of it as a relation; `prune` removes unused columns later."""
        if self.processor is not None:
            columns = (Column(self.prefix + c.name, c.type, c.role) for c in self.columns)
            return self.processor.node(Schema(tuple(columns)))
        return self._read()

    def _read(self) -> Read:
        columns = self.columns
        schema = Schema(tuple(Column(self.prefix + c.name, c.type, c.role) for c in columns))
        names = tuple(column.name for column in columns)
        return Read(self.source, self.prefix, schema, names, self.source.kind)


@dataclass(frozen=True, slots=True)
class BindContext:
    """The context in which the clauses of one query are resolved.

    `windowed` is whether the query has a WINDOW clause; `script` the text that the spans of
    expressions refer to, or nothing; `properties` the session's settings;
    `synthetic` the key of a join that no source has.
    """

    sources: tuple[NamedSource, ...]
    catalogue: Catalogue
    types: Mapping[str, SqlType]
    windowed: bool
    script: str = ""
    properties: Mapping[str, str] = field(default_factory=dict)
    synthetic: Column | None = None

    def scope(self, clause: str, *, window_bounds: bool) -> Scope:
        """The visible columns; window bounds of a windowed aggregation only where allowed."""
        listed: list[tuple[str, Schema]] = []
        physical: dict[tuple[str, str], str] = {}
        for position, item in enumerate(self.sources):
            columns = item.columns
            if window_bounds and self.windowed and position == 0:
                known = {column.name for column in columns}
                columns += tuple(Column(n, BIGINT) for n in WINDOW_BOUNDS if n not in known)
                physical |= {(item.alias, name): name for name in WINDOW_BOUNDS}
            physical |= {(item.alias, c.name): item.prefix + c.name for c in item.columns}
            listed.append((item.alias, Schema(columns)))
        if self.synthetic is not None:
            listed.append(("", Schema((self.synthetic,))))
        return Scope(
            tuple(listed),
            self.catalogue,
            self.types,
            physical,
            clause,
            aggregates=clause in ("SELECT", "HAVING"),
            tables=clause == "SELECT",
            text=self.script,
        )

    def typed(
        self, tree: exp.Expression, clause: str, *, window_bounds: bool = False
    ) -> Expression:
        """A typed expression over the relation of all sources; errors name the clause."""
        for column in columns_in(tree):
            self.resolve(column, clause)
        scope = self.scope(clause, window_bounds=window_bounds)
        try:
            return type_expression(tree, scope)
        except StatementError as error:
            start = _PREFIXES.get(clause, "")
            if error.message.startswith(start):
                raise
            raise prefixed(start, error) from error

    def predicate(self, tree: exp.Expression, clause: str) -> Expression:
        """The typed condition of WHERE or HAVING."""
        result = self.typed(tree, clause)
        if result.type != BOOLEAN:
            raise refusals.NOT_BOOLEAN(
                clause=clause,
                expression=print_expression(tree),
                type=result.type,
                span=location(tree, self.script)[0],
            )
        return result

    def resolve(self, column: exp.Column, clause: str) -> NamedSource:
        """The source that a column belongs to; raises StatementError if it belongs to none or
        several."""
        name, (span, place) = column.name, location(column, self.script)
        if column.table:
            item = next((s for s in self.sources if s.alias == column.table), None)
            if item is None:
                schemas = (item.source.schema for item in self.sources)
                hint = field_hint(column.table, name, schemas)
                raise refusals.UNKNOWN_ALIAS(place=place, alias=column.table, span=span, hint=hint)
            if item.has(name) or self._is_bound(name):
                return item
            raise refusals.UNRESOLVED_COLUMN(
                place=place,
                clause=clause,
                column=f"{column.table}.{name}",
                why="",
                hint=did_you_mean(name, (own.name for own in item.columns)),
                span=span,
            )
        owners = [item for item in self.sources if item.has(name)]
        if len(owners) > 1:
            listed = " or ".join(f"{item.alias}.{name}" for item in owners)
            raise refusals.AMBIGUOUS_COLUMN(place=place, column=name, options=listed, span=span)
        if owners:
            return owners[0]
        if self._is_bound(name) or self.is_synthetic(name):
            return self.sources[0]
        near = did_you_mean(name, (own.name for item in self.sources for own in item.columns))
        raise refusals.UNRESOLVED_COLUMN(
            place=place,
            clause=clause,
            column=name,
            why=why_unresolved(clause, name),
            hint=near or text_hint(name, span, self.script),
            span=span,
        )

    def text(self, tree: exp.Expression, *, qualified: bool) -> str:
        """An expression as messages show it, every column with its source or without."""

        def shown(node: exp.Expression) -> exp.Expression:
            if not isinstance(node, exp.Column) or isinstance(node.this, exp.Star):
                return node
            owner = next((s for s in self.sources if not node.table and s.has(node.name)), None)
            table = node.args.get("table") or (exp.to_identifier(owner.alias) if owner else None)
            return exp.Column(this=node.this.copy(), table=table if qualified else None)

        return print_expression(tree.copy().transform(shown))

    def is_ambiguous(self, name: str) -> bool:
        """Whether several sources have a column of this name."""
        return sum(item.has(name) for item in self.sources) > 1

    def is_synthetic(self, name: str) -> bool:
        """Whether a name is a join key that no source has."""
        return self.synthetic is not None and name == self.synthetic.name

    def _is_bound(self, name: str) -> bool:
        return self.windowed and name in WINDOW_BOUNDS


IN_SELECT = "Invalid Select: "
"""The start of the error message for a selected expression."""
_PREFIXES = {
    "WHERE": "Error in WHERE expression: ",
    "HAVING": "Error in HAVING expression: ",
    "SELECT": IN_SELECT,
}


def columns_in(
    tree: exp.Expression, parameters: Collection[str] = frozenset()
) -> Iterator[exp.Column]:
    """The columns that an expression uses, without lambda parameters and stars."""
    if isinstance(tree, exp.Column):
        if tree.table or tree.name not in parameters:
            yield tree
        return
    inner = parameters
    if isinstance(tree, exp.Lambda):
        inner = {*parameters, *(parameter.name for parameter in tree.expressions)}
    for child in tree.iter_expressions():
        if not isinstance(child, exp.Star | exp.DataType):
            yield from columns_in(child, inner)


def functions_in(tree: exp.Expression, known: Collection[str]) -> tuple[str, ...]:
    """The names of those functions called in the expression, outermost first, each once."""
    calls = (node.name.upper() for node in tree.walk() if isinstance(node, exp.Anonymous))
    return tuple(dict.fromkeys(name for name in calls if name in known))


def name_sources(
    query: statements.Query, catalog: Catalog, functions: Catalogue, script: str = ""
) -> tuple[NamedSource, ...]:
    """The sources of a query, left to right; raises an error for unknown and repeated ones."""
    aliased = (query.source, *(join.source for join in query.joins))
    joined = len(aliased) > 1
    result: list[NamedSource] = []
    for item in aliased:
        _refuse_range(item)
        alias = item.alias or item.name
        with placed(item.span, script):
            source = catalog.source(item.name)
            _refuse_repeated(source, alias, tuple(result), len(aliased))
            processed = processed_by(item, source, catalog, functions)
        prefix = f"{alias}_" if joined else ""
        if processed is not None:
            source = processed.made()
        result.append(NamedSource(alias, source, prefix, processed))
    return tuple(result)


def _refuse_range(source: statements.AliasedSource) -> None:
    if source.range is None:
        return
    where = source.range.span
    raise wordings.HISTORY_KEPT_RUNNING(
        source=source.name,
        span=None if where is None else Span(where.line, where.column, where.start, where.end),
        hint="Leave out EMIT CHANGES to ask for what was, or the range to ask for what comes.",
    )


def _refuse_repeated(
    source: Source, alias: str, earlier: tuple[NamedSource, ...], total: int
) -> None:
    if any(item.source.name == source.name for item in earlier):
        if total == 2:
            copied = f"CREATE STREAM other AS SELECT * FROM {source.name}; and join that."
            raise wordings.SELF_JOIN(source=source.name, hint=copied)
        raise wordings.SOURCE_JOINED_TWICE(source=source.name)
    if any(item.alias == alias for item in earlier):
        raise wordings.ALIAS_TWICE(alias=alias)


def column_reference(item: NamedSource, name: str) -> ColumnRef:
    """A column of a source, in the relation of all sources."""
    column = next(column for column in item.columns if column.name == name)
    return ColumnRef(item.prefix + name, column.type)


def column_tree(item: NamedSource, name: str) -> exp.Column:
    """A column of a source as a qualified tree of the parser."""
    return exp.Column(
        this=exp.to_identifier(name, quoted=True),
        table=exp.to_identifier(item.alias, quoted=True),
    )


def unique(name: str, taken: Collection[str]) -> str:
    """The name, or the first of `name_1`, `name_2`, … that is free."""
    candidate, count = name, 0
    while candidate in taken:
        count += 1
        candidate = f"{name}_{count}"
    return candidate
