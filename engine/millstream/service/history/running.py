"""A bounded run of a query's own, and the rows that it makes."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millstream.history.local import run_local
from millstream.history.reading import FromLog, Source
from millstream.history.task import Produced
from millstream.history.within import Within
from millstream.log.log import Appended
from millstream.service.engine import Engine
from millstream.service.history.planning import Past
from millstream.service.history.watch import Watch, Watched

READ = "read"
"""The stage of reading, where all of the run is in this process."""


def rows_of(past: Past, engine: Engine, watch: Watch) -> Iterator[pa.Table]:
    """What the run makes, as it is made. Rows that cannot be used go to the processing log."""
    watch.show(READ, 0, past.records)
    source: Source = Within(Watched(FromLog(engine.log), watch, READ), past.timed)
    produced = run_local(past.run, source, engine.functions)
    return _rows(produced, past.run.topology.query_id, engine)


def _rows(produced: Iterator[Produced], query_id: str, engine: Engine) -> Iterator[pa.Table]:
    for item in produced:
        if isinstance(item, Appended):
            yield item.batch
        else:
            engine.processing_log.add(query_id, (item,))
