"""Readers, fetchers and brokers without threads, clients or clocks: all that happens is drawn from
a seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka import KafkaError, KafkaException, TopicPartition

from millstream.log.kafka import fetcher as fetcher_module
from millstream.log.kafka import partition_buffer, reader
from millstream.log.kafka.fetcher import Fetcher
from millstream.log.kafka.intake import News, PartitionChunk
from millstream.log.kafka.partition_buffer import Cursor
from millstream.log.kafka.reader import KafkaReader, ReaderContext
from millstream.log.kafka.shared_looks import SharedLooks
from millstream.log.log import Fetched
from millstream.log.log import TopicPartition as Place
from millstream.log.watchers import News as LogNews
from millstream.model.batch import RAW_SCHEMA
from millstream.model.errors import MillstreamError

PLACES: tuple[Place, ...] = (("t", 0), ("t", 1), ("u", 0))
RECORD = 100
"""Bytes of a value."""
CHUNK = 5
"""Records that come together at most."""
END = KafkaError(KafkaError._PARTITION_EOF)
REFUSED = KafkaError(KafkaError.TOPIC_AUTHORIZATION_FAILED)
Record = tuple[int, int]
"""Its offset, and its number: all records of all partitions are counted as they are written."""


def table(records: Sequence[Record]) -> pa.Table:
    """Raw records; the time of each is its number."""
    offsets = pa.array([offset for offset, _ in records], pa.int64())
    numbers = pa.array([number for _, number in records], pa.int64())
    values = pa.array([b"v" * RECORD] * len(records), pa.binary())
    columns = {"offset": offsets, "timestamp": numbers, "value": values}
    return pa.Table.from_arrays(
        [columns.get(f.name, pa.nulls(len(records), f.type)) for f in RAW_SCHEMA], schema=RAW_SCHEMA
    )


@dataclass
class Brokers:
    """Partitions with gaps between their offsets; everything is readable at once."""

    draw: random.Random
    records: dict[Place, list[Record]] = field(default_factory=lambda: {p: [] for p in PLACES})
    ends: dict[Place, int] = field(default_factory=lambda: dict.fromkeys(PLACES, 0))
    written: int = 0
    refused: set[Place] = field(default_factory=set)
    """Partitions of which the next fetch is an error, once."""
    broken: bool = False
    """The next poll of any consumer fails as a whole, once."""
    looks: list[Callable[[], None]] = field(default_factory=list)
    """The requests for ends that are not answered."""

    def append(self, place: Place, count: int) -> None:
        """Write records, and perhaps a marker behind them."""
        for _ in range(count):
            self.records[place].append((self.ends[place], self.written))
            self.written += 1
            self.ends[place] += self.draw.choice((1, 1, 1, 2, 4))

    def after(self, place: Place, offset: int) -> list[Record]:
        """The records from an offset on."""
        return [record for record in self.records[place] if record[0] >= offset]

    def check(self, _place: Place) -> None:
        """See `Topics`."""

    def look(
        self, places: Sequence[Place], answered: Callable[[Mapping[Place, int]], None], **_: Any
    ) -> None:
        """See `Topics`: a response that comes later."""
        self.looks.append(lambda: answered({place: self.ends[place] for place in places}))


class Client:
    """A consumer as the polling thread uses it. It refuses a second assignment of a partition, for
    it might return records of the first one."""

    def __init__(self, brokers: Brokers) -> None:
        self.consumer: Any = self
        self.closed = self.stalled = False
        self.positions: dict[Place, int] = {}
        self.assigned: list[Place] = []
        self._brokers = brokers
        self._paused: set[Place] = set()
        self._ended: dict[Place, int] = {}

    def assign(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """See `Intake`."""
        for wanted in topic_partitions:
            place = wanted.topic, wanted.partition
            assert place not in self.assigned, "assigned again"
            self.assigned.append(place)
            self.positions[place] = wanted.offset

    def incremental_unassign(self, topic_partitions: Sequence[TopicPartition]) -> None:
        for gone in topic_partitions:
            del self.positions[gone.topic, gone.partition]

    def pause(self, topic_partitions: Sequence[TopicPartition]) -> None:
        self._paused |= {(paused.topic, paused.partition) for paused in topic_partitions}

    def resume(self, topic_partitions: Sequence[TopicPartition]) -> None:
        """The end is reported again afterwards."""
        for resumed in topic_partitions:
            self._paused.discard((resumed.topic, resumed.partition))
            self._ended.pop((resumed.topic, resumed.partition), None)

    def take(self, _seconds: float) -> Sequence[PartitionChunk]:
        """See `Intake`: something of some of the partitions."""
        assert not self.closed
        if self._brokers.broken:
            self._brokers.broken = False
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))
        if self.stalled:
            return ()
        draw = self._brokers.draw
        reading = sorted(self.positions.keys() - self._paused)
        chosen = draw.sample(reading, draw.randint(0, len(reading)))
        return [piece for place in chosen for piece in self._fetched(place)]

    def _fetched(self, place: Place) -> list[PartitionChunk]:
        if place in self._brokers.refused:
            self._brokers.refused.discard(place)
            return [(place, News(REFUSED, 0))]
        draw, at = self._brokers.draw, self.positions[place]
        found = self._brokers.after(place, at)[: draw.randint(1, CHUNK)]
        pieces: list[PartitionChunk] = [(place, table(found))] if found else []
        if found:
            self.positions[place] = found[-1][0] + 1
        end = self._brokers.ends[place]
        if not self._brokers.after(place, self.positions[place]) and self._ended.get(place) != end:
            self.positions[place] = self._ended[place] = end
            pieces.append((place, News(END, end)))
        return pieces

    def close(self) -> None:
        """See `Intake`."""
        self.closed = True


class SteppedFetcher(Fetcher):
    """A fetcher without a thread: the test calls each step of its polling."""

    opening: Callable[[], Client]

    client: Client | None = None
    opened = 0
    between: Callable[[], None]
    """Called between a reader's steps, where it does not hold the lock."""

    def move(self, cursor: Cursor, offset: int) -> bool:
        moved = super().move(cursor, offset)
        self.between()
        return moved

    def _start(self) -> None:
        if self._thread is None and self._partitions.reading:
            running: Any = self
            self._thread = running

    def step(self) -> None:
        """Open the consumer, poll it once, or close it."""
        if self._thread is None:
            return
        try:
            if self.client is None:
                if self._began():
                    self.client = self.opening()
                    self.opened += 1
            elif self._polled(self.client, 0.0) is None:
                self._close_client()
        except KafkaException as error:
            self._close_client()
            self._fail(fetcher_module.translated(error, "read"))

    def _close_client(self) -> None:
        assert self.client is not None
        self.client.close()
        self.client = None


class Caller:
    """A reader with its positions, which checks everything that it reads against the brokers."""

    def __init__(self, world: World, together: bool, positions: Mapping[Place, int]) -> None:
        self.world = world
        self.together = together
        self.positions = dict(positions)
        self.reader = KafkaReader(world.context, world.main, world.open_catch_up)
        self.awake = True
        self.errors: list[MillstreamError] = []
        self.consumed = 0

    def round(self, quota: int, held: float = 0.0) -> bool:
        """Read all partitions once and consume what was read, but for records that are held back;
        returns whether there were any. A query does nothing with a read that lacks records."""
        self.awake = False
        self.reader.begin(self.positions if self.together else ())
        found = {}
        for place, offset in self.positions.items():
            try:
                found[place] = self.reader.read(*place, offset, quota)
            except MillstreamError as error:
                self.errors.append(error)
                self.awake = True
                return False
            self._check(place, found[place])
        # It may have been told of something meanwhile.
        self.awake |= any(read.count or read.next_offset > self.positions[p]
                          for p, read in found.items())  # fmt: skip
        if self.together and any(read.awaited for read in found.values()):
            return False
        self._consume(found, held)
        return any(read.count for read in found.values())

    def _check(self, place: Place, read: Fetched[pa.Table]) -> None:
        """What was read are the next records, all of them up to the following position."""
        brokers, offset = self.world.brokers, self.positions[place]
        there = brokers.after(place, offset)
        got = list(zip(read.batch["offset"].to_pylist(), read.batch["timestamp"].to_pylist(),
                       strict=True))  # fmt: skip
        assert got == there[: len(got)], f"{place} from {offset}: {got}, not {there[: len(got)]}"
        left = there[len(got) :]
        assert not left or read.next_offset <= left[0][0], f"{place}: records were left out"
        if read.end:
            assert read.next_offset >= self.world.written.get(place, 0), "the end is none"

    def _consume(self, found: Mapping[Place, Fetched[pa.Table]], held: float) -> None:
        numbers = {p: read.batch["timestamp"].to_pylist() for p, read in found.items()}
        open_ends = [numbers[p][-1] if numbers[p] else -1 for p, r in found.items() if not r.end]
        last = min(open_ends, default=self.world.brokers.written) if self.together else None
        for place, read in found.items():
            own = [n for n in numbers[place] if last is None or n <= last]
            taken = len(own)
            while taken and self.world.draw.random() < held:
                taken -= 1
            if taken == read.count:
                self.positions[place] = read.next_offset
            elif taken:
                self.positions[place] = read.batch["offset"][taken - 1].as_py() + 1
            self.consumed += taken
        if self.together and last is not None:
            self._check_order(numbers, last)

    def _check_order(self, numbers: Mapping[Place, list[int]], last: int) -> None:
        """No record was read before an earlier one of another partition."""
        newest = max((n for own in numbers.values() for n in own if n <= last), default=-1)
        got = {n for own in numbers.values() for n in own}
        for place in self.positions:
            for _, number in self.world.brokers.records[place]:
                consumed = number not in got and number <= newest
                assert not consumed or self._passed(place, number), "read out of order"

    def _passed(self, place: Place, number: int) -> bool:
        offsets = {n: offset for offset, n in self.world.brokers.records[place]}
        return offsets[number] < self.positions[place]

    @property
    def done(self) -> bool:
        """Whether everything is consumed."""
        return all(not self.world.brokers.after(*item) for item in self.positions.items())


class World:
    """Brokers, the main fetcher, those that catch up, and callers."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch, room: int = 1 << 20) -> None:
        self.draw = random.Random(seed)
        self.now = 1000.0
        clock = SimpleNamespace(monotonic=lambda: self.now)
        for module in (fetcher_module, reader, partition_buffer):
            patch.setattr(module, "time", clock)
        patch.setattr(fetcher_module, "_POLL_SECONDS", 0.0)
        self.brokers = Brokers(self.draw)
        self.written: dict[Place, int] = {}
        topics: Any = self.brokers
        looks = SharedLooks(
            topics.look, lambda places: self.arrived(LogNews(frozenset(t for t, _ in places)))
        )
        self.context = ReaderContext(topics, self.written, looks, lambda place: True)
        self.room = room
        self.interrupted = 0.0
        """How often a polling thread does a step within the step of a reader."""
        self.catching_up: list[SteppedFetcher] = []
        self.clients: list[Client] = []
        self.callers: list[Caller] = []
        self.main = self._fetcher()

    def _fetcher(self) -> SteppedFetcher:
        made = SteppedFetcher({}, self.arrived, lambda: self.room)
        made.opening = self._client
        made.between = lambda: made.step() if self.draw.random() < self.interrupted else None
        return made

    def _client(self) -> Client:
        self.clients.append(Client(self.brokers))
        return self.clients[-1]

    def open_catch_up(self) -> SteppedFetcher:
        """A fetcher for a reader that is behind."""
        self.catching_up.append(self._fetcher())
        return self.catching_up[-1]

    def caller(self, positions: Mapping[Place, int], *, together: bool = False) -> Caller:
        """A new reader."""
        self.callers.append(Caller(self, together, positions))
        return self.callers[-1]

    def arrived(self, news: LogNews) -> None:
        """Wake the callers that read a topic."""
        for caller in self.callers:
            caller.awake |= any(topic in news.grown for topic, _ in caller.positions)

    def append(self, place: Place, count: int, *, own: bool = False) -> None:
        """Write records, `own`: by this process, whose readers are told of it."""
        self.brokers.append(place, count)
        if own and count:
            self.written[place] = self.brokers.records[place][-1][0] + 1
            self.arrived(LogNews(frozenset({place[0]})))

    def step(self) -> None:
        """One step of every fetcher, and the answers to what was asked."""
        for fetcher in (self.main, *self.catching_up):
            fetcher.step()
        looks, self.brokers.looks = self.brokers.looks, []
        for answer in looks:
            answer()

    @property
    def open_consumers(self) -> int:
        """Consumers that are not closed."""
        return sum(not client.closed for client in self.clients)

    def held(self) -> int:
        """Bytes that the main fetcher holds."""
        return sum(buffer.bytes for buffer in self.main._partitions.buffers.values())
