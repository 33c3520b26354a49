"""A query that starts from a bounded run's results, including its changelogs, continues like one
that has processed every record itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.log.log import Appended, Outcome
from tests.properties.pipeline import Pipeline
from tests.unit.history.test_runs import (
    QUERIES,
    by_exchange,
    kind_of,
    pipeline,
    run_of,
    send_rest,
    wanted,
)


def locally(run: Run, live: Pipeline) -> Iterator[Produced]:
    return run_local(run, FromLog(live.log), builtin_catalogue())


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("runner", [locally, by_exchange])
def test_going_on(query: str, runner: Callable[[Run, Pipeline], Iterator[Produced]]) -> None:
    whole = pipeline(query)
    whole.settle()
    send_rest(whole)
    filled = pipeline(query)
    filled.stop()
    run = replace(run_of(filled), changes=True)
    records = [item for item in runner(run, filled) if isinstance(item, Appended)]
    ends = {place: split.end for place, split in run.splits.items()}
    writer = filled.log.writer("Q")
    assert writer.transact("Q", records, ends) is Outcome.COMMITTED
    writer.close()
    send_rest(filled)
    filled.start()
    assert wanted(filled) == wanted(whole)
    assert kind_of(filled) is kind_of(whole)
