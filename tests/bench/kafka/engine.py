"""Millstream as the process of a user, for the bench: runs one workload until it is ended.

    python -m tests.bench.kafka.engine W3 servers=… service=… state=… sink=… partitions=4
      guarantee=exactly_once commit=100 [follow=1]

Prints `START <ms>` when it has connected and defined the sources, and `GROUP <name>` when the
query runs. With `follow=1` the statements are another instance's, which this one joins.
"""

from __future__ import annotations

import signal
import sys
import threading
import time

from tests.bench.kafka.load import topic_of
from tests.bench.workloads import WORKLOADS, Workload

_SOURCES = """
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  dateTime BIGINT, extra STRING) WITH (KAFKA_TOPIC='{bid}', VALUE_FORMAT='JSON');
CREATE TABLE auction (id BIGINT PRIMARY KEY, itemName STRING, seller BIGINT, category BIGINT)
  WITH (KAFKA_TOPIC='{auction}', VALUE_FORMAT='JSON');
CREATE STREAM person (id BIGINT KEY, name STRING)
  WITH (KAFKA_TOPIC='{person}', VALUE_FORMAT='JSON');
CREATE STREAM offer (id BIGINT KEY, seller BIGINT)
  WITH (KAFKA_TOPIC='{auction}', VALUE_FORMAT='JSON');
"""


def sources(bids: str, partitions: int, suffix: str = "", form: str = "JSON") -> str:
    """The statements that name the input, whose topics end with a suffix."""
    auction, person = (topic_of(name, partitions) + suffix for name in ("auction", "person"))
    found = _SOURCES.format(bid=bids, auction=auction, person=person)
    # There are no persons in other formats.
    found = found if form == "JSON" else found[: found.index("CREATE STREAM person")]
    return found.replace("'JSON'", f"'{form}'")


def statement(workload: Workload, sink: str) -> str:
    """The workload's query into a topic of this name."""
    return workload.sql.replace(" AS SELECT", f" WITH (KAFKA_TOPIC='{sink}') AS SELECT", 1)


def run(workload: Workload, options: dict[str, str]) -> None:
    """Run it until this process gets SIGTERM."""
    import millstream

    ended, registry = threading.Event(), options.get("registry")
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    properties = {
        "auto.offset.reset": "earliest",
        "ksql.persistence.default.format.key": "JSON",
        "processing.guarantee": options["guarantee"],
        "commit.interval.ms": options["commit"],
        "cache.max.bytes.buffering": "10485760" if workload.cached else "0",
    }
    with millstream.connect(
        options["state"],
        kafka=options["servers"],
        schema_registry={"url": registry} if registry else None,
        service_id=options["service"],
        properties=properties,
    ) as database:
        partitions = int(options["partitions"])
        if options.get("follow") != "1":
            bids = options.get("in") or topic_of("bid", partitions)
            form = "AVRO" if registry else "JSON"
            database.execute(sources(bids, partitions, options.get("suffix", ""), form))
            print("START", int(time.time() * 1000), flush=True)
            made = database.execute(statement(workload, options["sink"]))
            query_id = made.query_id  # type: ignore[union-attr]
            print(f"GROUP _millstream.{options['service']}.{query_id}", flush=True)
        ended.wait()


def main(arguments: list[str]) -> int:
    """Run the command."""
    workload = next(item for item in WORKLOADS if item.name == arguments[0])
    run(workload, dict(argument.split("=", 1) for argument in arguments[1:]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
