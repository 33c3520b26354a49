"""ASSERT: statements that fail when the world is not as they say (reference: statements, 16)."""

from __future__ import annotations

from millstream.model.errors import StatementError, UnavailableError
from millstream.service.engine import Engine
from millstream.service.results import Done
from millstream_parser import statements as s

AssertStatement = s.AssertTopic | s.AssertSchema | s.AssertValues | s.AssertSource


def check(statement: AssertStatement, engine: Engine) -> Done:
    """Done when the assertion holds; StatementError with code E-ASSERT when not."""
    match statement:
        case s.AssertTopic():
            return _topic(statement, engine)
        case s.AssertSchema():
            raise UnavailableError("ASSERT SCHEMA needs a schema registry, which is not configured")
        case s.AssertSource():
            return _source(statement, engine)
        case s.AssertValues():
            raise StatementError("ASSERT VALUES is a statement of the test tool")


def _topic(statement: s.AssertTopic, engine: Engine) -> Done:
    topic = engine.log.topic(statement.topic)
    if not statement.exists:
        if topic is not None:
            raise _failed(f"topic {statement.topic} exists")
        return Done(f"Topic {statement.topic} does not exist")
    if topic is None:
        raise _failed(f"topic {statement.topic} does not exist")
    actual = {"PARTITIONS": topic.partitions, "REPLICAS": topic.replicas}
    for name, value in statement.properties:
        if name not in actual:
            raise StatementError(
                f"Cannot assert unknown topic property: {name}",
                hint="Only PARTITIONS and REPLICAS can be asserted.",
            )
        if int(str(value)) != actual[name]:
            raise _failed(f"topic {statement.topic} has {name} {actual[name]}, expected {value}")
    return Done(f"Topic {statement.topic} exists")


def _source(statement: s.AssertSource, engine: Engine) -> Done:
    source = engine.catalog.source(statement.name)
    if source.kind.value != statement.kind:
        raise _failed(f"{statement.name} is a {source.kind.value}, not a {statement.kind}")
    wanted = [element.name for element in statement.elements]
    actual = list(source.schema.names)
    if wanted and sorted(wanted) != sorted(actual):
        raise _failed(f"{statement.name} has the columns {actual}, expected {wanted}")
    return Done(f"{statement.kind.capitalize()} {statement.name} is as asserted")


def _failed(reason: str) -> StatementError:
    return StatementError(f"Assertion failed: {reason}", code="E-ASSERT")
