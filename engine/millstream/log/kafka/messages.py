"""Messages of the client to raw batches, and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millstream.model.batch import HEADER_TYPE, RAW_SCHEMA

Delivered = Callable[[KafkaError | None, Message], None]
_WAIT_FOR_ROOM = 0.005
_FULL_SECONDS = 90.0
"""The client gives records up before; then none of them made room, and a record has more bytes
than the queue."""
_LARGE = 500_000
"""From this size on a record has a delivery report of its own: it may be what is too large."""
_EARLIEST = 1
"""The client takes a timestamp of 0 for none and writes the present time; this is the nearest."""


def table_of(messages: Sequence[Message]) -> pa.Table:
    """The raw batch of messages of one partition."""
    columns = [
        pa.array(list(map(Message.offset, messages)), pa.int64()),
        pa.array([stamp for _, stamp in map(Message.timestamp, messages)], pa.int64()),
        pa.array(list(map(Message.key, messages)), pa.binary()),
        pa.array(list(map(Message.value, messages)), pa.binary()),
        _headers(messages),
    ]
    return pa.Table.from_arrays(columns, schema=RAW_SCHEMA)


def _headers(messages: Sequence[Message]) -> pa.Array:
    found = list(map(Message.headers, messages))
    if not any(found):
        return pa.nulls(len(found), HEADER_TYPE)
    listed = [
        None if headers is None else [{"key": item[0], "value": item[1]} for item in headers]
        for headers in found
    ]
    return pa.array(listed, HEADER_TYPE)


def produce(
    producer: Producer, topic: str, partition: int, batch: pa.Table, delivered: Delivered
) -> None:
    """Hand a batch to the client, in order. `delivered` hears of the last record, and of each
    large one."""
    keys, values = batch["key"].to_pylist(), batch["value"].to_pylist()
    stamps, headers = batch["timestamp"].to_pylist(), batch["headers"]
    carried = headers.to_pylist() if headers.null_count < len(headers) else None
    last = batch.num_rows - 1
    for row, (key, value, stamp) in enumerate(zip(keys, values, stamps, strict=True)):
        options: dict[str, Any] = {}
        if carried is not None and carried[row] is not None:
            options["headers"] = [(item["key"], item["value"]) for item in carried[row]]
        if row == last or len(value or b"") + len(key or b"") >= _LARGE:
            options["on_delivery"] = delivered
        _produce(producer, topic, value, key, partition, stamp, options)


def _produce(
    producer: Producer,
    topic: str,
    value: bytes | None,
    key: bytes | None,
    partition: int,
    stamp: int,
    options: dict[str, Any],
) -> None:
    since = None
    while True:
        try:
            producer.produce(topic, value, key, partition, timestamp=stamp or _EARLIEST, **options)
            return
        except BufferError:
            since = wait_for_room(producer, since)


def wait_for_room(producer: Producer, since: float | None) -> float:
    """Leave a full queue of the client to empty itself. `since`: what this gave before, if nothing
    was taken meanwhile. KafkaException when that has been so for too long."""
    now = time.monotonic()
    if since is not None and now > since + _FULL_SECONDS:
        raise KafkaException(KafkaError(KafkaError._QUEUE_FULL))
    producer.poll(_WAIT_FOR_ROOM)
    return now if since is None else since
