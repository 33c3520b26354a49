"""The count by Bytewax: SERVERS TOPIC OUT FOLDER. Without recovery, so it has no store to keep: it
does less than the others."""

from __future__ import annotations

import json
import sys

import bytewax.operators as op
from bytewax.connectors.kafka import KafkaSinkMessage
from bytewax.connectors.kafka import operators as kafka
from bytewax.dataflow import Dataflow
from bytewax.testing import run_main


def count(state: int | None, value: bytes) -> tuple[int, bytes]:
    """The number of records of the key so far."""
    json.loads(value)
    found = (state or 0) + 1
    return found, json.dumps({"N": found}).encode()


def main(servers: str, topic: str, out: str, _: str) -> None:
    """Run to the end of the topic."""
    flow = Dataflow("count")
    read = kafka.input("read", flow, brokers=[servers], topics=[topic], tail=False)
    pairs = op.map("pair", read.oks, lambda record: (record.key.decode(), record.value))
    counted = op.stateful_map("count", pairs, count)
    records = op.map("record", counted, lambda pair: KafkaSinkMessage(pair[0].encode(), pair[1]))
    kafka.output("write", records, brokers=[servers], topic=out)
    run_main(flow)


if __name__ == "__main__":
    main(*sys.argv[1:])
