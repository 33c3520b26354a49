"""Messages of the client to raw batches, and back."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from itertools import repeat
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaError, KafkaException, Message, Producer

from millstream.model.batch import HEADER_TYPE, RAW_SCHEMA

Delivered = Callable[[KafkaError | None, Message], None]
_WAIT_FOR_ROOM = 0.005
_FULL_SECONDS = 90.0
"""The client gives up its records earlier; if that made no room, a record is larger than the queue.
"""
_LARGE = 500_000
"""From this size on a record has a delivery report of its own: it may be the one that is too large.
"""
_EARLIEST = 1
"""The client treats a timestamp of 0 as none and writes the present time; this is the nearest
value."""


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
    """Produce a batch, in order. `delivered` is called for the last record and for each large
    one."""
    values, keys, stamps, headers = (
        batch[name] for name in ("value", "key", "timestamp", "headers")
    )
    carried = _pairs(headers.to_pylist()) if headers.null_count < len(headers) else repeat(None)
    sizes = pc.add(*(pc.fill_null(pc.binary_length(column), 0) for column in (keys, values)))
    heard: list[Delivered | None] = [None] * batch.num_rows
    for row in (batch.num_rows - 1, *np.flatnonzero(sizes.to_numpy() >= _LARGE).tolist()):
        heard[row] = delivered
    send: Callable[..., None] = producer.produce
    rows = zip(
        values.to_pylist(), keys.to_pylist(), stamps.to_pylist(), heard, carried, strict=False
    )
    for value, key, stamp, hears, pairs in rows:
        # Positional arguments take the client half the time of keyword arguments. If their
        # positions changed, it would refuse None for a timestamp.
        record: tuple[Any, ...] = (
            topic,
            value,
            key,
            partition,
            hears,
            None,
            stamp or _EARLIEST,
            pairs,
        )
        try:
            send(*record)
        except BufferError:
            _send_later(producer, record)


def _pairs(
    headers: Sequence[Sequence[dict[str, Any]] | None],
) -> list[list[tuple[str, bytes | None]] | None]:
    return [
        None if items is None else [(item["key"], item["value"]) for item in items]
        for items in headers
    ]


def _send_later(producer: Producer, record: tuple[Any, ...]) -> None:
    since = None
    while True:
        since = wait_for_room(producer, since)
        try:
            producer.produce(*record)
            return
        except BufferError:
            continue


def wait_for_room(producer: Producer, since: float | None) -> float:
    """Wait for the client's full queue to drain. `since`: the result of the previous call, if
    nothing was taken meanwhile. Raises KafkaException when that lasts too long."""
    now = time.monotonic()
    if since is not None and now > since + _FULL_SECONDS:
        raise KafkaException(KafkaError(KafkaError._QUEUE_FULL))
    producer.poll(_WAIT_FOR_ROOM)
    return now if since is None else since
