"""The topics of a test driver as objects, in the manner of Kafka Streams' TestInputTopic and
TestOutputTopic."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from millstream.log.log import Log, Topic
from millstream.testing.records import GivenHeaders, OutputRecord
from millstream.testing.times import Duration, Time, duration_ms
from millstream_parser import statements as s


def create_missing_topic(statement: s.CreateSource, log: Log[pa.Table]) -> None:
    """Create the topic of CREATE STREAM or TABLE with one partition if it is missing and the
    statement has no PARTITIONS, because a test has no producer that would have created it."""
    given = dict(statement.properties)
    topic = given.get("KAFKA_TOPIC")
    if topic and "PARTITIONS" not in given and log.topic(str(topic)) is None:
        log.create_topic(Topic(str(topic), 1))


class InputTopic:
    """A topic to pipe records into; see `TopologyTestDriver.input`."""

    def __init__(
        self, name: str, pipe: Callable[..., None], time: int | None, advance: int
    ) -> None:
        self.name = name
        self._pipe = pipe
        self._time = time
        self._advance = advance

    def pipe(
        self,
        value: object = None,
        *,
        key: object = None,
        timestamp: Time | None = None,
        headers: GivenHeaders = (),
        partition: int | None = None,
    ) -> None:
        """Pipe a record, or each of a list: see `TopologyTestDriver.pipe`. Those without a
        timestamp get the time of this topic, which advances by each."""
        values = value if isinstance(value, list) and self._time is not None else [value]
        for each in values:
            time = self._time if timestamp is None else timestamp
            self._pipe(
                self.name,
                each,
                key=key,
                timestamp=time,
                headers=headers,
                partition=partition,
            )
            if timestamp is None and self._time is not None:
                self._time += self._advance

    def advance_time(self, duration: Duration) -> None:
        """Advance the time of the next record. Only for a topic with a time of its own."""
        if self._time is None:
            raise ValueError(f"The input {self.name} has no time of its own: give it `start`")
        self._time += duration_ms(duration, "advance")


class OutputTopic:
    """A topic to read records from: iterate for those that were not read yet. See
    `TopologyTestDriver.output`."""

    def __init__(self, name: str, fetch: Callable[[], list[OutputRecord]]) -> None:
        self.name = name
        self._fetch = fetch
        self._unread: deque[OutputRecord] = deque()

    def read(self) -> OutputRecord:
        """The next record. Raises LookupError if there is none."""
        if not len(self):
            raise LookupError(f"There is no record in {self.name} that was not read")
        return self._unread.popleft()

    def read_key_value(self) -> tuple[Any, Any]:
        """Key and value of the next record. Raises LookupError if there is none."""
        record = self.read()
        return record.key, record.value

    def read_value(self) -> Any:
        """The value of the next record. Raises LookupError if there is none."""
        return self.read().value

    def read_all(self) -> list[OutputRecord]:
        """All records that were not read yet."""
        return list(self)

    def read_key_values(self) -> list[tuple[Any, Any]]:
        """Keys and values of all records that were not read yet."""
        return [(record.key, record.value) for record in self]

    def read_values(self) -> list[Any]:
        """The values of all records that were not read yet."""
        return [record.value for record in self]

    def read_latest(self) -> dict[Any, Any]:
        """The value of each key after all records that were not read yet: None for a tombstone. A
        windowed key is a tuple of the key and its `Window`."""
        return {
            record.key if record.window is None else (record.key, record.window): record.value
            for record in self
        }

    @property
    def empty(self) -> bool:
        """Whether all records were read."""
        return not len(self)

    def __len__(self) -> int:
        self._unread.extend(self._fetch())
        return len(self._unread)

    def __iter__(self) -> Iterator[OutputRecord]:
        while len(self):
            yield self._unread.popleft()
