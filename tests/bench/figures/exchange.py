"""What a row costs that moves to another task, with few tasks and with many."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pyarrow as pa

from millstream.log.log import Appended
from millstream.model.batch import RAW_SCHEMA
from millstream.runtime.spec import RuntimeSettings
from tests.bench.figures.catalogue import Reading
from tests.bench.figures.setting import Setting
from tests.bench.figures.usage import measured
from tests.sharing import Sharing

INSTANCES = (1, 4)
RUNS = 2
SOURCE = "CREATE STREAM s (k INT KEY, g INT) WITH (KAFKA_TOPIC = 's', FORMAT = 'JSON');"
COUNT = "CREATE TABLE o WITH (KAFKA_TOPIC = 'o') AS SELECT g, COUNT(*) AS c FROM s GROUP BY g;"
SETTINGS = RuntimeSettings(commit_interval_ms=4, max_batch_records=200_000)


def exchange(setting: Setting) -> Iterator[Reading]:
    """The ratio of CPU per moved row to that with the fewest tasks, over one instance and over
    several. The log is in memory; what idle instances take to see that is left out."""
    few, *more = setting.scale.tasks
    base = {count: _cost(setting.scale.moved, few, count) for count in INSTANCES}
    for figure, tasks in zip(("exchange-64", "exchange-256"), more, strict=True):
        if figure in setting.wanted:
            parts = []
            for count in INSTANCES:
                cost = _cost(setting.scale.moved, tasks, count)
                ratio = cost / base[count]
                parts.append(f"{ratio:.2f}x with {count} ({1e6 * cost:.2f} us a row)")
            yield Reading(figure, ", ".join(parts))


def _cost(rows: int, tasks: int, instances: int) -> float:
    """The least CPU seconds per row of some runs."""
    return min(_once(rows, tasks, instances) for _ in range(RUNS))


def _once(rows: int, tasks: int, instances: int) -> float:
    widths = {"s": tasks, "o": tasks}
    sharing = Sharing(SOURCE, COUNT, widths, instances, SETTINGS)
    sharing.open()
    writer = sharing.log.writer("producer")
    each = rows // tasks
    writer.append([Appended("s", task, _records(each, task), each) for task in range(tasks)])
    with measured() as used:
        sharing.finish(Random(0), [4] * instances)
    # The last looks, which bring nothing, take as long as the work with this log and many tasks.
    with measured() as idle:
        sharing.finish(Random(0), [4] * instances)
    if sharing.problems:
        raise RuntimeError(f"{sharing.problems} rows came late")
    sharing.close()
    return (used.cpu - idle.cpu) / (each * tasks)


def _records(count: int, seed: int) -> pa.Table:
    """Records of a partition, 1,000 a second, with groups at random."""
    groups = np.random.default_rng(seed).integers(0, 10_000, count)
    values = pa.array([b'{"G":%d}' % group for group in groups.tolist()], pa.binary())
    columns = {
        "offset": pa.array(np.arange(count)),
        "timestamp": pa.array(np.arange(count)),
        "key": pa.array([b"1"] * count, pa.binary()),
        "value": values,
        "headers": pa.nulls(count, RAW_SCHEMA.field("headers").type),
    }
    return pa.table(columns, schema=RAW_SCHEMA)
