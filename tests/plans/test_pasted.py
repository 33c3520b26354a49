"""What EXPLAIN (PROGRAM) prints runs in an empty DuckDB and gives the rows of the executor."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from sqlglot import tokenize

from millstream.executor import task_group as executors
from millstream.executor.execution import run_steps
from millstream.executor.executor import DuckDBExecutor
from millstream.executor.processors import Processors
from millstream.executor.sql_script import PREAMBLE, show_program
from millstream.functions.catalogue import builtin_catalogue
from millstream.operators.compile import OUT, compile_subtopology
from millstream.operators.program import Call, Program, Repeat, Step, Upsert
from millstream.operators.registration import node_expressions
from millstream.plan.nodes import Node, inputs
from millstream.plan.show import describe
from millstream.state.store import Session
from millstream.topology.split import split
from millstream.topology.topology import RepartitionInput, SubTopology
from tests.differential.drive import open_case
from tests.differential.generator import KINDS, case
from tests.differential.statements import script
from tests.draws import draws
from tests.plans.test_golden import FOLDER, PARTITIONS, last_query, sections
from tests.plans.trees import texts
from tests.registered import register

GOLDEN = sorted(FOLDER.glob("*.txt"))
GENERATED = 200
AT_ONCE = 20
VARIANTS = list(itertools.product((False, True), repeat=4))
"""Headers, cached, moments, exact."""
PAIRS = VARIANTS[::3]
"""Enough of them for each pair of settings to be the same and different."""
FUNCTIONS = builtin_catalogue()
STUB = re.compile("^(?:-- Python functions.*|CREATE OR REPLACE MACRO .*)\n", re.MULTILINE)


def topology(text: str) -> tuple[SubTopology, ...]:
    """The sub-topologies of the last query of a script."""
    return split(last_query(text).node, "Q", partitions=lambda _: PARTITIONS).subtopologies


def compiled(sub: SubTopology, variant: Sequence[bool]) -> tuple[Program, bool]:
    """A variant of its program, and whether to show the guarded steps."""
    headers, cached, moments, exact = variant
    program = compile_subtopology(sub, FUNCTIONS, headers=headers, cached=cached, moments=moments)
    return program, exact


def words(text: str) -> str:
    """Its tokens, without comments."""
    return "\0".join(token.text for token in tokenize(text, read="duckdb"))


def below(node: Node, ends: Sequence[Node]) -> Iterator[Node]:
    """The nodes of a tree down to these leaves."""
    yield node
    if node not in ends:
        for child in inputs(node):
            yield from below(child, ends)


def check(text: str, variants: Sequence[Sequence[bool]]) -> None:
    """The scripts of a query run, have all its statements, and name all its nodes."""
    for variant in variants:
        shown = []
        for sub in topology(text):
            program, exact = compiled(sub, variant)
            found = show_program(program, sub, FUNCTIONS, exact=exact)
            shown.append(found)
            tokens = words(found)
            for statement in texts(program.exact if exact else program.steps):
                assert words(statement) in tokens
            lines = {line.strip() for line in found.splitlines()}
            ends = [each.repartition for each in sub.inputs if isinstance(each, RepartitionInput)]
            for node in below(sub.root, ends):
                assert {f"-- {line}".strip() for line in describe(node).splitlines()} <= lines
        with duckdb.connect() as con:
            con.execute("\n\n".join((PREAMBLE, *shown, *shown)))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_golden_programs_run_in_an_empty_duckdb(path: Path) -> None:
    check(sections(path.read_text())[0], PAIRS)


@pytest.mark.parametrize("first", range(0, draws(GENERATED), AT_ONCE))
def test_generated_programs_run_in_an_empty_duckdb(first: int) -> None:
    for seed in range(first, first + AT_ONCE):
        text = "\n".join(script(case(seed, KINDS[seed % len(KINDS)])))
        check(text, [PAIRS[seed % len(PAIRS)]])


# ---- rows ---------------------------------------------------------------------------------------


@dataclass
class Runs:
    """What executors ran: of each session, in order, the steps, the inputs and all relations."""

    of: dict[int, list[tuple[Step, Mapping[str, pa.Table], dict[str, pa.Table]]]] = field(
        default_factory=dict
    )
    sessions: list[Session] = field(default_factory=list)
    """All of them, so that no other one gets the `id` of one that is closed."""

    def run(
        self,
        session: Session,
        processors: Processors,
        steps: Sequence[tuple[Step, bool]],
        given: Mapping[str, pa.Table],
    ) -> Any:
        """As `run_steps`."""
        result = run_steps(session, processors, steps, given)
        if id(session) not in self.of:
            self.sessions.append(session)
        self.of.setdefault(id(session), []).append((steps[0][0], given, result[0]))
        return result


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    found = Runs()
    monkeypatch.setattr(executors, "run_steps", found.run)
    return found


def stubs(steps: Sequence[Step]) -> bool:
    """Whether there are results that SQL cannot show."""
    return any(
        (isinstance(step, Call) and step.stub) or (isinstance(step, Repeat) and stubs(step.steps))
        for step in steps
    )


def rows(con: duckdb.DuckDBPyConnection, given: pa.Table, text: str) -> list[str]:
    """Rows of a SELECT in any order, as text. Both sides of a comparison come by the same way."""
    con.register("given", given)
    return sorted(map(repr, con.execute(text).fetchall()))


def compare(executor: DuckDBExecutor, runs: Runs) -> int:
    """Paste the script once for each run of an executor, over its inputs; how many runs had rows
    that could be compared."""
    program, sub, compared = executor.active.program, executor._sub, 0
    with duckdb.connect() as con:
        register(con, node_expressions(sub.root), FUNCTIONS)
        shown = {
            exact: STUB.sub("", show_program(program, sub, FUNCTIONS, exact=exact))
            for exact in (False, True)
        }
        con.execute(PREAMBLE)
        con.execute(shown[False])
        for first, given, relations in runs.of.get(id(executor._groups.first.session), []):
            exact = first is program.exact[0]
            steps = program.exact if exact else program.steps
            assert first is steps[0]
            if stubs(steps):
                return compared
            for name, table in given.items():
                con.execute(f'DELETE FROM "{name}"')
                con.register("given", table)
                con.execute(f'INSERT INTO "{name}" BY NAME FROM given')
            con.execute(shown[exact])
            results = [OUT, *(step.source for step in steps if isinstance(step, Upsert))]
            for name in results:
                columns = ", ".join(f'"{column}"' for column in relations[name].column_names)
                expected = rows(con, relations[name], f"SELECT {columns} FROM given")
                assert rows(con, relations[name], f'SELECT {columns} FROM "{name}"') == expected
            compared += relations[OUT].num_rows > 0
        expires = any(table.expiry is not None for table in program.tables)
        for table in program.tables if not expires else ():
            text = f'SELECT * FROM "{table.name}"'
            kept = executor._groups.first.session.connection.sql(text).to_arrow_table()
            assert rows(con, kept, text) == rows(con, kept, "SELECT * FROM given")
    return compared


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "session"])
def test_the_rows_are_those_of_the_executor(kind: str, runs: Runs) -> None:
    compared = 0
    for seed in range(4):
        with open_case(case(seed, kind), at_once=False) as engine:
            for query_id in engine.catalog.queries:
                for executor in engine.runtime.executors(query_id):
                    assert isinstance(executor, DuckDBExecutor)
                    compared += compare(executor, runs)
    assert compared, "some program is wholly in SQL and has made rows"
