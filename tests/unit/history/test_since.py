"""Consecutive runs from committed positions produce the live engine's output; and either takes over
from the other at any moment."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import cache, partial
from typing import Any

import pytest

from millstream.executor.compaction import Pace
from millstream.functions.catalogue import builtin_catalogue
from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import AT_ONCE, Run, Split, inputs, since
from millstream.history.task import Produced, Superseded
from millstream.log.log import Appended, Outcome, TopicPartition
from millstream.model.errors import CorruptionError
from millstream.topology.split import LayoutOf, mixed
from tests.properties.pipeline import LAYOUTS, SETTINGS, Pipeline
from tests.unit.history.test_runs import (
    QUERIES,
    WHOLE,
    by_exchange,
    pipeline,
    run_of,
    send,
    send_rest,
    wanted,
)

Runner = Callable[[Run, Pipeline], Iterator[Produced]]


def locally(run: Run, live: Pipeline) -> Iterator[Produced]:
    return run_local(run, FromLog(live.log), builtin_catalogue())


RUNNERS = [locally, by_exchange]


def epoch(live: Pipeline, runner: Runner, pace: Pace = AT_ONCE) -> None:
    """Process what there is, in one transaction."""
    splits = since_now(live)
    run = replace(run_of(live), splits=splits, changes=True, pace=pace)
    made = list(runner(run, live))
    records = [item for item in made if isinstance(item, Appended)]
    changelogs = {sub.changelog for sub in live.topology.subtopologies}
    ends = {place: split.end for place, split in splits.items() if place[0] not in changelogs}
    writer = live.log.writer("Q")
    assert writer.transact("Q", records, ends) is Outcome.COMMITTED
    writer.close()
    for item in made:
        if isinstance(item, Superseded):
            place = (item.topic, item.partition)
            live.log.truncate(*place, splits[place].end + item.records)


def in_the_middle(
    query: str, steps: int, layout: LayoutOf = mixed, *, apart: bool = False
) -> Pipeline:
    """A live engine that has been stopped while it worked on its first records, a few at a time:
    rows are held back then, lie in repartition topics, or wait in the middle of a batch. `apart`:
    what moves lies there as if several instances had sent it."""
    live = pipeline(query, layout=layout)
    live.stop()
    live.settings, live.apart = SETTINGS, apart
    live.start()
    for _ in range(steps):
        live.step()
    live.instance.close(live.now)
    live.store.close()
    live.settings, live.apart = WHOLE, False
    return live


def goes_on(live: Pipeline) -> None:
    """Work on what there is, and stop."""
    live.start()
    live.settle()
    live.stop()


def finished(live: Pipeline, *turns: Callable[[Pipeline], None]) -> Any:
    """What comes out when these work in turn, records coming in between."""
    first, second, third = turns
    first(live)
    send_rest(live)
    second(live)
    send(live, range(110, 140), range(36, 40))
    third(live)
    live.start()
    return wanted(live)


@cache
def of_the_engine(query: str, steps: int) -> Any:
    """What comes out when the live engine alone works on."""
    return finished(in_the_middle(query, steps), goes_on, goes_on, goes_on)


# The query is the outermost loop, then the steps: one process runs the tests with one result.
@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("query", QUERIES)
def test_epoch_after_epoch(query: str, runner: Runner) -> None:
    epochs = in_the_middle(query, 0)
    run = partial(epoch, runner=runner)
    assert finished(epochs, run, run, run) == of_the_engine(query, 0)


@pytest.mark.parametrize("steps", [2, 9])
@pytest.mark.parametrize("query", QUERIES)
def test_each_takes_over_from_the_other(query: str, steps: int) -> None:
    changing = in_the_middle(query, steps)
    run = partial(epoch, runner=locally)
    assert finished(changing, run, goes_on, run) == of_the_engine(query, steps)


@pytest.mark.parametrize("runner", RUNNERS)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize("steps", [2, 5, 9])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("query", ["rows that move", "windows", "moved join"])
def test_rows_in_channels_are_taken_over_too(
    query: str, layout: LayoutOf, runner: Runner, steps: int, apart: bool
) -> None:
    changing = in_the_middle(query, steps, layout, apart=apart)
    run = partial(epoch, runner=runner)
    assert finished(changing, run, goes_on, run) == of_the_engine(query, steps)


@pytest.mark.parametrize("query", ["count per key", "rows that move"])
def test_changelogs_are_kept_short(query: str) -> None:
    epochs = in_the_middle(query, 0)
    run = partial(epoch, runner=by_exchange, pace=Pace(fewest=3, piece=1 << 60))
    assert finished(epochs, run, run, run) == of_the_engine(query, 0)
    for sub in epochs.topology.subtopologies:
        if sub.changelog is not None:
            assert any(epochs.log.start_offset(sub.changelog, p) for p in range(sub.partitions))


def test_nothing_new_changes_nothing() -> None:
    live = in_the_middle("moved join", 0)
    epoch(live, locally)
    places = {place: live.log.end_offset(*place) for place in live.log.positions("Q")}
    assert live.log.positions("Q") == places
    assert not list(locally(replace(run_of(live), splits=since_now(live), changes=True), live))


def since_now(live: Pipeline) -> dict[TopicPartition, Split]:
    return since(live.log, live.topology, live.log.positions("Q"))


def test_a_position_behind_the_end_is_reported() -> None:
    live = in_the_middle("count per key", 0)
    place = next(inputs(live.topology))
    with pytest.raises(CorruptionError) as caught:
        since(live.log, live.topology, {place: live.log.end_offset(*place) + 1})
    assert caught.value.code == "E-TRUNCATED"
