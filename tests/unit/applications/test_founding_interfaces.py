"""The methods that KIP-28 names for processors, each called as it says."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record, Topology

CALLS: list[tuple[Any, ...]] = []


class Noting(Processor):
    """Notes its calls."""

    output = "k STRING KEY, v INT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.store = context.store("store", KeyValueStore("STRING", "INT"))
        context.schedule(dt.timedelta(seconds=1), millstream.STREAM_TIME, self.punctuate)
        CALLS.append(("init", context.partition))

    def process(self, record: Record) -> None:
        CALLS.append(
            ("process", record.key, record.value, record.topic, record.partition, record.offset)
        )
        CALLS.append(("timestamp", record.timestamp_ms))
        self.store.put(record.key, record.value["V"])
        self.context.forward(record.key, record.value)
        self.context.send("topic-other", record.key, str(record.value["V"]))
        self.context.commit()
        self.context.metrics.add("processed")

    def punctuate(self, time: dt.datetime) -> None:
        CALLS.append(("punctuate", time))

    def close(self) -> None:
        CALLS.append(("close",))


def test_the_time_and_the_partition_can_be_functions() -> None:
    """TimestampExtractor.extract and StreamPartitioner.partition."""

    def extract(record: Record) -> dt.datetime:
        return dt.datetime(2020, 1, 1, 0, 0, record.value["V"])

    def partition(key: str, value: Mapping[str, Any]) -> int:
        return len(key) + int(value["V"])

    topology = (
        Topology()
        .add_source(
            "source", "topic-source", key="k STRING", value="v INT", partitions=1, timestamp=extract
        )
        .add_processor("processor", Noting, "source")
        .add_sink("sink", "topic-sink", "processor", partitions=4, partitioner=partition)
    )
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            "CREATE STREAM other (k STRING KEY, v STRING)"
            " WITH (kafka_topic='topic-other', partitions=1, value_format='KAFKA');"
        )
        db.deploy(topology, "job")
        db.execute("CREATE STREAM placed AS SELECT k, ROWTIME AS t, ROWPARTITION AS p FROM sink;")
        db.insert("source", [("a", 1), ("bb", 8)])
        db.wait()
        second = 1_577_836_800_000
        assert sorted(db.execute("SELECT * FROM placed")) == [
            ("a", second + 1_000, 2),
            ("bb", second + 8_000, 2),
        ]


def test_each_method_is_called() -> None:
    topology = (
        Topology()
        .add_source("source", "topic-source", key="k STRING", value="v INT", partitions=1)
        .add_processor("processor", Noting, "source")
        .add_sink("sink", "topic-sink", "processor")
    )
    with millstream.connect() as db:
        db.execute(
            "CREATE STREAM other (k STRING KEY, v STRING)"
            " WITH (kafka_topic='topic-other', partitions=1, value_format='KAFKA');"
        )
        db.deploy(topology, "job")
        CALLS.clear()
        rows = [{"k": "a", "v": 1, "ROWTIME": 500}, {"k": "b", "v": 2, "ROWTIME": 1700}]
        db.insert("source", rows)
        db.wait()
        assert list(db.execute("SELECT * FROM sink")) == [("a", 1), ("b", 2)]
        assert list(db.execute("SELECT * FROM other")) == [("a", "1"), ("b", "2")]
        assert [query.counts for query in db.metrics().queries] == [{"processed": 2}]
    assert [
        ("init", 0),
        ("process", "a", {"V": 1}, "topic-source", 0, 0),
        ("timestamp", 500),
        ("process", "b", {"V": 2}, "topic-source", 0, 1),
        ("timestamp", 1700),
        ("punctuate", dt.datetime(1970, 1, 1, 0, 0, 1, 700_000)),
        ("close",),
    ] == CALLS
