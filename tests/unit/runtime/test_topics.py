"""A query stops when one of its topics is another one than it was made for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.log.log import Topic
from millstream.runtime.runtime import QueryState
from tests.unit.runtime.queries import LONE, Bench


def delete(bench: Bench) -> None:
    bench.log.delete_topic("in")


def make_again(bench: Bench) -> None:
    delete(bench)
    bench.log.create_topic(Topic("in", 1))
    bench.send(7, 8, 9)


def enlarge(bench: Bench) -> None:
    noted = bench.log.topic("in")
    assert noted is not None
    bench.log._topics["in"] = Topic("in", 2, id=noted.id)


CHANGES = [
    pytest.param(delete, "E-TOPIC-REPLACED", "topic 'in' was deleted", id="deleted"),
    pytest.param(make_again, "E-TOPIC-REPLACED", "topic 'in' was deleted and made", id="again"),
    pytest.param(enlarge, "E-PARTITIONS", "topic 'in' had 1 partitions, now 2", id="enlarged"),
]


def noted(bench: Bench) -> tuple[Topic, ...]:
    found = (bench.log.topic(name) for name in ("in", "out", "changelog"))
    return tuple(topic for topic in found if topic is not None)


@pytest.mark.parametrize("running", [True, False])
@pytest.mark.parametrize(("change", "code", "text"), CHANGES)
def test_it_stops(change: Callable[[Bench], None], code: str, text: str, running: bool) -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], topics=noted(bench))
    if running:
        bench.send(7)
        bench.rest()
    change(bench)
    before = bench.rows()
    bench.rest()
    status = bench.status()
    assert (status.state, status.code) == (QueryState.ERROR, code)
    assert text in status.error
    assert bench.rows() == before


def test_without_a_change_it_runs() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], topics=noted(bench))
    bench.send(7)
    bench.rest()
    assert bench.rows() == [(7, (1, "v0"))]
