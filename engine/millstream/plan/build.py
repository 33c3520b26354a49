"""Plans a query; `plan_query` is the package's entry point."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from millstream.catalog.catalog import Catalog
from millstream.catalog.source import Source
from millstream.functions.function import Catalogue
from millstream.model import refusals
from millstream.model.expressions import ColumnRef, Expression, TableCall, walk
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey, WindowKind
from millstream.plan import wordings
from millstream.plan.aggregation import aggregate
from millstream.plan.features import check_query_features
from millstream.plan.group_rules import check_clauses, is_aggregation
from millstream.plan.join_rules import refuse_value_formats
from millstream.plan.joins import From, materialised, read_joined, read_source
from millstream.plan.keys import Key, KeyColumn
from millstream.plan.merging import merged
from millstream.plan.nodes import (
    Aggregate,
    Deliver,
    Filter,
    Flatten,
    Node,
    Project,
    Read,
    Write,
    inputs,
)
from millstream.plan.places import placed, placed_by_name, span_of
from millstream.plan.projection import Selected, expand, project, project_all, with_expression
from millstream.plan.prune import prune
from millstream.plan.rewrite import substitute
from millstream.plan.sinks import (
    Client,
    ExistingStream,
    NewSource,
    OutputTopic,
    Target,
    check_timestamp_selected,
    existing_sink,
    fitted,
    kept_with_windows,
    new_sink,
)
from millstream.plan.sources import BindContext, functions_in, name_sources, unique
from millstream_parser import statements


@dataclass(frozen=True, slots=True)
class Planned:
    """A query ready for `split`.

    `node` is a Write or (push query) a Deliver. `sources` are those it reads, left to right.
    `sink` is the stream or table written to, None for a push query; `sink_topic` the topic to
    make for it, None where it exists (INSERT INTO).
    """

    node: Write | Deliver
    sources: tuple[Source, ...]
    sink: Source | None = None
    sink_topic: OutputTopic | None = None


def plan_query(
    query: statements.Query,
    catalog: Catalog,
    *,
    target: Target,
    properties: Mapping[str, str],
    functions: Catalogue,
    script: str = "",
) -> Planned:
    """Plan a continuous query.

    `properties` are the session's settings; `script` is the text that the spans in the query refer
    to, for messages with a position. Raises StatementError (or ConflictError) for an invalid query;
    formats are not checked.
    """
    with placed_by_name(() if isinstance(target, Client) else target.properties):
        return _planned(query, catalog, target, properties, functions, script)


def _planned(
    query: statements.Query,
    catalog: Catalog,
    target: Target,
    properties: Mapping[str, str],
    functions: Catalogue,
    script: str,
) -> Planned:
    existing = existing_sink(target, catalog) if isinstance(target, ExistingStream) else None
    branches: list[_Branch] = []
    for part in (query, *query.union):
        context = BindContext(
            name_sources(part, catalog, functions, script),
            functions,
            catalog.types,
            windowed=part.window is not None,
            script=script,
            properties=properties,
        )
        branches.append(_branch(part, context, target))
    for branch in branches[1:]:
        with placed(branch.query.span, script):
            _check_union(branches[0], branch)
    sources = tuple(source for branch in branches for source in branch.sources)
    results = [_result(branch, target, properties) for branch in branches]
    results = [replace(result, schema=results[0].schema) for result in results]
    if existing is not None:
        with placed(query.span):
            results = [fitted(r, existing, r.kind, _window_of(r)) for r in results]
    node = merged(results)
    if isinstance(target, Client):
        return Planned(_delivered(prune(Deliver(node, query.limit))), sources)
    if existing is not None:
        sink, topic = existing, None
    else:
        assert isinstance(target, NewSource)
        window = _window_of(node)
        with placed(query.span), placed_by_name(target.properties):
            made = new_sink(target, node.schema, node.kind, window, sources[0], properties)
        sink, topic = made.source, kept_with_windows(made.topic, query.window)
    written = replace(_write(node, sink, existing), null_parts=len(query.partition_by) > 1)
    return Planned(_written(prune(written)), sources, sink, topic)


@dataclass(frozen=True, slots=True)
class _Branch:
    """One SELECT of a query. `node`: everything below its last projection."""

    query: statements.Query
    node: Node
    selected: tuple[Selected, ...]
    key: Key
    sources: tuple[Source, ...]


def _branch(query: statements.Query, context: BindContext, target: Target) -> _Branch:
    with placed(query.span):
        check_query_features(query, context.properties, context.script)
        _check_shape(query, target, context)
        persistent = not isinstance(target, Client)
        node, selected, key = _relation(query, context, persistent=persistent)
    return _Branch(
        query, node, selected, key, tuple(s for item in context.sources for s in item.read_sources)
    )


def _result(branch: _Branch, target: Target, properties: Mapping[str, str]) -> Project:
    """The last projection of a branch."""
    if isinstance(target, Client):
        with placed(branch.query.span):
            return project_all(branch.node, branch.selected, branch.key)
    node = branch.node
    if isinstance(target, NewSource):
        check_timestamp_selected(target, [item.name for item in branch.selected])
        node = materialised(node)  # so that pull queries can read the new table
    with placed(branch.query.span):
        return project(node, branch.selected, branch.key, properties, target.name)


def _check_union(first: _Branch, branch: _Branch) -> None:
    """Refuse a branch of UNION ALL whose rows are not of the form of the first one's."""
    if SourceKind.TABLE in (first.node.kind, branch.node.kind):
        raise wordings.UNION_UNSUPPORTED(what="tables")
    ours, theirs = (
        project_all(item.node, item.selected, item.key).schema.columns for item in (first, branch)
    )
    if [column.type for column in ours] != [column.type for column in theirs]:
        raise wordings.UNION_COLUMNS(
            ours=", ".join(str(column.type) for column in ours),
            theirs=", ".join(str(column.type) for column in theirs),
        )
    windows = {_window_of(item.node) for item in (first, branch)}
    compound = {len(item.query.partition_by) > 1 for item in (first, branch)}
    same_roles = [column.role for column in ours] == [column.role for column in theirs]
    if not same_roles or len(windows) > 1 or len(compound) > 1:
        raise wordings.UNION_KEYS(
            ours=_key_names(ours),
            theirs=_key_names(theirs),
            hint="PARTITION BY gives a stream another key; PARTITION BY NULL takes it away.",
        )


def _key_names(columns: tuple[Column, ...]) -> str:
    return ", ".join(column.name for column in columns if column.role is Role.KEY) or "none"


def _write(node: Node, sink: Source, existing: Source | None) -> Write:
    return Write(
        node,
        sink.name,
        sink.topic,
        sink.key_format,
        sink.value_format,
        _window_of(node),
        # a stream that takes its event time from a column does so when it is read
        sink.timestamp if existing is None else None,
        sink.partition_column,
    )


def _written(node: Node) -> Write:
    assert isinstance(node, Write)
    return node


def _delivered(node: Node) -> Deliver:
    assert isinstance(node, Deliver)
    return node


def _check_shape(query: statements.Query, target: Target, context: BindContext) -> None:
    script = context.script
    match target:
        case NewSource(kind):
            _refuse_limit(query, f"CREATE {kind} AS SELECT", script)
        case ExistingStream():
            _refuse_limit(query, "INSERT INTO", script)
    for item in context.sources:
        windowed_table = item.source.kind is SourceKind.TABLE and item.source.window is not None
        if windowed_table and not isinstance(target, Client):
            raise wordings.QUERY_ON_WINDOWED_TABLE(
                hint=f"{item.source.name} is one: declare a stream with WINDOW_TYPE over its "
                "topic and query that.",
            )
    if query.window is not None and not query.group_by:
        aggregates = context.catalogue.aggregate
        if not any(functions_in(item.expression, aggregates) for item in query.items):
            raise wordings.WINDOW_WITHOUT_GROUP_BY(span=span_of(query.window.span, script))
    windowed = any(item.source.window is not None for item in context.sources)
    if windowed and query.window is not None:
        raise wordings.WINDOW_ON_WINDOWED(span=span_of(query.window.span, script))
    if query.group_by and query.partition_by:
        raise wordings.PARTITIONED_AND_GROUPED(span=span_of(query.partition_by[0], script))
    if query.emit == "FINAL" and (query.window is None or not query.items):
        raise wordings.FINAL_WITHOUT_WINDOW(span=span_of(query.end, script))


def _refuse_limit(query: statements.Query, form: str, script: str) -> None:
    if query.limit is not None:
        raise wordings.LIMIT_OF_STATEMENT(form=form, span=span_of(query.end, script))


def _relation(
    query: statements.Query, context: BindContext, *, persistent: bool
) -> tuple[Node, tuple[Selected, ...], Key]:
    """Everything below the last projection, the SELECT list over it, and its key."""
    if query.group_by:
        refuse_value_formats(context, "GROUP BY")
    check_clauses(query, context)
    joined = len(context.sources) > 1
    start = read_joined(query, context) if joined else read_source(context.sources[0])
    node, context = start.node, replace(context, synthetic=start.synthetic)
    if query.where is not None:
        node = _filtered(node, context.predicate(query.where, "WHERE"))
    selected = expand(query, context, query.partition_by, persistent=persistent)
    if is_aggregation(query, context):
        if query.partition_by:
            raise wordings.PARTITIONED_AND_AGGREGATED()
        _refuse_table_functions(query, context, "aggregation")
        below = replace(start, node=node)
        return _aggregated(query, context, below, selected, persistent=persistent)
    node, selected = _flattened(node, selected, context)
    if not query.partition_by:
        return node, selected, start.key
    with placed(query.partition_by[0], context.script):
        return node, selected, _partitioned(query, context, node)


def _filtered(node: Node, predicate: Expression) -> Filter:
    """A filter; over a table it needs the previous row, to retract it."""
    return Filter(materialised(node), predicate)


def _aggregated(
    query: statements.Query,
    context: BindContext,
    below: From,
    selected: tuple[Selected, ...],
    *,
    persistent: bool,
) -> tuple[Node, tuple[Selected, ...], Key]:
    node = materialised(below.node)
    return aggregate(query, context, node, below.key, selected, persistent=persistent)


def _refuse_table_functions(query: statements.Query, context: BindContext, other: str) -> None:
    known = context.catalogue.table
    used = [name for item in query.items for name in functions_in(item.expression, known)]
    if used:
        raise refusals.TABLE_FUNCTION_AGGREGATED(
            detail=f"The query has {other} and calls {', '.join(used)}."
        )


def _flattened(
    node: Node, selected: tuple[Selected, ...], context: BindContext
) -> tuple[Node, tuple[Selected, ...]]:
    """Table functions are called in a step of their own; the SELECT list refers to its columns."""
    calls: dict[TableCall, str] = {}
    taken = set(node.schema.names)
    for item in selected:
        for part in walk(item.expression):
            if isinstance(part, TableCall) and part not in calls:
                calls[part] = unique(f"KSQL_SYNTH_{len(calls)}", taken)
    if not calls:
        return node, selected
    if node.kind is SourceKind.TABLE:
        raise wordings.TABLE_FUNCTION_ON_TABLE()
    added = tuple(Column(name, call.type) for call, name in calls.items())
    schema = Schema(node.schema.columns + added)

    def column(part: Expression) -> Expression | None:
        return ColumnRef(calls[part], part.type) if isinstance(part, TableCall) else None

    items = tuple(with_expression(i, substitute(i.expression, column)) for i in selected)
    return Flatten(node, tuple(calls), schema), items


def _partitioned(query: statements.Query, context: BindContext, node: Node) -> Key:
    """The key of PARTITION BY. It needs no repartition: the sink's topic is partitioned by key."""
    if node.kind is SourceKind.TABLE:
        raise wordings.PARTITIONED_TABLE()
    if any(item.source.window is not None for item in context.sources):
        raise wordings.WINDOWS_MOVED(hint="PARTITION BY is only supported without windows.")
    trees = query.partition_by
    if any(isinstance(tree, exp.Null) for tree in trees):
        if len(trees) > 1:
            raise wordings.PARTITIONED_BY_NULL_AND_MORE()
        return Key(())
    columns: list[KeyColumn] = []
    for tree in trees:
        expression = context.typed(tree, "PARTITION BY")
        if any(expression == column.value for column in columns):
            text = context.text(tree, qualified=True)
            span = span_of(tree, context.script)
            raise wordings.PARTITIONED_TWICE(text=text, span=span)
        name = expression.name if isinstance(expression, ColumnRef) else "KSQL_COL_0"
        text = context.text(tree, qualified=True)
        columns.append(KeyColumn(name, expression, ((expression, text),)))
    return Key(tuple(columns), "partitioning expression")


def _window_of(node: Node) -> WindowedKey | None:
    """The window of a relation's keys."""
    match node:
        case Read(source):
            return source.window
        case Aggregate(_, _, window):
            if window is None:
                return None
            size = None if window.kind is WindowKind.SESSION else window.size_ms
            sliding = window.kind is WindowKind.SLIDING
            return WindowedKey(WindowKind.HOPPING if sliding else window.kind, size)
        case _:
            below = inputs(node)
            return _window_of(below[0]) if below else None
