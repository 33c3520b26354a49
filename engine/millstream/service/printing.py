"""PRINT: the records of a topic as they lie there, formats guessed from the bytes."""

from __future__ import annotations

import datetime
import json
import struct
from collections.abc import Callable
from typing import Any

import pyarrow as pa

from millstream.model.errors import StatementError
from millstream.service.engine import Engine
from millstream.service.results import Rows
from millstream_parser.statements import PrintTopic

RECORDS_MAX = 1_000_000
READ_MAX = 10_000


def print_topic(statement: PrintTopic, engine: Engine) -> Rows:
    """The records that are in the topic now, oldest first, one line of text each."""
    topic = engine.log.topic(statement.topic)
    if topic is None:
        raise StatementError(
            f"Could not find topic '{statement.topic}'",
            hint="SHOW TOPICS lists the topics; names keep the case they are typed with.",
        )
    records = []
    for partition in range(topic.partitions):
        records += _records(statement, partition, engine)
    records.sort(key=lambda record: (record["timestamp"], record["partition"], record["offset"]))
    chosen = records[:: statement.interval or 1][: statement.limit]
    key, value = _guess([r["key"] for r in chosen]), _guess([r["value"] for r in chosen])
    lines = [_line(record, key[1], value[1]) for record in chosen]
    title = f"Key format: {key[0]}\nValue format: {value[0]}"
    return Rows(pa.table({"record": pa.array(lines, pa.string())}), title)


def _records(statement: PrintTopic, partition: int, engine: Engine) -> list[dict[str, Any]]:
    if not statement.from_beginning:
        return []
    found: list[dict[str, Any]] = []
    position = engine.log.start_offset(statement.topic, partition)
    while len(found) < RECORDS_MAX:
        fetched = engine.log.read(statement.topic, partition, position, READ_MAX)
        found += [{**row, "partition": partition} for row in fetched.batch.to_pylist()]
        if fetched.end:
            break
        position = fetched.next_offset
    return found


def _line(
    record: dict[str, Any], key: Callable[[bytes], str], value: Callable[[bytes], str]
) -> str:
    time = datetime.datetime.fromtimestamp(record["timestamp"] / 1000, datetime.UTC)
    stamp = f"{time:%Y/%m/%d %H:%M:%S}.{time.microsecond // 1000:03d} Z"
    parts = [
        f"rowtime: {stamp}",
        f"key: {'<null>' if record['key'] is None else key(record['key'])}",
        f"value: {'<null>' if record['value'] is None else value(record['value'])}",
        f"partition: {record['partition']}",
    ]
    return ", ".join(parts)


def _json(data: bytes) -> str:
    json.loads(data)
    return data.decode()


def _integer(data: bytes) -> str:
    return str(struct.unpack(">i", data)[0])


def _bigint(data: bytes) -> str:
    return str(struct.unpack(">q", data)[0])


def _text(data: bytes) -> str:
    text = data.decode()
    if not text.isprintable():
        raise ValueError("not text")
    return text


GUESSES: tuple[tuple[str, Callable[[bytes], str]], ...] = (
    ("JSON", _json),
    ("KAFKA_STRING", _text),
    ("KAFKA_INT", _integer),
    ("KAFKA_BIGINT", _bigint),
)


def _guess(items: list[bytes | None]) -> tuple[str, Callable[[bytes], str]]:
    """The first format that all of the bytes can be read with."""
    present = [item for item in items if item is not None]
    for name, read in GUESSES:
        try:
            for item in present:
                read(item)
        except (ValueError, struct.error):
            continue
        return name, read
    return "bytes", lambda data: data.hex(" ")
