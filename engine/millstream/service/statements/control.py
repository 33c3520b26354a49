"""Executes SET, UNSET, DEFINE and UNDEFINE, and TERMINATE of a push query."""

from __future__ import annotations

from millstream.model.settings import canonical_name
from millstream.query.session import Session
from millstream.service import wordings
from millstream.service.engine import Engine
from millstream.service.results import Done
from millstream_parser.statements import ControlQuery, DefineVariable, SetProperty


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
            return Done(f"Successfully changed local property '{canonical}' to '{checked}'.")
        case DefineVariable(name, None):
            if session.variables.pop(name, None) is None:
                return Done(f"Cannot find variable with name '{name}'", changed=False)
            return Done(f"Variable {name} undefined")
        case DefineVariable(name, str(value)):
            session.variables[name] = value
            return Done(f"Variable {name} defined")
    raise AssertionError(statement)


def push_query_id(statement: ControlQuery, engine: Engine) -> str | None:
    """The id of the push query that a TERMINATE names; None for any other statement or query."""
    query_id = statement.query_id or ""
    if statement.action != "TERMINATE" or query_id in engine.catalog.queries:
        return None
    return next((id for id in engine.push_streams if id.upper() == query_id.upper()), None)


def terminate_push_query(statement: ControlQuery, engine: Engine) -> Done | None:
    """Execute TERMINATE of a push query; returns None if the statement does not name one."""
    query_id = push_query_id(statement, engine)
    if query_id is None:
        return None
    engine.push_streams[query_id].close()
    return Done(f"Query terminated: {statement.query_id}")
