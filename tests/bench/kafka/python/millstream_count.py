"""The count by a processor of Millstream: SERVERS TOPIC OUT FOLDER."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record


class Counting(Processor):
    """The number of records of the key so far, in a store with a changelog."""

    output = "id STRING KEY, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        self._counts = context.store("counts", KeyValueStore("STRING", "BIGINT"))

    def process(self, record: Record) -> None:
        found = self._counts.get(record.key, 0) + 1
        self._counts.put(record.key, found)
        self._context.forward(record.key, {"N": found})


def main(servers: str, topic: str, out: str, folder: str) -> None:
    """Run until the process is ended."""
    with millstream.connect(
        str(Path(folder) / "counts.db"),
        kafka=servers,
        service_id=out,
        functions=[millstream.processor(Counting)],
        properties={"auto.offset.reset": "earliest"},
    ) as database:
        database.execute(f"""
            CREATE STREAM bids (id STRING KEY, bidder BIGINT, price BIGINT)
              WITH (kafka_topic='{topic}', value_format='JSON');
            CREATE STREAM counts WITH (kafka_topic='{out}')
              AS SELECT * FROM PROCESS(bids, 'Counting');
        """)
        threading.Event().wait()


if __name__ == "__main__":
    main(*sys.argv[1:])
