"""GROUP BY: from rows to one row per key, and what may be selected then (reference §8, §9)."""

from __future__ import annotations

from dataclasses import replace

from sqlglot import exp

from millstream.catalog.rules import RESERVED, WINDOW_BOUNDS
from millstream.catalog.source import Format
from millstream.model.errors import StatementError
from millstream.model.expressions import AggregateCall, ColumnRef, Expression, Literal, children
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowKind
from millstream.model.types import BIGINT, BYTES, DOUBLE, INTEGER, STRING
from millstream.plan.keys import Key, KeyColumn, enumerate_words
from millstream.plan.nodes import (
    Aggregate,
    Filter,
    Named,
    Node,
    Project,
    Repartition,
    Window,
)
from millstream.plan.projection import Selected, with_expression
from millstream.plan.rewrite import substitute
from millstream.plan.sources import Surroundings, columns_in, functions_in, unique
from millstream_parser import statements

DAY_MS = 86_400_000
FORGETFUL = "millstream.emit.final.forgetful"
_KAFKA_TYPES = (INTEGER, BIGINT, DOUBLE, STRING, BYTES)


def is_aggregation(query: statements.Query, surroundings: Surroundings) -> bool:
    """Whether the query groups rows. Refuses GROUP BY and aggregates without each other."""
    known = surroundings.catalogue.aggregate
    trees = [item.expression for item in query.items]
    having = () if query.having is None else (query.having,)
    aggregates = any(functions_in(tree, known) for tree in (*trees, *having))
    if query.group_by and not aggregates:
        raise StatementError(
            "GROUP BY requires aggregate functions in either the SELECT or HAVING clause."
        )
    if query.having is not None and not query.group_by:
        raise StatementError("HAVING requires a GROUP BY clause.")
    return aggregates


def check_clauses(query: statements.Query, surroundings: Surroundings) -> None:
    """Refuse aggregates and window bounds where rows are not grouped yet."""
    known = surroundings.catalogue.aggregate
    for tree in query.group_by:
        for name in functions_in(tree, known):
            raise StatementError(
                f"GROUP BY does not support aggregate functions: {name} is an aggregate function."
            )
    for clause, trees in (
        ("WHERE", () if query.where is None else (query.where,)),
        ("PARTITION BY", query.partition_by),
    ):
        for tree in trees:
            _refuse_bounds_in_rows(tree, surroundings)
            for name in functions_in(tree, known):
                raise StatementError(
                    f"{clause} does not support aggregate functions: "
                    f"{name} is an aggregate function."
                )
    if not surroundings.windowed:
        return
    having = () if query.having is None else (query.having,)
    arguments = [
        argument
        for item in (*query.items,)
        for call in item.expression.find_all(exp.Anonymous)
        if call.name.upper() in known
        for argument in call.expressions
    ]
    for tree in (*query.group_by, *having, *arguments):
        for column in columns_in(tree):
            if column.name in WINDOW_BOUNDS and not surroundings.sources[0].has(column.name):
                raise StatementError(
                    f"Window bounds column {column.name} can only be used in the SELECT clause of "
                    "windowed aggregations"
                )


def _refuse_bounds_in_rows(tree: exp.Expression, surroundings: Surroundings) -> None:
    for column in columns_in(tree):
        bound = column.name in WINDOW_BOUNDS and surroundings.windowed
        if bound and not surroundings.resolve(column, "WHERE").has(column.name):
            raise StatementError(f"Error in WHERE expression: Unknown column {column.name}.")


def make_window(clause: statements.WindowClause | None, *, final: bool) -> Window | None:
    """The window of an aggregation with its grace and retention worked out.

    Without GRACE PERIOD a window stays open until a day after its start, with EMIT FINAL it
    closes at its end.
    """
    if clause is None:
        return None
    size = clause.size.milliseconds
    advance = clause.advance.milliseconds if clause.advance else None
    if size <= 0:
        raise StatementError("The size of a window must be greater than zero.")
    if advance is not None and not 0 < advance <= size:
        raise StatementError("ADVANCE BY must be greater than zero and not greater than SIZE.")
    default = 0 if final else max(DAY_MS - size, 0)
    grace = clause.grace.milliseconds if clause.grace else default
    retention = clause.retention.milliseconds if clause.retention else size + grace
    if retention < size + grace:
        raise StatementError(
            "RETENTION must not be shorter than the size and the grace period together: "
            f"{retention} ms are less than {size} + {grace} ms."
        )
    return Window(WindowKind[clause.kind], size, advance, grace, retention)


def aggregate(
    query: statements.Query,
    surroundings: Surroundings,
    node: Node,
    below: Key,
    selected: tuple[Selected, ...],
    *,
    persistent: bool,
) -> tuple[Node, tuple[Selected, ...], Key]:
    """The grouped relation, the SELECT list over it, and its key.

    `below` is the key of the rows that are grouped: grouping by it moves no rows.
    """
    grouping = _grouping(query, surroundings)
    having = None if query.having is None else surroundings.predicate(query.having, "HAVING")
    _refuse_ungrouped(selected, having, query, grouping, surroundings)
    if not grouping and persistent:
        used = [f for item in query.items for f in _aggregates_of(item.expression, surroundings)]
        raise StatementError(
            "Use of aggregate functions requires a GROUP BY clause. "
            f"Aggregate function(s): {', '.join(dict.fromkeys(used))}"
        )
    final = query.emit == "FINAL"
    window = make_window(query.window, final=final)
    if window is not None and surroundings.properties.get(FORGETFUL, "").lower() == "true":
        window = replace(window, forgetful=True)
    keys = _key_names(grouping, node.schema)
    keyed = _keyed(node, keys, below, surroundings)
    calls = _calls([item.expression for item in selected] + ([having] if having else []))
    _refuse_on_tables(node, calls, surroundings)
    if window is not None and window.kind is WindowKind.SESSION:
        _refuse_in_sessions(calls, surroundings)
    taken = {key.name for key in keys} | set(WINDOW_BOUNDS)
    outputs = {call: unique(f"KSQL_AGG_{i}", taken) for i, call in enumerate(calls)}
    schema = _schema(keys, window, outputs)
    named = tuple((name, _configured(call, surroundings)) for call, name in outputs.items())
    result: Node = Aggregate(keyed, named, window, final, schema)

    def over_result(part: Expression) -> Expression | None:
        if isinstance(part, AggregateCall):
            return ColumnRef(outputs[part], part.type)
        key = next((key for key in keys if key.expression == part), None)
        return None if key is None else ColumnRef(key.name, part.type)

    if having is not None:
        result = Filter(result, substitute(having, over_result))
    items = tuple(
        with_expression(item, substitute(item.expression, over_result)) for item in selected
    )
    return result, items, _result_key(query, surroundings, keys)


def _configured(call: AggregateCall, surroundings: Surroundings) -> AggregateCall:
    """The call with the session's setting that its function depends on as a last constant."""
    function = surroundings.catalogue.aggregate[call.function]
    setting = function.variants[call.variant].setting
    if not setting:
        return call
    value = int(surroundings.properties.get(setting, "-1"))
    return replace(call, constants=(*call.constants, value))


def _grouping(
    query: statements.Query, surroundings: Surroundings
) -> tuple[tuple[exp.Expression, Expression], ...]:
    result: list[tuple[exp.Expression, Expression]] = []
    for tree in query.group_by:
        expression = surroundings.typed(tree, "GROUP BY")
        if any(expression == other for _, other in result):
            text = surroundings.text(tree, qualified=True)
            raise StatementError(f"Duplicate GROUP BY expression: {text}")
        result.append((tree, expression))
    return tuple(result)


def _aggregates_of(tree: exp.Expression, surroundings: Surroundings) -> tuple[str, ...]:
    return functions_in(tree, surroundings.catalogue.aggregate)


def _refuse_ungrouped(
    selected: tuple[Selected, ...],
    having: Expression | None,
    query: statements.Query,
    grouping: tuple[tuple[exp.Expression, Expression], ...],
    surroundings: Surroundings,
) -> None:
    grouped = [expression for _, expression in grouping]
    if surroundings.windowed:
        grouped += [ColumnRef(name, BIGINT) for name in WINDOW_BOUNDS]
    advice = "Either add the column(s) to the GROUP BY or remove them from the SELECT."
    bare = [item.tree for item in selected if _is_ungrouped(item.expression, grouped)]
    if bare:
        listed = ", ".join(surroundings.text(tree, qualified=False) for tree in bare)
        raise StatementError(
            f"Non-aggregate SELECT expression(s) not part of GROUP BY: {listed}\n{advice}"
        )
    if having is not None and query.having is not None and _is_ungrouped(having, grouped):
        text = surroundings.text(query.having, qualified=False)
        raise StatementError(
            f"Non-aggregate HAVING expression not part of GROUP BY: {text}\n"
            + advice.replace("SELECT", "HAVING")
        )


def _is_ungrouped(expression: Expression, grouped: list[Expression]) -> bool:
    """Whether a value depends on single rows of a group."""
    if expression in grouped or isinstance(expression, AggregateCall):
        return False
    if isinstance(expression, ColumnRef):
        return True
    return any(_is_ungrouped(child, grouped) for child in children(expression))


def _key_names(
    grouping: tuple[tuple[exp.Expression, Expression], ...], schema: Schema
) -> tuple[Named, ...]:
    taken, result = set(schema.names), []
    for position, (_, expression) in enumerate(grouping):
        if isinstance(expression, ColumnRef) and expression.name not in RESERVED:
            name = expression.name
        else:
            name = unique(f"KSQL_KEY_{position}", taken)
            taken.add(name)
        result.append(Named(name, expression))
    if not result:
        result.append(Named(unique("KSQL_KEY_0", taken), Literal(1, INTEGER)))
    return tuple(result)


def _keyed(node: Node, keys: tuple[Named, ...], below: Key, surroundings: Surroundings) -> Node:
    """The rows by their grouping columns: moved, unless they lie by them already."""
    names = {key.name for key in keys}
    columns = tuple(Column(key.name, key.expression.type, Role.KEY) for key in keys)
    others = tuple(
        Column(column.name, column.type)
        for column in node.schema.columns
        if column.name not in names
    )
    schema = Schema(columns + others)
    if _lies_by(keys, below) and not any(s.source.window for s in surroundings.sources):
        values = tuple(ColumnRef(column.name, column.type) for column in others)
        return Project(node, tuple(key.expression for key in keys) + values, schema)
    return Repartition(node, keys, internal_format(columns), schema, drop_null_keys=True)


def _lies_by(keys: tuple[Named, ...], below: Key) -> bool:
    if len(keys) != len(below.columns):
        return False
    return all(
        any(key.expression == expression for expression, _ in column.matches)
        for key, column in zip(keys, below.columns, strict=True)
    )


def internal_format(columns: tuple[Column, ...]) -> Format:
    """The format that partitions rows inside a query: any that takes the columns will do."""
    if len(columns) == 1 and columns[0].type in _KAFKA_TYPES:
        return Format("KAFKA")
    return Format("JSON")


def _calls(expressions: list[Expression]) -> tuple[AggregateCall, ...]:
    found: dict[AggregateCall, None] = {}

    def collect(expression: Expression) -> None:
        if isinstance(expression, AggregateCall):
            found[expression] = None
            return
        for child in children(expression):
            collect(child)

    for expression in expressions:
        collect(expression)
    return tuple(found)


def _refuse_on_tables(
    node: Node, calls: tuple[AggregateCall, ...], surroundings: Surroundings
) -> None:
    if node.kind is not SourceKind.TABLE:
        return
    if surroundings.windowed:
        raise StatementError("WINDOW clause is not supported on tables, only on streams.")
    known = surroundings.catalogue.aggregate
    used = dict.fromkeys((call.function, call.variant) for call in calls)
    refused = list(dict.fromkeys(f for f, v in used if not known[f].variants[v].undo))
    if refused:
        plural = "s" if len(refused) > 1 else ""
        raise StatementError(
            f"The aggregation function{plural} {enumerate_words(refused, 'and')} cannot be "
            "applied to a table source, only to a stream source."
        )


def _refuse_in_sessions(calls: tuple[AggregateCall, ...], surroundings: Surroundings) -> None:
    """Two sessions become one when a row falls between them, and so must their states."""
    known = surroundings.catalogue.aggregate
    for call in calls:
        variant = known[call.function].variants[call.variant]
        if variant.state and not variant.merge:
            raise StatementError(
                f"The aggregation function {call.function} cannot be used with SESSION windows: "
                "its states cannot be merged.",
                hint="Use a TUMBLING or HOPPING window.",
            )


def _schema(
    keys: tuple[Named, ...], window: Window | None, outputs: dict[AggregateCall, str]
) -> Schema:
    columns = [Column(key.name, key.expression.type, Role.KEY) for key in keys]
    if window is not None:
        columns += [Column(name, BIGINT, Role.KEY) for name in WINDOW_BOUNDS]
    columns += [Column(name, call.type) for call, name in outputs.items()]
    return Schema(tuple(columns))


def _result_key(
    query: statements.Query, surroundings: Surroundings, keys: tuple[Named, ...]
) -> Key:
    if not query.group_by:
        return Key((), "grouping expression")
    columns = []
    for key, tree in zip(keys, query.group_by, strict=True):
        reference = ColumnRef(key.name, key.expression.type)
        text = surroundings.text(tree, qualified=False)
        columns.append(KeyColumn(key.name, reference, ((reference, text),)))
    return Key(tuple(columns), "grouping expression")
