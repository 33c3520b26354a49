"""What sub-topologies compile to: the shape of programs."""

from __future__ import annotations

from collections.abc import Sequence

from millstream.catalog.source import Format, Source
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.expressions import AggregateCall, ColumnRef, Compare, Literal
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowKind
from millstream.model.types import BIGINT, INTEGER, STRING
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import Program, Sql, Step, Upsert
from millstream.plan.nodes import Aggregate, Filter, Node, Project, Read, Window, Write
from millstream.topology.topology import SourceInput, SubTopology

KAFKA, JSON = Format("KAFKA"), Format("JSON")
K, V = Column("K", STRING, Role.KEY), Column("V", INTEGER)
READ = Read(
    Source("S", SourceKind.STREAM, Schema((K, V)), "s", KAFKA, JSON),
    "",
    Schema((K, V)),
    ("K", "V"),
    SourceKind.STREAM,
)
COUNT = AggregateCall("COUNT", 0, (), (), BIGINT)
BOUNDS = tuple(Column(name, BIGINT, Role.KEY) for name in ("WINDOWSTART", "WINDOWEND"))


def program(node: Node, *, headers: bool = False, cached: bool = False) -> Program:
    root = Write(node, "O", "o", KAFKA, JSON, None, None)
    sub = SubTopology(0, (SourceInput(READ, "s"),), root, 1, "o", None)
    return compile_subtopology(sub, builtin_catalogue(), headers=headers, cached=cached)


def texts(steps: Sequence[Step]) -> str:
    return "\n".join(step.text for step in steps if isinstance(step, Sql))


def count(window: Window | None = None, *, final: bool = False) -> Aggregate:
    bounds = BOUNDS if window else ()
    schema = Schema((K, *bounds, Column("C", BIGINT)))
    return Aggregate(READ, (("C", COUNT),), window, final, schema)


def test_stateless_neighbours_become_one_select() -> None:
    kept = Filter(READ, Compare(">", ColumnRef("V", INTEGER), Literal(1, INTEGER)))
    found = program(Project(kept, (ColumnRef("K", STRING), ColumnRef("V", INTEGER)), READ.schema))
    assert len(found.steps) == 1
    assert found.tables == ()


def test_an_exact_program_lists_its_failing_rows() -> None:
    kept = Filter(READ, Compare(">", ColumnRef("V", INTEGER), Literal(1, INTEGER)))
    found = program(kept)
    assert found.problems == ("filter_of_in_0_problems",)
    assert "TRY" not in texts(found.steps)
    assert "TRY" in texts(found.exact)


def test_state_is_written_after_everything_that_can_fail() -> None:
    window = Window(WindowKind.TUMBLING, 10)
    for found in (program(count()), program(count(window)), program(count(window, final=True))):
        kinds = [isinstance(step, Upsert) for step in found.steps]
        assert kinds == sorted(kinds)


def test_the_replaced_row_is_computed_only_for_readers_of_it() -> None:
    test = Compare(">", ColumnRef("C", BIGINT), Literal(1, BIGINT))
    assert "lag(" not in texts(program(count()).steps)
    assert "lag(" in texts(program(Filter(count(), test)).steps)


def test_the_state_of_a_window_is_kept_by_its_start() -> None:
    (clock, table) = program(count(Window(WindowKind.TUMBLING, 10))).tables
    assert clock.plain
    assert [name for name, _ in table.key] == ["K", "WINDOWSTART"]
    assert [name for name, _ in table.value] == ["WINDOWEND", "C$0"]


def test_headers_travel_only_where_asked_for() -> None:
    assert "$headers" not in texts(program(count()).steps)
    assert "$headers" in texts(program(count(), headers=True).steps)


def test_every_step_makes_or_writes_something() -> None:
    for step in program(count(Window(WindowKind.HOPPING, 10, 5))).steps:
        assert not isinstance(step, Sql) or step.target is not None
