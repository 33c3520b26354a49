"""A query stops when one of its topics is another one than it was made for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from millstream.log.log import Topic
from millstream.runtime.runtime import QueryState
from tests.unit.runtime.queries import COUNT, LONE, REKEY, Bench


def delete(bench: Bench) -> None:
    bench.log.delete_topic("in")


def make_again(bench: Bench) -> None:
    delete(bench)
    bench.log.create_topic(Topic("in", 1))
    bench.send(7, 8, 9)


def enlarge(bench: Bench, name: str = "in") -> None:
    noted = bench.log.topic(name)
    assert noted is not None
    bench.log._topics[name] = Topic(name, 2, id=noted.id)


CHANGES = [
    pytest.param(delete, "E-TOPIC-REPLACED", "topic 'in' was deleted", id="deleted"),
    pytest.param(make_again, "E-TOPIC-REPLACED", "topic 'in' was deleted and made", id="again"),
    pytest.param(enlarge, "E-PARTITIONS", "topic 'in' had 1 partitions, now 2", id="enlarged"),
]


def noted(bench: Bench, *others: str) -> tuple[Topic, ...]:
    found = (bench.log.topic(name) for name in ("in", "out", "changelog", *others))
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


@pytest.mark.parametrize(
    ("topic", "why"),
    [
        ("in", "a task for each partition that there was, and none for the others"),
        ("rep", "internal topic"),
        ("changelog", "internal topic"),
        ("out", "writes each key to one partition"),
    ],
)
def test_it_says_what_a_topic_that_grew_was_for(topic: str, why: str) -> None:
    bench = Bench()
    jobs = [(job, bench.executor(job)) for job in (REKEY, COUNT)]
    bench.query(jobs, topics=noted(bench, "rep"))
    bench.send(7)
    bench.rest()
    enlarge(bench, topic)
    bench.rest()
    status = bench.status()
    assert (status.state, status.code) == (QueryState.ERROR, "E-PARTITIONS")
    assert why in status.error
    assert f"TERMINATE {status.query_id}" in status.error


def test_it_says_that_its_state_is_that_of_its_partitions() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], topics=noted(bench))
    enlarge(bench)
    bench.rest()
    assert "The state of a task is that of the keys of its partition" in bench.status().error


def test_without_a_change_it_runs() -> None:
    bench = Bench()
    bench.query([(LONE, bench.executor(LONE))], topics=noted(bench))
    bench.send(7)
    bench.rest()
    assert bench.rows() == [(7, (1, "v0"))]
