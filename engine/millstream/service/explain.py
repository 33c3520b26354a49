"""EXPLAIN: any stage between the text of a query and its DuckDB program."""

from __future__ import annotations

import pyarrow as pa

from millstream.model.errors import StatementError
from millstream.operators.compile import compile_subtopology
from millstream.operators.show import show_program
from millstream.plan.build import Planned, plan_query
from millstream.plan.show import show_plan
from millstream.plan.sinks import Client, ExistingStream, NewSource, Target
from millstream.service.engine import Engine
from millstream.service.queries import topology_of
from millstream.service.results import Rows
from millstream.service.session import Session
from millstream.topology.show import show_topology
from millstream_parser import print_statement
from millstream_parser import statements as s

STAGES = ("STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM")


def explain(statement: s.Explain, engine: Engine, session: Session) -> Rows:
    """The stages of a query: of one that is given, or of a running one by its id."""
    if statement.query_id is not None:
        planned = engine.plans.get(statement.query_id)
        if planned is None:
            raise StatementError(
                f"Query with id:{statement.query_id} does not exist, use SHOW QUERIES to view the "
                "full set of queries."
            )
        shown = engine.catalog.queries[statement.query_id].statement
        return _rows(statement.stage, shown, statement.query_id, planned, engine)
    inner = statement.statement
    if inner is None:
        raise StatementError("EXPLAIN needs a query or the id of one")
    return _rows(
        statement.stage, print_statement(inner), "EXPLAINED", _plan(inner, engine, session), engine
    )


def _plan(statement: s.Statement, engine: Engine, session: Session) -> Planned:
    target: Target
    match statement:
        case s.CreateAs(kind, name, query, properties):
            target = NewSource(kind, name, properties)
        case s.InsertInto(name, query, properties):
            target = ExistingStream(name, properties)
        case s.SelectStatement(query) if query is not None and query.emit is not None:
            target = Client()
        case _:
            raise StatementError(
                "EXPLAIN shows persistent and push queries",
                hint="Use it with CREATE … AS, INSERT INTO … SELECT or SELECT … EMIT CHANGES.",
            )
    assert query is not None
    return plan_query(
        query,
        engine.catalog,
        target=target,
        properties=session.properties,
        functions=engine.functions,
    )


def _rows(stage: str | None, text: str, query_id: str, planned: Planned, engine: Engine) -> Rows:
    stages = STAGES if stage is None else (stage,)
    shown = [(name, _stage(name, text, query_id, planned, engine)) for name in stages]
    return Rows(
        pa.table({"Stage": [name for name, _ in shown], "Text": [body for _, body in shown]})
    )


def _stage(stage: str, text: str, query_id: str, planned: Planned, engine: Engine) -> str:
    match stage:
        case "STATEMENT":
            return text
        case "PLAN":
            return show_plan(planned.node)
    topology = topology_of(engine, query_id, planned)
    if stage == "TOPOLOGY":
        return show_topology(topology)
    programs = (
        f"-- sub-topology {sub.index}\n"
        + show_program(compile_subtopology(sub, engine.functions, headers=False, cached=False))
        for sub in topology.subtopologies
    )
    return "\n\n".join(programs)
