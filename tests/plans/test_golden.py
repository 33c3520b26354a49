"""Golden files: SQL, then sections `--- <stage>` with what that stage prints for its last query.

Stages: `plan`, `topology`, `program`, `sink`. `make golden` rewrites the sections in place.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from millstream.catalog.catalog import Catalog
from millstream.executor.sql_script import show_program
from millstream.functions.catalogue import builtin_catalogue
from millstream.operators.compile import compile_subtopology
from millstream.plan.build import Planned, plan_query
from millstream.plan.define import check_new, create_source, create_type
from millstream.plan.show import show_plan
from millstream.plan.sinks import Client, ExistingStream, NewSource
from millstream.processors.definition import processor
from millstream.topology.show import show_topology
from millstream.topology.split import split
from millstream_parser import parse, statements
from tests.unit.service.test_processors import Silence

FOLDER = Path(__file__).parent
PARTITIONS = 4
FUNCTIONS = builtin_catalogue().with_processors([processor(Silence)])


def last_query(script: str) -> Planned:
    """The plan of the last query of a script, run without data."""
    catalog, planned = Catalog(), None
    for statement in parse(script):
        match statement:
            case statements.CreateSource():
                catalog = catalog.with_source(create_source(statement, catalog, {}))
            case statements.CreateType():
                catalog = create_type(statement, catalog)
            case statements.CreateAs():
                target = NewSource(statement.kind, statement.name, statement.properties)
                planned = _planned(statement.query, target, catalog)
                assert planned.sink is not None
                check_new(planned.sink, catalog, replacing=False)
                catalog = catalog.with_source(planned.sink)
            case statements.InsertInto():
                planned = _planned(statement.query, ExistingStream(statement.target), catalog)
            case statements.SelectStatement(query) if query is not None:
                planned = _planned(query, Client(), catalog)
            case _:
                raise AssertionError(f"not for golden files: {statement}")
    assert planned is not None
    return planned


def _planned(
    query: statements.Query, target: NewSource | ExistingStream | Client, catalog: Catalog
) -> Planned:
    return plan_query(query, catalog, target=target, properties={}, functions=FUNCTIONS)


def printed(planned: Planned, stage: str) -> str:
    """What a stage prints."""
    topology = split(planned.node, "Q", partitions=lambda _: PARTITIONS)
    match stage:
        case "plan":
            return show_plan(planned.node)
        case "topology":
            return show_topology(topology)
        case "program":
            shown = (
                show_program(
                    compile_subtopology(sub, FUNCTIONS, headers=False, cached=False), sub, FUNCTIONS
                )
                for sub in topology.subtopologies
            )
            return "\n\n".join(shown)
        case "sink":
            sink = planned.sink
            assert sink is not None
            return f"{sink.kind.value} {sink.name}: {sink.schema}"
    raise AssertionError(f"no such stage: {stage}")


def sections(text: str) -> tuple[str, list[tuple[str, str]]]:
    """The SQL of a golden file and its (stage, text) sections."""
    sql, *rest = text.split("\n--- ")
    return sql, [(part.split("\n", 1)[0], part.split("\n", 1)[1].rstrip("\n")) for part in rest]


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_golden(path: Path) -> None:
    sql, expected = sections(path.read_text())
    planned = last_query(sql)
    actual = [(stage, printed(planned, stage)) for stage, _ in expected]
    if os.environ.get("UPDATE_GOLDEN"):
        parts = "".join(f"\n--- {stage}\n{text}\n" for stage, text in actual)
        path.write_text(sql.rstrip("\n") + "\n" + parts)
    else:
        assert actual == expected
