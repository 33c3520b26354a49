"""What a processor costs: `python -m tests.bench.processing [RECORDS]`.

Records of 4,000 keys in four partitions of a file go through a processor that only forwards, one
that does so by batches, one that counts each key in a store, and the same as SQL: a projection, and
a count. The figures are
records per second of CPU time, all threads of the process counted together, from the statement to
the last commit; the best of three.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa

import millstream
from millstream import (
    BatchContext,
    BatchProcessor,
    KeyValueStore,
    Processor,
    ProcessorContext,
    Record,
)
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

RECORDS = 1_000_000
PARTITIONS = 4
KEYS = 1_000
"""Of each partition."""
ROUNDS = 3
SOURCE = (
    "CREATE STREAM bid (auction BIGINT KEY, bidder BIGINT, price BIGINT) WITH "
    f"(kafka_topic='bid', partitions={PARTITIONS}, value_format='JSON', key_format='JSON');"
)
QUERIES = {
    "SQL, forward": "CREATE STREAM o AS SELECT auction, price FROM bid;",
    "processor, forward": "CREATE STREAM o AS SELECT * FROM PROCESS(bid, 'Forwarding');",
    "batch processor, forward": "CREATE STREAM o AS SELECT * FROM PROCESS(bid, 'Batches');",
    "SQL, count": "CREATE TABLE o AS SELECT auction, COUNT(*) AS n FROM bid GROUP BY auction;",
    "processor, count in a store": "CREATE STREAM o AS SELECT * FROM PROCESS(bid, 'Counting');",
}


class Forwarding(Processor):
    output = "auction BIGINT KEY, price BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self._context = context

    def process(self, record: Record) -> None:
        self._context.forward(record.key, {"PRICE": record.value["PRICE"]})


class Batches(BatchProcessor):
    output = "auction BIGINT KEY, price BIGINT"

    def init(self, context: BatchContext) -> None:
        self._context = context

    def process(self, batch: pa.RecordBatch) -> None:
        self._context.forward(batch.select(["AUCTION", "PRICE"]))


class Counting(Processor):
    output = "auction BIGINT KEY, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._counts = context.store("counts", KeyValueStore("BIGINT", "BIGINT"))

    def process(self, record: Record) -> None:
        count = self._counts.get(record.key, 0) + 1
        self._counts.put(record.key, count)
        self._context.forward(record.key, {"N": count})


def append(database: millstream.Database, records: int) -> None:
    """Append the records to the topic."""
    chance = random.Random(1)
    writer = database.engine.log.writer("bench")
    for partition in range(PARTITIONS):
        batch = raw_batch(
            [
                (
                    str(chance.randrange(KEYS) * PARTITIONS + partition).encode(),
                    json.dumps({"BIDDER": number % 77, "PRICE": number}).encode(),
                    1_700_000_000_000 + number,
                )
                for number in range(records // PARTITIONS)
            ]
        )
        writer.append([Appended("bid", partition, batch, batch.num_rows, batch.nbytes)])
    writer.close()


def measure(sql: str, records: int) -> float:
    """The records per second of CPU time."""
    functions = [millstream.processor(each) for each in (Forwarding, Batches, Counting)]
    with (
        tempfile.TemporaryDirectory() as folder,
        millstream.connect(
            str(Path(folder) / "bids.db"),
            functions=functions,
            properties={"auto.offset.reset": "earliest"},
        ) as database,
    ):
        database.execute(SOURCE)
        append(database, records)
        cpu = time.process_time()
        database.execute(sql)
        database.wait()
        cpu = time.process_time() - cpu
        if failed := [status.error for status in database.engine.statuses() if status.error]:
            raise RuntimeError(failed[0])
    return records / cpu


def main(records: int) -> None:
    """Measure each query."""
    for name, sql in QUERIES.items():
        best = max(measure(sql, records) for _ in range(ROUNDS))
        print(f"{name:28} {records:8} records  {best / 1e3:7.0f} k records/CPU-s")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else RECORDS)
