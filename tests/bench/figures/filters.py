"""What several filters over one topic cost, against one of them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import millstream
from millstream.log.log import Appended
from tests.bench import nexmark
from tests.bench.figures.catalogue import Reading
from tests.bench.figures.queries import check
from tests.bench.figures.setting import Setting
from tests.bench.figures.usage import Used, measured
from tests.bench.workloads import BID

PARTITIONS = 4
ALONE_RUNS = 3


def filters(setting: Setting) -> Iterator[Reading]:
    """The ratio of CPU, for each number of filters."""
    values, times = nexmark.bids(setting.scale.events)
    bids = nexmark.raw(values, None, times)
    # One filter takes a fraction of a second: the lowest of some runs is what noise disturbs least.
    alone = min(
        (_cost(setting, f"alone{run}", 1, bids) for run in range(ALONE_RUNS)),
        key=lambda used: used.cpu,
    )
    for figure, count in zip(("filters-8", "filters-64"), setting.scale.filters, strict=True):
        if figure in setting.wanted:
            together = _cost(setting, figure, count, bids)
            ratio = together.cpu / alone.cpu
            yield Reading(figure, f"{ratio:.2f}x ({together} against {alone})")


def _cost(setting: Setting, name: str, count: int, bids: pa.Table) -> Used:
    """CPU and time of so many filters over the records, from RESUME to the last commit."""
    with setting.connect(f"{name}.db") as database:
        database.execute(BID)
        database.execute("".join(map(_statement, range(count))))
        # Paused while the records are appended: appending is not part of the figure, and each query
        # then has the whole input before it.
        database.execute("PAUSE ALL;")
        _append(database, bids)
        with measured() as used:
            database.execute("RESUME ALL;")
            database.wait()
        if check(database, count) != [bids.num_rows] * count:
            raise RuntimeError("not every filter has read all records")
    return used


def _statement(number: int) -> str:
    return (
        f"CREATE STREAM f{number} AS SELECT auction, price FROM bid"
        f" WHERE auction % 123 = {number} EMIT CHANGES;"
    )


def _append(database: millstream.Database, bids: pa.Table) -> None:
    chosen = np.arange(bids.num_rows) % PARTITIONS
    for partition in range(PARTITIONS):
        rows = bids.filter(pa.array(chosen == partition))
        appended = Appended("bid", partition, rows, rows.num_rows, rows.nbytes)
        database.engine.writer.append([appended])
