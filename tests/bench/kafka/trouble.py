"""Whether trouble of a broker, a topic, a disk or a client holds up what is well.

    python -m tests.bench.kafka.trouble [--seconds 60] [--at-least-once]

An instance on three brokers runs a filter, whose topics have a replica on each. It gets a record
every 50 ms, and for each the milliseconds count until its result can be read (read_committed).
Of the longest time, the table also has the part behind the broker's acknowledgement of the record.
Beside it, one after another:

* `leader`: a query that writes to a topic without further replicas, whose broker is killed;
* `away`: all brokers are stopped (SIGSTOP) and go on after that time;
* `client`: a push query whose client reads nothing, over much larger records;
* `disk`: a count over many keys whose state can grow no more, as on a full disk.

At the end, each record of the filter must have arrived once and in order; at least once, each must
have arrived.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

import millstream
from millstream.query.results import Stream
from millstream.runtime.spec import QueryState
from tests.kafka.run import cluster, tool
from tests.patience import until

BROKERS = 3
GUARANTEES = ("exactly_once_v2", "at_least_once")
PAUSE_S = 0.05
SETTLE_S = 10.0
BUFFER_BYTES = 4 << 20
LARGE = 20_000
"""The size of a record for the client that does not read."""
STATE_ROOM = 1 << 20
"""How many bytes the state may grow before its disk is full."""
SETUP = """
CREATE STREAM calm (n BIGINT, sent BIGINT)
  WITH (kafka_topic='calm', partitions=1, replicas=3, value_format='JSON');
CREATE STREAM calm_out WITH (kafka_topic='calm_out', replicas=3) AS
  SELECT n, sent FROM calm WHERE n >= 0;
CREATE STREAM lone_in (n BIGINT)
  WITH (kafka_topic='lone_in', partitions=1, replicas=3, value_format='JSON');
CREATE STREAM lone WITH (kafka_topic='lone', replicas=1) AS SELECT n FROM lone_in;
CREATE STREAM large (n BIGINT, text STRING)
  WITH (kafka_topic='large', partitions=1, replicas=3, value_format='JSON');
CREATE STREAM many (k STRING KEY, n BIGINT)
  WITH (kafka_topic='many', partitions=1, replicas=3, value_format='JSON');
CREATE TABLE counts WITH (kafka_topic='counts', replicas=3) AS
  SELECT k, COUNT(*) AS c FROM many GROUP BY k;
"""


@dataclass
class Probe:
    """Sends records to the filter, and takes the time until each has arrived."""

    servers: str
    sent: dict[int, float] = field(default_factory=dict)
    acknowledged: dict[int, float] = field(default_factory=dict)
    arrived: list[tuple[int, float]] = field(default_factory=list)
    _end: threading.Event = field(default_factory=threading.Event)

    @contextmanager
    def running(self) -> Iterator[None]:
        """Send and read in two threads; in the end, wait until all have arrived."""
        sending = threading.Thread(target=self._send)
        reading = threading.Thread(target=self._read, daemon=True)
        sending.start()
        reading.start()
        try:
            yield
        finally:
            self._end.set()
            sending.join()
        until(lambda: len({number for number, _ in self.arrived}) >= len(self.sent))

    def milliseconds(self, start: float, end: float) -> tuple[list[float], list[float]]:
        """Of the records that were sent in this time: since they were sent, and acknowledged."""
        first = dict(reversed(self.arrived))
        among = [number for number, at in self.sent.items() if start <= at < end]
        return (
            [1000 * (first[number] - self.sent[number]) for number in among],
            [1000 * (first[number] - self.acknowledged[number]) for number in among],
        )

    def _send(self) -> None:
        producer = Producer(
            {
                "bootstrap.servers": self.servers,
                "enable.idempotence": True,
                "linger.ms": 0,
                "log_level": 0,
            }
        )
        number = 0
        while not self._end.wait(PAUSE_S):
            self.sent[number] = time.monotonic()
            producer.produce(
                "calm",
                json.dumps({"N": number, "SENT": 0}),
                on_delivery=partial(self._delivered, number),
            )
            producer.poll(0)
            number += 1
        producer.flush()

    def _delivered(self, number: int, error: KafkaError | None, _: Message) -> None:
        if error is None:
            self.acknowledged[number] = time.monotonic()

    def _read(self) -> None:
        consumer = Consumer(
            {
                "bootstrap.servers": self.servers,
                "group.id": "probe",
                "isolation.level": "read_committed",
                "enable.auto.commit": False,
                "fetch.wait.max.ms": 50,
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition("calm_out", 0, 0)])
        while True:
            message = consumer.poll(1.0)
            if message is not None and message.error() is None:
                number = json.loads(message.value() or b"")["N"]
                self.arrived.append((number, time.monotonic()))


@dataclass(frozen=True)
class Place:
    """Where it all runs. `brokers`: the environment of kafka-local for them."""

    database: millstream.Database
    servers: str
    brokers: dict[str, str]
    state: Path
    seconds: float


def well(place: Place) -> str:
    """No trouble, to compare with."""
    time.sleep(place.seconds)
    return ""


def leader(place: Place) -> str:
    """The broker of the only replica is killed, and started again."""
    described = AdminClient({"bootstrap.servers": place.servers}).list_topics("lone", timeout=30)
    number = str(described.topics["lone"].partitions[0].leader)
    tool(place.brokers, "kill", number)
    sent, end = 0, time.monotonic() + place.seconds
    while time.monotonic() < end:
        place.database.execute("INSERT INTO lone_in (n) VALUES (?);", (sent,))
        sent += 1
        time.sleep(1.0)
    tool(place.brokers, "start-one", number)
    back = time.monotonic()
    until(lambda: records(place.servers, "lone") == sent)
    return (
        f"the other query's {sent} records were there {time.monotonic() - back:.1f} s after the"
        " broker was back"
    )


def away(place: Place) -> str:
    """Nobody answers."""
    for number in range(1, BROKERS + 1):
        tool(place.brokers, "kill", str(number), "--signal", "STOP")
    time.sleep(place.seconds)
    for number in range(1, BROKERS + 1):
        tool(place.brokers, "kill", str(number), "--signal", "CONT")
    time.sleep(SETTLE_S)
    return f"the records wait for the brokers up to {place.seconds:.0f} s"


def client(place: Place) -> str:
    """A client that reads nothing, and one that reads all, after the time."""
    idle = place.database.execute("SELECT * FROM large EMIT CHANGES;")
    reader = place.database.execute("SELECT n FROM large EMIT CHANGES;")
    assert isinstance(idle, Stream) and isinstance(reader, Stream)
    sent = steadily(place, lambda number: ("large", None, {"N": number, "TEXT": "x" * LARGE}), 10)
    read = [row[0] for row in islice(reader, sent)]
    reader.close()
    ended = "was not disconnected"
    try:
        deque(islice(idle, sent), maxlen=0)
    except millstream.MillstreamError as error:
        ended = f"got the error {error.code}"
    complete = read == list(range(sent))
    return f"it {ended}; one that reads has all {sent} rows in order: {complete}"


def disk(place: Place) -> str:
    """This process may not make its files much larger than that of the state is now."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    room = place.state.stat().st_size + STATE_ROOM
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, limits[1]))
    number = steadily(place, lambda number: ("many", f"{number:>100}", {"N": number}), 200)
    full = states(place.database)
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    room = time.monotonic()
    until(lambda: set(states(place.database).values()) == {QueryState.RUNNING})
    stopped = ", ".join(name for name, state in full.items() if state is not QueryState.RUNNING)
    return (
        f"{number} keys; not running: {stopped or 'none'}; all run again"
        f" {time.monotonic() - room:.1f} s after there was room"
    )


def steadily(
    place: Place, record: Callable[[int], tuple[str, str | None, dict[str, object]]], count: int
) -> int:
    """Send so many records at a time, for the time of the phase; how many they are."""
    producer = Producer({"bootstrap.servers": place.servers, "log_level": 0})
    sent, end = 0, time.monotonic() + place.seconds
    while time.monotonic() < end:
        for number in range(sent, sent + count):
            topic, key, value = record(number)
            producer.produce(topic, json.dumps(value), key=key)
        sent += count
        producer.flush()
        time.sleep(PAUSE_S)
    return sent


def states(database: millstream.Database) -> dict[str, QueryState]:
    """How each query is, by what it writes."""
    return {each.query_id.split("_")[1]: each.state for each in database.engine.statuses()}


def records(servers: str, topic: str) -> int:
    """The committed records of a topic of one partition."""
    consumer = Consumer(
        {"bootstrap.servers": servers, "group.id": "count", "isolation.level": "read_committed",
         "enable.partition.eof": True, "enable.auto.commit": False, "log_level": 0}
    )  # fmt: skip
    consumer.assign([TopicPartition(topic, 0, 0)])
    found = 0
    while (message := consumer.poll(5.0)) is not None and message.error() is None:
        found += 1
    consumer.close()
    return found


KINDS = {"well": well, "leader": leader, "away": away, "client": client, "disk": disk}
TROUBLES = [name for name in KINDS if name != "well"]


def report(name: str, found: list[float], behind: list[float], note: str) -> None:
    """A line of the table."""
    cuts = statistics.quantiles(found, n=100)
    print(
        f"| {name} | {len(found)} | {statistics.median(found):.0f} | {cuts[98]:.0f} |"
        f" {max(found):.0f} | {max(behind):.0f} | {note} |",
        flush=True,
    )


def run(seconds: float, kinds: list[str], guarantee: str) -> int:
    """Print the table; 1 when a record of the filter is missing, doubled or out of order."""
    properties = {"processing.guarantee": guarantee}
    with cluster(BROKERS) as (servers, brokers), tempfile.TemporaryDirectory() as folder:
        state = Path(folder, "state.db")
        settings = millstream.EngineSettings(commit_interval_ms=100, push_buffer_bytes=BUFFER_BYTES)
        with millstream.connect(
            str(state), kafka=servers, settings=settings, properties=properties
        ) as database:
            database.execute(SETUP)
            probe = Probe(servers)
            place = Place(database, servers, brokers, state, seconds)
            phases = []
            with probe.running():
                for name in kinds:
                    time.sleep(SETTLE_S)
                    start = time.monotonic()
                    note = KINDS[name](place)
                    phases.append((name, start, time.monotonic(), note))
    print("| trouble | records | median ms | p99 | most | most behind the acknowledgement | |")
    print("|--|--:|--:|--:|--:|--:|--|")
    for name, start, end, note in phases:
        report(name, *probe.milliseconds(start, end), note)
    arrived = [number for number, _ in probe.arrived]
    lost = probe.sent.keys() - set(arrived)
    ordered = arrived == sorted(probe.sent)
    print(f"{len(probe.sent)} records of the filter, {guarantee}: {len(lost)} lost,", end=" ")
    print("each once and in order" if ordered else f"{len(arrived)} arrived")
    return 1 if lost or (guarantee == GUARANTEES[0] and not ordered) else 0


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", nargs="*", choices=TROUBLES, default=TROUBLES)
    parser.add_argument("--at-least-once", action="store_true", help="instead of exactly once")
    options = parser.parse_args()
    return run(options.seconds, ["well", *options.only], GUARANTEES[options.at_least_once])


if __name__ == "__main__":
    sys.exit(main())
