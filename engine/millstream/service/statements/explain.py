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
from millstream.service.metrics.metrics import metrics
from millstream.service.metrics.progress import Facts
from millstream.service.queries import topology_of
from millstream.service.results import Rows
from millstream.service.session import Session
from millstream.service.statements.described import push_facts, query_facts
from millstream.topology.show import show_topology
from millstream_parser import print_statement
from millstream_parser import statements as s

STAGES = ("STATEMENT", "PLAN", "TOPOLOGY", "PROGRAM")


def explain(statement: s.Explain, engine: Engine, session: Session) -> Rows:
    """The stages of a query: of one that is given, or of a running one by its id."""
    if statement.query_id is not None:
        return _running(statement.query_id, statement.stage, engine)
    inner = statement.statement
    if inner is None:
        raise StatementError("EXPLAIN needs a query or the id of one")
    planned = plan_of(inner, engine, session)
    return _table(_stages(statement.stage, print_statement(inner), "EXPLAINED", planned, engine))


def _running(query_id: str, stage: str | None, engine: Engine) -> Rows:
    """A query that exists: without a stage, what it does comes first."""
    record, planned = engine.catalog.queries.get(query_id), engine.plans.get(query_id)
    if record is None or planned is None:
        return _pushing(query_id, engine)
    stages = _stages(stage, record.statement, query_id, planned, engine)
    if stage is None:
        stages.insert(0, ("QUERY", _text(query_facts(record, engine, metrics(engine)))))
    return _table(stages)


def _pushing(query_id: str, engine: Engine) -> Rows:
    for query in metrics(engine).queries:
        stream = engine.pushing.get(query.query_id)
        if stream is not None and query.query_id.upper() == query_id.upper():
            return _table([("QUERY", _text(push_facts(query, stream.schema)))])
    raise StatementError(
        f"Query with id:{query_id} does not exist, use SHOW QUERIES to view the full set of "
        "queries."
    )


def _text(facts: Facts) -> str:
    return "\n".join(f"{name}: {value}" for name, value in facts)


def plan_of(statement: s.Statement, engine: Engine, session: Session) -> Planned:
    """The plan of a query that would be persistent, or of a push query."""
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


def _stages(
    stage: str | None, text: str, query_id: str, planned: Planned, engine: Engine
) -> list[tuple[str, str]]:
    wanted = STAGES if stage is None else (stage,)
    return [(name, _stage(name, text, query_id, planned, engine)) for name in wanted]


def _table(shown: list[tuple[str, str]]) -> Rows:
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
