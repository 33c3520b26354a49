"""PRINT: shows the records of a topic as they arrive, and guesses their formats."""

from __future__ import annotations

import datetime
import json
import struct
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from millstream.formats.printed import printers
from millstream.log.log import WatchedLog
from millstream.model.nearest import topic_hint
from millstream.model.schema import Schema, WindowedKey
from millstream.model.schema_text import Schemas
from millstream.push.push_queries import PushQueries
from millstream.query import wordings
from millstream.query.results import Change, Stream
from millstream.scheduler.driver import Driver
from millstream_parser.statements import PrintTopic

READ_MAX = 1_000
TEXT = "KAFKA_STRING"
WAIT_S = 0.2
"""The longest wait for new records before the reader reads again and checks for a close."""


def print_topic(statement: PrintTopic, push_queries: PushQueries) -> Stream:
    """Execute PRINT: a stream of lines, one for each record, and one for each guess of the formats.
    It follows the topic until its LIMIT, or until the stream is closed."""
    registry = push_queries.registry
    log, driver = registry.log, registry.driver
    topic = log.topic(statement.topic)
    if topic is None:
        raise wordings.TOPIC_NOT_FOUND(
            topic=statement.topic,
            hint=topic_hint(
                statement.topic,
                (known.name for known in log.topics()),
                "SHOW TOPICS lists the topics; names keep the case they are typed with.",
            ),
        )
    first = log.start_offset if statement.from_beginning else log.end_offset
    positions = {part: first(topic.name, part) for part in range(topic.partitions)}
    windows = [source.window for source in registry.catalog.over_topic(topic.name)]
    window = next((window for window in windows if window is not None), None)
    known = _deserializers(registry.schemas)
    key, value = _FormatGuess("Key", window, known=known), _FormatGuess("Value", known=known)
    printer = _Printer(statement, log, positions, key, value)
    arrived = threading.Event()
    unwatch = driver.watch([topic.name])
    unsubscribe = log.on_news(lambda news: arrived.set() if topic.name in news.grown else None)
    with driver.lock:
        push_queries.count += 1
        name = f"print_{topic.name}_{push_queries.count}"

    def close() -> None:
        unsubscribe()
        unwatch()
        push_queries.streams.pop(name, None)
        arrived.set()

    stream = Stream(name, Schema(()), ["record"], close)
    stream.idle = lambda: _read_more(stream, printer, arrived, driver)
    push_queries.streams[name] = stream
    return stream


def _read_more(stream: Stream, printer: _Printer, arrived: threading.Event, driver: Driver) -> bool:
    """Wait for records, and put their lines into the stream. Returns False if no records can arrive
    any more."""
    while stream.buffer.empty():
        arrived.clear()
        lines = printer.lines()
        if lines:
            stream.put(Change(pa.table({"record": pa.array(lines, pa.string())})))
        if printer.finished:
            stream.buffer.put_nowait(None)
        elif not lines and driver.threaded:
            arrived.wait(WAIT_S)
        elif not lines and not driver.run_until_idle():
            return False
    return True


@dataclass(slots=True)
class _FormatGuess:
    """The formats that can decode all bytes seen so far. A text is shown as one, although it may be
    a number: few numbers are texts."""

    part: str
    window: WindowedKey | None = None
    candidates: tuple[str, ...] = ()
    shown: bool = False
    known: Mapping[str, Callable[[bytes], str]] = field(default_factory=lambda: DESERIALIZERS)
    """What decodes each format, in the order in which they are guessed."""

    def narrow(self, data: bytes | None) -> None:
        """Remove the formats that cannot decode these bytes."""
        if data is None:
            return
        before = self.candidates if self.shown else tuple(self.known)
        inner = self._without_window(data)
        self.candidates = tuple(name for name in before if _can_decode(self.known[name], inner))
        self.shown = self.shown and self.candidates == before

    def line(self) -> str | None:
        """The line that lists the possible formats; None if they have not changed."""
        if self.shown:
            return None
        self.shown = True
        names = " or ".join(self.candidates) or "bytes"
        return (
            f"{self.part} format: {f'{self.window.kind.value}({names})' if self.window else names}"
        )

    def text(self, data: bytes | None) -> str:
        """The bytes as text."""
        if data is None:
            return "<null>"
        inner = self._without_window(data)
        first = TEXT if TEXT in self.candidates else next(iter(self.candidates), None)
        shown = inner.hex(" ") if first is None else self.known[first](inner)
        if self.window is None:
            return shown
        bounds = struct.unpack(f">{len(data[len(inner) :]) // 8}q", data[len(inner) :])
        end = bounds[0] if len(bounds) > 1 else "-"
        return f"[{shown}@{bounds[-1]}/{end}]"

    def _without_window(self, data: bytes) -> bytes:
        """A key without its window suffix: the start, or the end and the start of a session."""
        if self.window is None:
            return data
        return data[: -16 if self.window.size_ms is None else -8]


@dataclass(slots=True)
class _Printer:
    """Reads a topic from `positions` on, and formats its records."""

    statement: PrintTopic
    log: WatchedLog[pa.Table]
    positions: dict[int, int]
    key: _FormatGuess
    value: _FormatGuess
    seen: int = 0
    printed: int = 0

    @property
    def finished(self) -> bool:
        """Whether the LIMIT is reached."""
        return self.statement.limit is not None and self.printed >= self.statement.limit

    def lines(self) -> list[str]:
        """The lines of the available records that are not printed yet, by timestamp."""
        lines: list[str] = []
        for record in self._records():
            if self.finished:
                break
            self.seen += 1
            if (self.seen - 1) % (self.statement.interval or 1) == 0:
                lines += self._shown(record)
        return lines

    def _shown(self, record: Mapping[str, Any]) -> list[str]:
        self.printed += 1
        for guess, data in ((self.key, record["key"]), (self.value, record["value"])):
            guess.narrow(data)
        format_lines = [
            line for guess in (self.key, self.value) if (line := guess.line()) is not None
        ]
        time = datetime.datetime.fromtimestamp(record["timestamp"] / 1000, datetime.UTC)
        stamp = f"{time:%Y/%m/%d %H:%M:%S}.{time.microsecond // 1000:03d} Z"
        return [
            *format_lines,
            f"rowtime: {stamp}, key: {self.key.text(record['key'])}, "
            f"value: {self.value.text(record['value'])}, partition: {record['partition']}",
        ]

    def _records(self) -> list[dict[str, Any]]:
        records: list[dict[str, Any]] = []
        for partition, position in self.positions.items():
            fetched = self.log.read(self.statement.topic, partition, position, READ_MAX)
            records += [{**row, "partition": partition} for row in fetched.batch.to_pylist()]
            self.positions[partition] = fetched.next_offset
        records.sort(
            key=lambda record: (record["timestamp"], record["partition"], record["offset"])
        )
        return records


def _json(data: bytes) -> str:
    json.loads(data)
    return data.decode()


def _integer(data: bytes) -> str:
    return str(struct.unpack(">i", data)[0])


def _bigint(data: bytes) -> str:
    return str(struct.unpack(">q", data)[0])


def _double(data: bytes) -> str:
    return str(struct.unpack(">d", data)[0])


def _text(data: bytes) -> str:
    text = data.decode()
    if not text.isprintable():
        raise ValueError("not text")
    return text


DESERIALIZERS: Mapping[str, Callable[[bytes], str]] = {
    "JSON": _json,
    "KAFKA_INT": _integer,
    "KAFKA_BIGINT": _bigint,
    "KAFKA_DOUBLE": _double,
    TEXT: _text,
}
"""Of the formats without a registry, in the order of ksqlDB's guesses."""


def _deserializers(schemas: Schemas | None) -> Mapping[str, Callable[[bytes], str]]:
    """Those of the registry first: their payloads say what they are."""
    return DESERIALIZERS if schemas is None else {**printers(schemas), **DESERIALIZERS}


def _can_decode(shown: Callable[[bytes], str], data: bytes) -> bool:
    try:
        shown(data)
    except (ValueError, struct.error):
        return False
    return True
