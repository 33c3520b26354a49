"""The input of the bench on a broker: as tests/bench/nexmark.py makes it, but with the ids in the
values too and as decimal text in the keys, which every engine reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import repeat
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from millstream.formats.codec import read_payload, write_payload
from millstream.formats.partition import partition_of
from millstream.formats.payload import Layout, Subject
from millstream.formats.registered import PREFIX
from millstream.model.schema import Column, Role
from millstream.model.types import BIGINT, STRING, SqlType
from millstream.schemas.remote import RemoteRegistry
from tests.bench import nexmark

DEFAULT_PARTITIONS = 4
_SETTINGS: dict[str, str | int | float | bool] = {
    "linger.ms": 50,
    "batch.size": 1 << 18,
    "queue.buffering.max.messages": 1_000_000,
}
_SLICE = 100_000
AVRO_COLUMNS: dict[str, tuple[tuple[str, SqlType], ...]] = {
    "bid": (
        *((name, BIGINT) for name in ("auction", "bidder", "price")),
        *(("channel", STRING), ("url", STRING), ("dateTime", BIGINT), ("extra", STRING)),
    ),
    "auction": (
        *(("id", BIGINT), ("itemName", STRING), ("description", STRING), ("initialBid", BIGINT)),
        *((name, BIGINT) for name in ("reserve", "dateTime", "expires", "seller", "category")),
        ("extra", STRING),
    ),
}
"""Of the sources that there are in Avro: all columns, in the order in which the peers have them."""
Times = np.ndarray[Any, Any]
Made = Callable[[int], tuple[pa.Array, np.ndarray[Any, Any], Times]]


def topic_of(source: str, partitions: int) -> str:
    """The topic of a source; the peers use the names of the default number of partitions."""
    return source if partitions == DEFAULT_PARTITIONS else f"{source}-{partitions}"


def records(events: int) -> Iterator[tuple[str, pa.Array, pa.Array | None, Times]]:
    """Of each source: its name, values (JSON), keys and timestamps."""
    values, times = nexmark.bids(events)
    yield "bid", values, None, times
    keyed: tuple[tuple[str, Made], ...] = (
        ("auction", nexmark.auctions),
        ("person", nexmark.persons),
    )
    for source, make in keyed:
        values, ids, times = make(events)
        keys = pa.array(ids).cast(pa.string())
        rest = pc.utf8_slice_codeunits(values, 1)
        values = pc.binary_join_element_wise('{"id":', keys, ",", rest, "")
        yield source, values, keys.cast(pa.binary()), times


def load(servers: str, events: int, partitions: int) -> None:
    """Make the topics and fill them: bids in turn to each partition, the rest by key."""
    admin = AdminClient({"bootstrap.servers": servers})
    names = [topic_of(source, partitions) for source in ("bid", "auction", "person")]
    keep = {"retention.ms": "-1"}
    wanted = [NewTopic(name, partitions, 1, config=keep) for name in names]
    for answer in admin.create_topics(wanted).values():
        answer.result()
    producer = Producer({"bootstrap.servers": servers, **_SETTINGS})
    for source, values, keys, times in records(events):
        place = (
            np.arange(len(times)) % partitions if keys is None else partition_of(keys, partitions)
        )
        for start in range(0, len(times), _SLICE):
            rows = slice(start, start + _SLICE)
            columns = (
                values[rows].to_pylist(),
                repeat(None) if keys is None else keys[rows].to_pylist(),
                times[rows].tolist(),
                place[rows].tolist(),
            )
            _produce(producer, topic_of(source, partitions), zip(*columns, strict=False))
            producer.flush()


def load_in_avro(servers: str, events: int, registry: str) -> None:
    """Make topics of the bids and auctions with values in Avro, and fill them: some with the ids of
    a registry before each value, others without."""
    from tests.bench.kafka.contenders import AVRO, RAW

    admin = AdminClient({"bootstrap.servers": servers})
    names = [f"{source}{suffix}" for source in ("bid", "auction") for suffix in (AVRO, RAW)]
    keep = {"retention.ms": "-1"}
    wanted = [NewTopic(name, DEFAULT_PARTITIONS, 1, config=keep) for name in names]
    for answer in admin.create_topics(wanted).values():
        answer.result()
    producer = Producer({"bootstrap.servers": servers, **_SETTINGS})
    schemas = RemoteRegistry.open({"url": registry})
    for source, values, keys, times in records(events):
        if source not in AVRO_COLUMNS:
            continue
        place = (
            np.arange(len(times)) % DEFAULT_PARTITIONS
            if keys is None
            else partition_of(keys, DEFAULT_PARTITIONS)
        )
        for start in range(0, len(times), _SLICE):
            rows = slice(start, start + _SLICE)
            written = in_avro(values[rows], source, schemas).to_pylist()
            own = repeat(None) if keys is None else keys[rows].to_pylist()
            rest = list(zip(written, own, times[rows].tolist(), place[rows].tolist(), strict=False))
            _produce(producer, f"{source}{AVRO}", iter(rest))
            _produce(producer, f"{source}{RAW}", ((one[0][PREFIX:], *one[1:]) for one in rest))
            producer.flush()
    schemas.close()


def in_avro(values: pa.Array, source: str, schemas: RemoteRegistry) -> pa.BinaryArray:
    """Values, which are JSON, in AVRO."""
    columns = tuple(Column(name, kind, Role.VALUE) for name, kind in AVRO_COLUMNS[source])
    subject = Subject(schemas, f"{source}-avro-value", source, is_key=False)
    layout = Layout(columns, tuple(range(len(columns))), subject=subject)
    with duckdb.connect() as con:
        found = read_payload(con, values.cast(pa.binary()), layout, "JSON")
        written = write_payload(con, list(found.columns), layout, "AVRO", len(values))
    assert not found.bad and not written.bad
    return written.payload


def _produce(producer: Producer, topic: str, rows: Iterator[tuple[Any, ...]]) -> None:
    for value, key, time, partition in rows:
        producer.produce(topic, value, key, partition, timestamp=time)
