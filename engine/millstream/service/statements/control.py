"""Settings and variables of a session; TERMINATE, PAUSE and RESUME."""

from __future__ import annotations

from millstream.catalog.catalog import QueryKind
from millstream.model import refusals
from millstream.model.settings import canonical_name
from millstream.service import wordings
from millstream.service.command_log.commands import Write
from millstream.service.engine import Engine
from millstream.service.results import Done
from millstream.service.session import Session
from millstream.service.statements import ending
from millstream_parser.statements import ControlQuery, DefineVariable, SetProperty


def set_property(statement: SetProperty | DefineVariable, session: Session) -> Done:
    """SET, UNSET, DEFINE and UNDEFINE."""
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


def control_query(
    statement: ControlQuery, engine: Engine, *, replaying: bool, write: Write
) -> Done:
    """TERMINATE, PAUSE or RESUME one query or all; push queries can only be terminated.

    `write` puts the statement on the command log once it is known to be right.
    """
    action, wanted = statement.action, statement.query_id
    if wanted is not None and wanted not in engine.catalog.queries:
        query_id = pushed(statement, engine)
        engine.pushing[query_id].close()
        return Done(f"Query terminated: {wanted}")
    chosen = [
        query.id
        for query in engine.catalog.queries.values()
        if query.kind is not QueryKind.SOURCE_TABLE and wanted in (None, query.id)
    ]
    if wanted is not None and not chosen:
        raise wordings.QUERY_OF_SOURCE_TABLE(wanted=wanted)
    write()
    for query_id in chosen:
        match action:
            case "TERMINATE":
                engine.catalog = engine.catalog.without_query(query_id)
                ending.end(engine, query_id, replaying=replaying)
            case "PAUSE":
                engine.paused.add(query_id)
                if not replaying:
                    engine.instance.pause(query_id)
            case _:
                engine.paused.discard(query_id)
                if not replaying:
                    engine.driver.resume(query_id)
    done = {"TERMINATE": "terminated", "PAUSE": "paused", "RESUME": "resumed"}[action]
    return Done(f"Query {done}: {', '.join(chosen) or 'none'}")


def pushed(statement: ControlQuery, engine: Engine) -> str:
    """The push query that a statement is about; StatementError where there is none to end."""
    query_id = statement.query_id or ""
    found = next((id for id in engine.pushing if id.upper() == query_id.upper()), None)
    if statement.action == "TERMINATE" and found is not None:
        return found
    raise refusals.UNKNOWN_QUERY(query=query_id, hint="SHOW QUERIES lists the running queries.")
