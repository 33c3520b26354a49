"""The result of statements that change something: the status of a command."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any

from millstream.command_topic.replaying import StatementOutcome
from millstream.query.results import Done
from millstream_parser import statements as s

Entity = dict[str, Any]


def command_id(statement: s.Statement, query_id: str | None) -> str:
    """type/entity/action: identifies the status of a command."""
    match statement:
        case s.CreateSource(kind, name) | s.CreateAs(kind, name):
            return f"{kind.lower()}/`{name}`/create"
        case s.InsertInto(target):
            return f"stream/`{target}`/create"
        case s.DropSource(kind, name):
            return f"{kind.lower()}/{name}/drop"
        case s.AlterSource(kind, name):
            return f"{kind.lower()}/{name}/alter"
        case s.AlterTopic(name):
            return f"topic/{name}/alter"
        case s.Replay(name):
            return f"topic/{name}/replay"
        case s.CreateType(name):
            return f"type/{name}/create"
        case s.DropType(name):
            return f"type/{name}/drop"
        case s.ControlQuery(action, wanted):
            return f"{action.lower()}/{wanted or 'ALL'}/execute"
        case s.SetProperty():
            return f"cluster/{uuid.uuid4()}/alter"
    raise TypeError(f"{type(statement).__name__} is no command")


def status(done: Done, statement: s.Statement) -> Entity:
    """The status of an executed command."""
    message = done.message
    if isinstance(statement, s.ControlQuery):
        past = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}
        message = f"Query {past[statement.action]}."
    return {"status": "SUCCESS", "message": message, "queryId": done.query_id}


def statuses_of(outcomes: Iterable[StatementOutcome]) -> dict[str, Entity]:
    """The status of commands from any instance, of any age: the last one of each id."""
    found: dict[str, Entity] = {}
    for outcome in outcomes:
        statement = outcome.statement
        command = command_id(statement, outcome.query_id)
        if outcome.reason:
            found[command] = {"status": "ERROR", "message": outcome.reason, "queryId": None}
        else:
            found[command] = status(Done(outcome.message, outcome.query_id), statement)
    return found


def current_status(text: str, command: str, state: Entity, number: int) -> Entity:
    """`number`: the sequence number of the command."""
    return {
        "@type": "currentStatus",
        "statementText": text,
        "commandId": command,
        "commandStatus": state,
        "commandSequenceNumber": number,
        "warnings": [],
    }


def warning(text: str, message: str) -> Entity:
    """A statement for which there was nothing to do."""
    return {"@type": "warning_entity", "statementText": text, "message": message, "warnings": []}


def terminated(text: str, query_id: str, done: bool) -> Entity:
    """The result of ending a push query."""
    return {
        "@type": "terminate_query",
        "statementText": text,
        "queryId": query_id,
        "wasTerminated": done,
        "warnings": [],
    }


def asserted(text: str, statement: s.AssertTopic | s.AssertSchema) -> Entity:
    """An ASSERT that holds."""
    if isinstance(statement, s.AssertTopic):
        found: Entity = {"@type": "assert_topic", "topicName": statement.topic}
    else:
        found = {
            "@type": "assert_schema",
            "subject": statement.subject,
            "id": statement.schema_id,
        }
    return {**found, "statementText": text, "exists": statement.exists, "warnings": []}
