"""Logical plans and expressions as text: what EXPLAIN prints and golden files hold."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import fields
from decimal import Decimal
from enum import Enum

from millstream.catalog.source import Format, TimestampColumn
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.expressions import (
    AggregateCall,
    Arithmetic,
    Between,
    Call,
    Case,
    Cast,
    ColumnRef,
    Compare,
    Expression,
    FieldOf,
    In,
    IsNull,
    LambdaExpression,
    LambdaRef,
    Like,
    Literal,
    Logical,
    MakeArray,
    MakeMap,
    MakeStruct,
    Negate,
    Not,
    Subscript,
    TableCall,
    Value,
)
from millstream.model.schema import Schema, SourceKind, WindowedKey
from millstream.plan.nodes import (
    Aggregate,
    Deliver,
    Filter,
    Flatten,
    ForeignKeyJoin,
    Node,
    Process,
    Project,
    Read,
    Repartition,
    StreamStreamJoin,
    SubscriptionStoreJoin,
    Window,
    Within,
    Write,
    inputs,
)


def show_plan(node: Node) -> str:
    """A plan as an indented tree, the last step first, each with its columns."""
    return "\n".join(_lines(node, 0))


def _lines(node: Node, depth: int) -> Iterator[str]:
    indent = "  " * depth
    yield f"{indent}{describe(node)}"
    yield f"{indent}  : {node.schema}"
    for below in inputs(node):
        yield from _lines(below, depth + 1)


def describe(node: Node) -> str:
    """One step in one line, without its inputs."""
    match node:
        case Read(source, _, _, _, kind, materialised):
            kept = " materialised" if materialised else ""
            return f"Read {kind.value} {source.name} [{source.topic}]{kept}"
        case Filter(_, predicate):
            return f"Filter {show(predicate)}"
        case Project(_, expressions, schema):
            named = zip(schema.names, expressions, strict=True)
            return "Project " + ", ".join(_named(name, e) for name, e in named)
        case Flatten(below, calls, schema):
            added = schema.names[len(below.schema.columns) :]
            named_calls = zip(added, calls, strict=True)
            return "Flatten " + ", ".join(_named(name, call) for name, call in named_calls)
        case Process(_, processor):
            return f"Process {processor.name} [Python, {processor.kind.value}]"
        case Repartition(_, keys, key_format, _, drop_null_keys):
            listed = ", ".join(_named(key.name, key.expression) for key in keys)
            dropped = ", without NULL keys" if drop_null_keys else ""
            return f"Repartition by {listed} [{_format(key_format)}{dropped}]"
        case Aggregate(_, aggregates, window, final):
            listed = ", ".join(_named(name, call) for name, call in aggregates)
            return f"Aggregate {listed}{_window(window)}{' EMIT FINAL' if final else ''}"
        case StreamStreamJoin(_, _, join, within):
            return f"StreamStreamJoin {join.value}{_within(within)}"
        case ForeignKeyJoin(_, _, foreign_key, key_format, join):
            key = _named(foreign_key.name, foreign_key.expression)
            return f"ForeignKeyJoin {join.value} on {key} [{_format(key_format)}]"
        case SubscriptionStoreJoin():
            return f"SubscriptionStoreJoin [{_format(node.key_format)}]"
        case Write():
            return (
                f"Write {node.kind.value} {node.name} [{node.topic}] "
                f"key {_format(node.key_format)}, value {_format(node.value_format)}"
                f"{_windowed(node.window)}{_timestamp(node.timestamp)}"
                f"{_partition(node.partition_column)}"
            )
        case Deliver(_, limit):
            return "Deliver" if limit is None else f"Deliver LIMIT {limit}"
        case _:
            return " ".join((type(node).__name__, *_settings(node)))


def _settings(node: Node) -> Iterator[str]:
    """The fields of a node that are neither inputs nor its schema."""
    for field in fields(node):
        value = getattr(node, field.name)
        if not isinstance(value, Node | Schema | SourceKind):
            yield str(value.value) if isinstance(value, Enum) else str(value)


def _named(name: str, expression: Expression) -> str:
    text = show(expression)
    return text if text == name else f"{text} AS {name}"


def _format(item: Format | None) -> str:
    if item is None:
        return "partition kept"
    wrap = {} if item.wrap is None else {"wrap": str(item.wrap).lower()}
    settings = [f"{key}={value!r}" for key, value in sorted({**item.properties, **wrap}.items())]
    return f"{item.name}({', '.join(settings)})" if settings else item.name


def _window(window: Window | None) -> str:
    if window is None:
        return ""
    advance = "" if window.advance_ms is None else f" advance {window.advance_ms}"
    return (
        f" WINDOW {window.kind.value} {window.size_ms}{advance} grace {window.grace_ms} "
        f"retention {window.retention_ms} ms"
    )


def _within(within: Within) -> str:
    grace = "" if within.grace_ms is None else f" grace {within.grace_ms}"
    return f" WITHIN ({within.before_ms}, {within.after_ms}){grace} ms"


def _windowed(window: WindowedKey | None) -> str:
    if window is None:
        return ""
    size = "" if window.size_ms is None else f" {window.size_ms} ms"
    return f", {window.kind.value} window{size}"


def _timestamp(timestamp: TimestampColumn | None) -> str:
    return "" if timestamp is None else f", time from {timestamp.name}"


def _partition(column: str | None) -> str:
    return "" if column is None else f", partition from {column}"


def _python(function: str) -> str:
    """The mark of a function of the user, whose calls cost more than those of the dialect."""
    return " [Python]" if builtin_catalogue().find(function) is None else ""


def show(expression: Expression) -> str:
    """A typed expression as text, implicit conversions included, fully parenthesised."""
    match expression:
        case ColumnRef(name) | LambdaRef(name):
            return name
        case Literal(value):
            return _literal(value)
        case Call(function, _, arguments) | TableCall(function, _, arguments):
            return f"{function}({_list(arguments)}){_python(function)}"
        case AggregateCall(function, _, arguments, constants):
            parts = [*map(show, arguments), *map(_literal, constants)]
            return f"{function}({', '.join(parts)}){_python(function)}"
        case LambdaExpression(parameters, body):
            return f"({', '.join(p.name for p in parameters)}) => {show(body)}"
        case Cast(operand, sql_type, implicit):
            return f"{'CONVERT' if implicit else 'CAST'}({show(operand)} AS {sql_type})"
        case Negate(operand):
            return f"-{show(operand)}"
        case Not(operand):
            return f"(NOT {show(operand)})"
        case Subscript(base, index):
            return f"{show(base)}[{show(index)}]"
        case FieldOf(base, name):
            return f"{show(base)}->{name}"
        case MakeArray(items):
            return f"ARRAY[{_list(items)}]"
        case MakeMap(entries):
            return f"MAP({', '.join(f'{show(k)} := {show(v)}' for k, v in entries)})"
        case MakeStruct(fields):
            return f"STRUCT({', '.join(f'{name} := {show(e)}' for name, e in fields)})"
        case _:
            return f"({_condition(expression)})"


def _condition(expression: Expression) -> str:
    match expression:
        case (
            Arithmetic(operator, left, right)
            | Compare(operator, left, right)
            | Logical(operator, left, right)
        ):
            return f"{show(left)} {operator} {show(right)}"
        case Between(operand, low, high, negated):
            return f"{show(operand)} {_not(negated)}BETWEEN {show(low)} AND {show(high)}"
        case In(operand, options, negated):
            return f"{show(operand)} {_not(negated)}IN ({_list(options)})"
        case Like(operand, pattern, escape, negated):
            ending = "" if escape is None else f" ESCAPE {_literal(escape)}"
            return f"{show(operand)} {_not(negated)}LIKE {show(pattern)}{ending}"
        case IsNull(operand, negated):
            return f"{show(operand)} IS {_not(negated)}NULL"
        case Case(branches, default):
            parts = [f"WHEN {show(test)} THEN {show(value)}" for test, value in branches]
            parts += [] if default is None else [f"ELSE {show(default)}"]
            return f"CASE {' '.join(parts)} END"
        case _:
            raise TypeError(f"no text for {expression}")


def _not(negated: bool) -> str:
    return "NOT " if negated else ""


def _list(items: tuple[Expression, ...]) -> str:
    return ", ".join(map(show, items))


def _literal(value: Value) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).upper()
        case str():
            return "'" + value.replace("'", "''") + "'"
        case bytes():
            return f"X'{value.hex()}'"
        case int() | float() | Decimal():
            return str(value)
        case datetime.date() | datetime.time():
            return f"'{value.isoformat()}'"
