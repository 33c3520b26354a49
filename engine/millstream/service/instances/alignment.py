"""Several tables at one moment: every query that feeds them is brought to the same offsets.

The queries are held, the ends of their sources are read at one moment, and each query reads up to
these and commits, in the order of the data. What it writes is read up to its end by those behind
it. Then a snapshot of the state shows all tables as of these offsets, and the queries go on.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager

from millstream.log.log import TopicPartition
from millstream.model.errors import StatementError, UnavailableError
from millstream.runtime.alignment import Lineage, QueryTopics, Reached
from millstream.runtime.execution import STOPPED
from millstream.runtime.spec import QueryState
from millstream.service.engine import Engine
from millstream.service.instances.asking import NOT_READY

NOT_ALIGNED = "E-SNAPSHOT"
HOLD_S = 2.0
"""How long queries are held at most."""
NEAR = 200_000
"""Queries are held only when none of them has more records to read: others go on meanwhile."""
_WAIT_S = 0.005
Positions = Mapping[TopicPartition, int]


@contextmanager
def aligned(engine: Engine, query_ids: Collection[str]) -> Iterator[Positions]:
    """Within, what these queries have made shows one moment: the offsets of their sources that
    this gives. They stand still meanwhile, so do not stay.

    UnavailableError (E-NOT-READY) where that cannot be had before HOLD_S are over, StatementError
    (E-SNAPSHOT) where a query stands still somewhere else.
    """
    lineage = engine.instance.lineage(query_ids)
    _check_near(engine, lineage)
    until = time.monotonic() + HOLD_S
    with _held(engine, lineage, until):
        ends = ends_at_one_moment(engine, _places(engine, lineage), until)
        cut = _where_they_stand_still(engine, lineage, ends)
        for query in lineage.queries:
            bring(engine, query, {**cut, **_written(engine, query, lineage)}, until)
        yield cut


def check_whole(engine: Engine, query_ids: Collection[str]) -> None:
    """StatementError (E-SNAPSHOT) unless this instance has all tasks of all queries that feed what
    these keep; UnavailableError (E-NOT-READY) where no other instance has them either."""
    if engine.routing is None or _whole_here(engine, query_ids):
        return
    if engine.routing.alone():
        raise _not_ready("tasks of the queries behind them are being moved or restored")
    raise StatementError(
        "The tables cannot be read at one moment: instances share the queries that feed them",
        hint="Ask for one table at a time, or SET 'millstream.query.pull.snapshot' = 'false' to"
        " read each partition as of its own last commit.",
        code=NOT_ALIGNED,
    )


def _whole_here(engine: Engine, query_ids: Collection[str]) -> bool:
    for query in engine.instance.lineage(query_ids).queries:
        reached = engine.instance.reached(query.query_id)
        for topic in engine.topics.get(query.query_id, ()):
            places = {(topic.name, part) for part in range(topic.partitions)}
            if topic.name in query.inputs and (
                reached is None or places - reached.positions.keys()
            ):
                return False
    return True


@contextmanager
def _held(engine: Engine, lineage: Lineage, until: float) -> Iterator[None]:
    try:
        with engine.driver.holding(lineage.query_ids, until):
            yield
    except UnavailableError as error:
        if error.code == "E-QUERY-BUSY":
            raise _not_ready(error.message) from error
        raise
    finally:
        # They have been brought forward, and what they wrote is there for others.
        engine.driver.wake()


def _places(engine: Engine, lineage: Lineage) -> list[TopicPartition]:
    """All partitions of the sources."""
    widths = {
        topic.name: topic.partitions
        for query in lineage.queries
        for topic in engine.topics.get(query.query_id, ())
        if topic.name in lineage.sources
    }
    return [(name, part) for name in sorted(widths) for part in range(widths[name])]


def _written(engine: Engine, query: QueryTopics, lineage: Lineage) -> dict[TopicPartition, int]:
    """The ends of what a query reads of those before it, which have committed."""
    inner = query.inputs - lineage.sources
    return {
        (topic.name, part): engine.log.end_offset(topic.name, part)
        for topic in engine.topics.get(query.query_id, ())
        if topic.name in inner
        for part in range(topic.partitions)
    }


def _check_near(engine: Engine, lineage: Lineage) -> None:
    """UnavailableError (E-NOT-READY) where a query has so much to read that the others would have
    to stand still for long."""
    for query in lineage.queries:
        reached = engine.instance.reached(query.query_id)
        if reached is None or reached.state in STOPPED:
            continue
        if reached.state is not QueryState.RUNNING:
            raise _not_ready(f"query {query.query_id} is being opened or restored")
        ends = engine.log.end_offsets(tuple(reached.positions))
        left = sum(max(0, end - reached.positions[place]) for place, end in ends.items())
        if left > NEAR:
            raise _not_ready(f"query {query.query_id} has some {left} records to read yet")


def ends_at_one_moment(
    engine: Engine, places: Collection[TopicPartition], until: float
) -> dict[TopicPartition, int]:
    """The ends of partitions, all as of one moment: they were the same before and after it."""
    one_topic = len({topic for topic, _ in places}) < 2
    before: dict[TopicPartition, int] = {}
    while True:
        ends = engine.log.end_offsets(places)
        complete = len(ends) == len(places)
        if complete and (one_topic or ends == before):
            return ends
        if time.monotonic() > until:
            raise _not_ready(
                "the ends of their sources cannot be read at one moment: records come too fast"
                if complete
                else "the ends of their sources cannot be read"
            )
        before = ends


def _where_they_stand_still(engine: Engine, lineage: Lineage, ends: Positions) -> Positions:
    """The offsets to read up to. Queries of one source that are paused, or have failed, can be read
    where they stand if all stand there; everything else ends where its source does."""
    standing = [
        {place: at for place, at in _positions(engine, query.query_id).items() if place in ends}
        for query in lineage.queries
        if lineage.sources & query.inputs
    ]
    one_place = bool(standing) and all(at == standing[0] for at in standing)
    stopped = any(
        reached is not None and reached.state in STOPPED
        for reached in (engine.instance.reached(query.query_id) for query in lineage.queries)
    )
    whole = one_place and standing[0].keys() == ends.keys()
    return standing[0] if stopped and whole and len(lineage.sources) == 1 else ends


def _positions(engine: Engine, query_id: str) -> Positions:
    """How far a query has come; of one without open tasks, what it has committed."""
    reached = engine.instance.reached(query_id)
    if reached is not None and reached.positions:
        return reached.positions
    return engine.log.positions(query_id)


def bring(engine: Engine, query: QueryTopics, bounds: Positions, until: float) -> None:
    """Have a query that the caller holds read up to these offsets, hand on all that comes of it,
    and commit."""
    instance, query_id = engine.instance, query.query_id
    try:
        instance.end_at(query_id, bounds)
        while True:
            reached = instance.reached(query_id)
            if reached is None:
                raise _not_ready(f"query {query_id} is not running here")
            if reached.state in STOPPED:
                _check_stopped(engine, query, reached, bounds)
                return
            if _there(engine, query, reached, bounds):
                return
            if time.monotonic() > until:
                raise _not_ready(f"query {query_id} {_behind(reached, bounds)}")
            if not engine.driver.process(query_id):
                time.sleep(_WAIT_S)
    finally:
        instance.end_at(query_id, {})


def _there(engine: Engine, query: QueryTopics, reached: Reached, bounds: Positions) -> bool:
    """Whether all of it is read and committed, and nothing is on its way within the query. Tasks
    that have left this instance meanwhile are not there."""
    if reached.state is not QueryState.RUNNING or not reached.committed:
        return False
    if any(reached.positions.get(place, -1) < end for place, end in _own(query, bounds).items()):
        return False
    own = [place for place in reached.positions if place[0] in reached.own]
    return all(engine.log.end_offset(*place) <= reached.positions[place] for place in own)


def _own(query: QueryTopics, bounds: Positions) -> dict[TopicPartition, int]:
    return {place: end for place, end in bounds.items() if place[0] in query.inputs}


def _check_stopped(engine: Engine, query: QueryTopics, reached: Reached, bounds: Positions) -> None:
    """A query that stands still does no harm where there is nothing that it has not read."""
    positions = _positions(engine, query.query_id)
    for place, end in _own(query, bounds).items():
        at = positions.get(place)
        if at != end:
            why = f" ({reached.error})" if reached.error else ""
            raise StatementError(
                f"The tables cannot be read at one moment: query {query.query_id} is in state"
                f" {reached.state.value}{why} and has read {place[0]}-{place[1]} up to"
                f" {'nothing' if at is None else at}, the others up to {end}",
                hint="Resume the query, or ask for one table at a time.",
                code=NOT_ALIGNED,
            )


def _behind(reached: Reached, bounds: Positions) -> str:
    for place, at in reached.positions.items():
        if at < bounds.get(place, at):
            return f"has read {place[0]}-{place[1]} up to {at} of {bounds[place]}"
    return f"is in state {reached.state.value} and has not committed all that it has read"


def _not_ready(why: str) -> UnavailableError:
    return UnavailableError(
        f"{NOT_READY} the tables cannot be read at one moment yet: {why}",
        hint="Ask again, or for one table at a time.",
        code=NOT_READY,
    )
