"""Executes SET, UNSET, DEFINE and UNDEFINE, and TERMINATE of a push query."""

from __future__ import annotations

from millstream.model.settings import OF_INSTANCE, canonical_name
from millstream.push.push_queries import PushQueries
from millstream.query.results import Done
from millstream.query.session import Session
from millstream.statements import wordings
from millstream_parser.statements import ControlQuery, DefineVariable, SetProperty

NO_EFFECT = (
    "This has no effect: the property counts for a whole instance. Give it to `connect` among its "
    "properties, or to the server's configuration."
)


def set_property(statement: SetProperty | DefineVariable, session: Session) -> Done:
    """Execute SET, UNSET, DEFINE or UNDEFINE."""
    match statement:
        case SetProperty(system=True):
            raise wordings.ALTER_SYSTEM(hint=f"Use SET '{statement.name}' = '…' instead.")
        case SetProperty(name, None):
            if session.properties.pop(canonical_name(name), None) is None:
                raise wordings.NOT_SET(name=name)
            return Done(f"Successfully unset local property '{name}'.")
        case SetProperty(name, str(value)):
            canonical, checked = session.set(name, value)
            done = f"Successfully changed local property '{canonical}' to '{checked}'."
            return Done(f"{done} {NO_EFFECT}" if canonical in OF_INSTANCE else done)
        case DefineVariable(name, None):
            if session.variables.pop(name, None) is None:
                return Done(f"Cannot find variable with name '{name}'", changed=False)
            return Done(f"Variable {name} undefined")
        case DefineVariable(name, str(value)):
            session.variables[name] = value
            return Done(f"Variable {name} defined")
    raise AssertionError(statement)


def push_query_id(statement: ControlQuery, push_queries: PushQueries) -> str | None:
    """The id of the push query that a TERMINATE names; None for any other statement or query."""
    query_id = statement.query_id or ""
    if statement.action != "TERMINATE" or query_id in push_queries.registry.catalog.queries:
        return None
    return next((id for id in push_queries.streams if id.upper() == query_id.upper()), None)


def terminate_push_query(statement: ControlQuery, push_queries: PushQueries) -> Done | None:
    """Execute TERMINATE of a push query; returns None if the statement does not name one."""
    query_id = push_query_id(statement, push_queries)
    if query_id is None:
        return None
    push_queries.streams[query_id].close()
    return Done(f"Query terminated: {statement.query_id}")
