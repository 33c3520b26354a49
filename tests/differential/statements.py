"""The statements of a case in the dialect."""

from __future__ import annotations

from collections.abc import Mapping

from tests.differential.aggregates import CEILING
from tests.differential.describe import (
    Case,
    Group,
    Join,
    Project,
    Query,
    Source,
    Statement,
    Window,
)

_JOINS = {"INNER": "JOIN", "LEFT": "LEFT JOIN", "RIGHT": "RIGHT JOIN", "FULL": "FULL OUTER JOIN"}


def declared(source: Source) -> str:
    """CREATE STREAM or TABLE."""
    role = "KEY" if source.kind == "STREAM" else "PRIMARY KEY"
    columns = [f"{column.name} {column.type} {role}" for column in source.keys]
    columns += [f"{column.name} {column.type}" for column in source.values]
    key = f"KEY_FORMAT='{source.key_format}', " if source.keys else ""
    return (
        f"CREATE {source.kind} {source.name} ({', '.join(columns)}) WITH ({key}"
        f"KAFKA_TOPIC='{source.topic}', VALUE_FORMAT='{source.value_format}', "
        f"PARTITIONS={source.partitions});"
    )


def created(statement: Statement, given: Source) -> str:
    """CREATE … AS SELECT; `given` is the (first) source."""
    sink = statement.sink
    key = "" if not sink.keys else "KEY_FORMAT='JSON', "
    head = (
        f"CREATE {sink.kind} {sink.name} WITH (KAFKA_TOPIC='{sink.topic}', {key}"
        f"VALUE_FORMAT='JSON') AS "
    )
    return head + select(statement.query, given) + ";"


def select(query: Query, given: Source) -> str:
    """The SELECT."""
    match query:
        case Project():
            return _project(query, given)
        case Group():
            return _group(query)
        case Join():
            return _join(query)


def _project(query: Project, given: Source) -> str:
    items = (*query.keys, *query.values, *query.exploded)
    columns = ", ".join(f"{item.expression.text()} AS {item.name}" for item in items)
    text = f"SELECT {columns} FROM {given.name}"
    if query.where is not None:
        text += f" WHERE {query.where.text()}"
    if query.rekeyed:
        text += f" PARTITION BY {', '.join(item.expression.text() for item in query.keys)}"
    return f"{text} EMIT CHANGES"


def _group(query: Group) -> str:
    names: Mapping[str, str] = {one.name: one.text() for one in query.aggregates}
    columns = [f"{item.expression.text()} AS {item.name}" for item in query.keys]
    columns += [f"{item.expression.text(names)} AS {item.name}" for item in query.values]
    text = f"SELECT {', '.join(columns)} FROM {query.source}"
    if query.window is not None:
        text += f" WINDOW {_window(query.window)}"
    if query.where is not None:
        text += f" WHERE {query.where.text()}"
    text += f" GROUP BY {', '.join(item.expression.text() for item in query.keys)}"
    if query.having is not None:
        text += f" HAVING {query.having.text(names)}"
    return f"{text} EMIT {'FINAL' if query.final else 'CHANGES'}"


def _window(window: Window) -> str:
    grace = "" if window.grace is None else f", GRACE PERIOD {window.grace} MILLISECONDS"
    size = f"{window.size} MILLISECONDS"
    match window.kind:
        case "TUMBLING" | "SLIDING":
            return f"{window.kind} (SIZE {size}{grace})"
        case "HOPPING":
            return f"HOPPING (SIZE {size}, ADVANCE BY {window.advance} MILLISECONDS{grace})"
        case _:
            return f"SESSION ({size}{grace})"


def _join(query: Join) -> str:
    columns = [f"{query.key_text} AS {query.key.name}"]
    columns += [f"{item.expression.text()} AS {item.name}" for item in query.values]
    first = query.sides[0]
    text = f"SELECT {', '.join(columns)} FROM {first.source} {first.alias}"
    for side in query.sides[1:]:
        text += f" {_JOINS[query.how]} {side.source} {side.alias}"
        if query.kind == "stream_stream":
            text += f" WITHIN ({query.before} MILLISECONDS, {query.after} MILLISECONDS)"
            if query.grace is not None:
                text += f" GRACE PERIOD {query.grace} MILLISECONDS"
        text += f" ON {first.on.text()} = {side.on.text()}"
    if query.where is not None:
        text += f" WHERE {query.where.text()}"
    return f"{text} EMIT CHANGES"


def script(case: Case) -> list[str]:
    """All statements of a case, in order."""
    lines = [declared(source) for source in case.sources]
    for statement in case.statements:
        query = statement.query
        name = query.sides[0].source if isinstance(query, Join) else query.source
        lines.append(created(statement, case.source(name)))
    return lines


def properties(statement: Statement, case: Case) -> dict[str, str]:
    """The session properties a statement is executed under."""
    set_ = {"auto.offset.reset": "earliest", "processing.guarantee": "exactly_once_v2"}
    if isinstance(statement.query, Group) and statement.query.limited:
        set_["ksql.functions.collect_list.limit"] = str(CEILING)
        set_["ksql.functions.collect_set.limit"] = str(CEILING)
    if case.running.cached:
        set_["cache.max.bytes.buffering"] = "1000000"
    return set_
