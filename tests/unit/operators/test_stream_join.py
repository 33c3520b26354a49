"""Stream-stream joins: what drawn rows of two streams give, and what is kept of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest

from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.batch import raw_batch
from millstream.model.problem import Problem
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey, WindowKind
from millstream.model.types import BIGINT, INTEGER, STRING
from millstream.operators.compile import compile_subtopology
from millstream.operators.program import Sql, Upsert
from millstream.plan.nodes import JoinKind, StreamStreamJoin, Within
from millstream.state.store import Store
from millstream.testing.drawn import Line, fetched, lines, raw, shown
from millstream.topology.topology import SubTopology
from tests.properties.hosted import read, streams_joined, subtopology

MINUTE = 60_000
GRACE = Within(MINUTE, MINUTE, MINUTE)


class Joined:
    """An executor for drawn rows: `l + k 1 @2` comes from the left, `r ...` from the right."""

    def __init__(self, sub: SubTopology) -> None:
        self.store = Store.open(":memory:")
        self.executor = DuckDBExecutor(
            self.store, "Q", sub, builtin_catalogue(), output_partitions=1
        )
        self.offsets = {"s": 0, "t": 0}
        self.problems: list[Problem] = []
        self.executor.open(0)

    def feed(self, text: str) -> list[str]:
        """Each row in a run of its own."""
        rows = []
        for line in text.splitlines():
            side, _, drawn = line.partition(" ")
            rows += self._run("s" if side == "l" else "t", lines(drawn))
        return rows

    def _run(self, side: str, rows: Sequence[Line]) -> list[str]:
        inputs = []
        for topic, offset in self.offsets.items():
            batch = raw(rows if topic == side else (), ["V"])
            inputs.append(fetched(topic, 0, batch, start=offset))
        self.offsets[side] += len(rows)
        done = self.executor.run(inputs)
        self.problems += done.problems
        self.executor.flush()
        self.executor.commit({0: 0})
        return shown(done.outputs)

    def stored(self, name: str) -> int:
        """How many rows a state table has."""
        cursor = self.store.cursor()
        ((count,),) = cursor.sql(
            f"SELECT count(*) FROM {self.store.table('Q', 0, name)}"
        ).fetchall()
        cursor.close()
        return int(count)

    def close(self) -> None:
        self.executor.close()
        self.store.close()


@pytest.fixture
def started() -> Iterator[list[Joined]]:
    running: list[Joined] = []
    yield running
    for item in running:
        item.close()


def start(started: list[Joined], join: JoinKind, within: Within) -> Joined:
    started.append(Joined(subtopology(streams_joined(join, within))))
    return started[-1]


def test_with_grace_a_row_waits_for_a_match(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.LEFT, GRACE)
    assert pairs.feed("l + a 1 @0") == []
    assert pairs.feed("r + a 2 @60000") == ["+ a 1 2 @60000"]
    assert pairs.feed("l + b 3 @330000") == []
    assert pairs.feed("l + c 4 @90000") == ["+ c 4 _ @90000"]
    assert pairs.feed("r + c 5 @90000") == []
    assert pairs.feed("r + x 6 @450000") == []
    assert pairs.feed("r + x 7 @450001") == ["+ b 3 _ @330000"]
    assert pairs.stored("join_2_waiting") == 0


def test_without_grace_a_row_leaves_at_once(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.LEFT, Within(MINUTE, MINUTE, None))
    assert pairs.feed("l + a 1 @0") == ["+ a 1 _ @0"]
    assert pairs.feed("r + a 2 @10000") == ["+ a 1 2 @10000"]


def test_the_key_comes_from_the_side_that_is_there(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.FULL, Within(5, 5, None))
    assert pairs.feed("r + a 1 @0") == ["+ a _ 1 @0"]
    assert pairs.feed("l + b 2 @0") == ["+ b 2 _ @0"]


def test_before_and_after_are_seen_from_the_left(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.INNER, Within(0, 10, None))
    assert pairs.feed("l + a 1 @100\nr + a 2 @110") == ["+ a 1 2 @110"]
    assert pairs.feed("r + a 3 @99\nr + a 4 @111") == []


def test_matches_come_by_their_time_then_by_arrival(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.INNER, Within(50, 50, None))
    pairs.feed("l + a 1 @30\nl + a 2 @20\nl + a 3 @30")
    assert pairs.feed("r + a 9 @25") == ["+ a 2 9 @25", "+ a 1 9 @30", "+ a 3 9 @30"]


def test_rows_that_wait_leave_by_their_time_then_by_arrival(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.FULL, Within(5, 5, 100))
    pairs.feed("l + a 1 @30\nr + b 2 @28\nl + c 3 @28")
    assert pairs.feed("l + d 4 @500") == ["+ b _ 2 @28", "+ c 3 _ @28", "+ a 1 _ @30"]


def test_rows_without_a_key_or_a_value_are_passed_over(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.FULL, Within(5, 5, None))
    assert pairs.feed("l + _ 1 @0\nr - a @0\nl - _ @0") == []
    assert pairs.stored("join_2_left") == pairs.stored("join_2_right") == 0


def test_rows_too_old_to_be_kept_are_counted_as_late(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.INNER, Within(5, 5, 10))
    pairs.feed("l + a 1 @100\nl + a 2 @80")
    assert not pairs.problems
    pairs.feed("l + a 3 @79")
    assert [(problem.kind, problem.count) for problem in pairs.problems] == [("LATE", 1)]
    assert pairs.feed("r + a 9 @80") == ["+ a 2 9 @80"]


def test_what_is_kept_stays_bounded(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.FULL, Within(5, 5, 10))
    for number in range(40):
        pairs.feed(f"l + a 1 @{number * 100}\nr + b 1 @{number * 100}")
    assert pairs.stored("join_2_left") <= 20
    assert pairs.stored("join_2_right") <= 20
    assert pairs.stored("join_2_waiting") == 2


def test_a_result_has_the_headers_of_the_row_that_causes_it(started: list[Joined]) -> None:
    pairs = start(started, JoinKind.FULL, Within(5, 5, 10))
    pairs.feed("l + a 1 @0\nl + b 2 @0\nr + c 3 @0")
    mark: list[dict[str, bytes | str | None]] = [{"key": "h", "value": b"x"}]
    records = [(b"a", b'{"V": 9}', 1), (b"d", b'{"V": 9}', 100)]
    given = fetched("t", 0, raw_batch([*records], [mark, mark]), start=1)  # type: ignore[list-item]
    done = pairs.executor.run([fetched("s", 0, raw((), ["V"]), start=2), given])
    assert shown(done.outputs) == ["+ a 1 9 @1", "+ b 2 _ @0", "+ c _ 3 @0"]
    assert [item.batch["headers"].to_pylist() for item in done.outputs] == [[mark] * 3]


def test_windowed_rows_meet_within_their_window() -> None:
    bounds = tuple(Column(name, BIGINT, Role.KEY) for name in ("WINDOWSTART", "WINDOWEND"))
    left, right = (
        replace(given, schema=Schema((given.schema.key[0], *bounds, given.schema.columns[1])))
        for given in (
            read("S", SourceKind.STREAM, prefix="L_"),
            read("T", SourceKind.STREAM, prefix="R_"),
        )
    )
    values = (Column("L_V", INTEGER), Column("R_V", INTEGER))
    schema = Schema((Column("L_K", STRING, Role.KEY), *bounds, *values))
    node = StreamStreamJoin(left, right, JoinKind.INNER, GRACE, schema)
    sub = subtopology(node, WindowedKey(WindowKind.TUMBLING, 10))
    found = compile_subtopology(sub, builtin_catalogue(), headers=True, cached=False)
    (text,) = [each.text for each in found.steps if isinstance(each, Sql) and "JOIN" in each.text]
    assert 'l."WINDOWSTART" = r."WINDOWSTART" AND l."WINDOWEND" = r."WINDOWEND"' in text


@pytest.mark.parametrize("join", JoinKind)
@pytest.mark.parametrize("grace", [None, 5])
def test_state_is_written_last_and_only_where_it_is_needed(
    join: JoinKind, grace: int | None
) -> None:
    sub = subtopology(streams_joined(join, Within(5, 5, grace)))
    found = compile_subtopology(sub, builtin_catalogue(), headers=False, cached=False)
    kinds = [isinstance(step, Upsert) for step in found.steps]
    assert kinds == sorted(kinds)
    waits = grace is not None and join is not JoinKind.INNER
    assert ("join_2_waiting" in {table.name for table in found.tables}) is waits
