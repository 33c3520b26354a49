"""Reads a small topic with one partition that is kept by key, such as those of settings."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from millstream.log.log import Log

READ_MAX = 10_000


def records_of(log: Log[pa.Table], topic: str) -> Iterator[tuple[bytes, bytes | None]]:
    """The keys and values of all records that are there now, in order; none without the topic."""
    if log.topic(topic) is None:
        return
    position, end = log.start_offset(topic, 0), log.end_offset(topic, 0)
    while position < end:
        fetched = log.read(topic, 0, position, READ_MAX)
        for row in fetched.records().to_pylist() if fetched.count else ():
            yield row["key"], row["value"]
        if fetched.next_offset == position:
            return
        position = fetched.next_offset
