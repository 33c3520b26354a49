"""Whether the topics of a crash run hold what they must; shares no code with the engine.

    python -m tests.crash.kafka_checker SERVERS SERVICE ACKS [--at-least-once]

Reads `numbers`, `copies`, `moved` and `counts` with a consumer of its own, committed records only,
up to the end. Prints a line for each violation and a summary; exit status 1 when there is any. The
output is checked against the brokers' copy of the input, which must itself contain every
acknowledged record at its position. If the producer has duplicated records, which was observed with
an idempotent one after broker restarts, a line INPUT reports it, and their results are expected as
often. At least once, results may be repeated, and rows of a stream may come late, but nothing may
be lost, and the last row of each group must be the newest one.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

from confluent_kafka import Consumer, IsolationLevel, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec

TOPICS = ("numbers", "copies", "moved", "counts")
ELECTING = (KafkaError.NOT_LEADER_FOR_PARTITION, KafkaError.LEADER_NOT_AVAILABLE)
SETTLE_SECONDS = 90.0
"""Longer than a coordinator waits for a silent owner of a transaction."""


@dataclass(frozen=True, slots=True)
class Record:
    """A record as it was read; `value` without case in its names."""

    partition: int
    offset: int
    key: str
    value: Mapping[str, object]

    def number(self, name: str) -> int:
        """A whole number in the value, -1 when there is none."""
        found = self.value.get(name)
        return found if isinstance(found, int) else -1


Ack = tuple[int, int | None]
"""Partition and offset; the client has no offset for a record that it sent again and that the
brokers already had."""
UNKNOWN = "None"
Topics = Mapping[str, list[Record]]
"""Records by topic, each partition's in order of offset."""


def parsed(partition: int, offset: int, key: bytes | None, value: bytes | None) -> Record:
    """A record of the client."""
    try:
        fields = {name.upper(): item for name, item in json.loads(value or b"{}").items()}
    except (ValueError, AttributeError):
        fields = {}
    return Record(partition, offset, (key or b"").decode(errors="replace"), fields)


def matches(acknowledged: Ack, topic_partition: tuple[object, int]) -> bool:
    """Whether an acknowledgement can belong to the record at a position."""
    partition, offset = acknowledged
    return partition == topic_partition[0] and offset in (None, topic_partition[1])


Origins = Mapping[int, list[tuple[object, int]]]
"""The topic partitions of the source with each number, and its offsets, ascending: one, unless its
producer has duplicated it."""


def origins_of(
    source: Iterable[Record], topic_partition: Callable[[Record], object] = attrgetter("partition")
) -> Origins:
    """Where each number lies."""
    origins: dict[int, list[tuple[object, int]]] = defaultdict(list)
    for record in source:
        origins[record.number("N")].append((topic_partition(record), record.offset))
    return origins


def check_input(topics: Topics, acks: Mapping[int, Ack]) -> list[str]:
    """Every acknowledged number is at its position."""
    topic_partitions = origins_of(topics["numbers"])
    return [
        f"number {number} was acknowledged at {topic_partition} and is lost"
        for number, topic_partition in acks.items()
        if not any(matches(topic_partition, at) for at in topic_partitions.get(number, ()))
    ]


def doubled_input(topics: Topics) -> list[str]:
    """Numbers that are in the input more than once, which no engine writes to."""
    topic_partitions = origins_of(topics["numbers"]).items()
    return [
        f"number {number} is in the input at {at}" for number, at in topic_partitions if len(at) > 1
    ]


def check_once(name: str, wanted: Iterable[int], got: Iterable[tuple[int, object]]) -> list[str]:
    """Lost, doubled and invented numbers; one that is wanted twice must be there twice. `got`: each
    with where it is; copies one after the other are of one transaction, others of several."""
    expected = Counter(wanted)
    topic_partitions: dict[int, list[object]] = defaultdict(list)
    for number, topic_partition in got:
        topic_partitions[number].append(topic_partition)
    problems = [
        f"{name}: lost {number}" for number in sorted(expected.keys() - topic_partitions.keys())
    ]
    problems += [
        f"{name}: invented {number}" for number in sorted(topic_partitions.keys() - expected.keys())
    ]
    return problems + [
        f"{name}: {len(at)} times {n} instead of {expected[n]}, at {at}"
        for n, at in topic_partitions.items()
        if n in expected and len(at) != expected[n]
    ]


def check_order(name: str, sequences: Mapping[object, list[int]], origins: Origins) -> list[str]:
    """In each sequence, the numbers of one source partition are in the order of the source; the
    second result of a duplicated number comes from its second record."""
    problems = []
    for owner, numbers in sequences.items():
        last: dict[object, tuple[int, int]] = {}
        seen: Counter[int] = Counter()
        for number in numbers:
            found = origins.get(number, [(None, -1)])
            topic_partition, offset = found[min(seen[number], len(found) - 1)]
            seen[number] += 1
            before, of = last.get(topic_partition, (-1, -1))
            if offset < before:
                problems.append(f"{name}: {owner} reordered, {number} after {of}")
            last[topic_partition] = (offset, number)
    return problems


def check_stream(
    topics: Topics, name: str, key: str, kept: Iterable[Record], source_keys: Mapping[int, str]
) -> list[str]:
    """A stream with the numbers of `kept`, each under its `key`, in the order of the input."""
    wanted = list(kept)
    expected = {record.number("N"): record for record in wanted}
    sequences: dict[object, list[int]] = defaultdict(list)
    problems = []
    for record in topics[name]:
        number = record.number("N")
        sequences[record.key].append(number)
        source = expected.get(number)
        if source is None:
            continue
        right = source_keys[number] if key == "K" else source.value.get(key)
        if record.key != right:
            problems.append(f"{name}: {number} has key {record.key} instead of {right}")
    got = ((record.number("N"), (record.partition, record.offset)) for record in topics[name])
    problems += check_once(name, (record.number("N") for record in wanted), got)
    homes = {(record.key, record.partition) for record in topics[name]}
    homes_of = Counter(owner for owner, _ in homes)
    problems += [f"{name}: {k} is in {many} partitions" for k, many in homes_of.items() if many > 1]
    return problems + check_order(name, sequences, origins_of(wanted))


def check_counts(topics: Topics) -> list[str]:
    """Each change of a group adds one more number to it: all of them, each once, those of one
    partition with the same G in their order (by G they went through a partition of their own)."""
    problems = []
    group_of = {record.number("N"): record.value.get("H") for record in topics["numbers"]}
    added: dict[object, list[int]] = defaultdict(list)
    count: dict[str, int] = defaultdict(int)
    total: dict[str, int] = defaultdict(int)
    for record in topics["counts"]:
        group, c, s = record.key, record.number("C"), record.number("S")
        if c != count[group] + 1:
            problems.append(f"counts: {group} goes from {count[group]} to {c}")
        number = s - total[group]
        if group_of.get(number) != group:
            problems.append(f"counts: {group} at {c} has sum {s}, which is {number} more")
        added[group].append(number)
        count[group], total[group] = c, s
    got = ((number, group) for group, numbers in added.items() for number in numbers)
    problems += check_once("counts", (r.number("N") for r in topics["numbers"]), got)
    origins = origins_of(topics["numbers"], lambda r: (r.partition, r.value.get("G")))
    return problems + check_order("counts", added, origins)


def check(topics: Topics, acks: Mapping[int, Ack]) -> list[str]:
    """All violations."""
    source = topics["numbers"]
    keys = {record.number("N"): record.key for record in source}
    kept = [record for record in source if record.number("N") % 3]
    return [
        *check_input(topics, acks),
        *check_stream(topics, "copies", "K", kept, keys),
        *check_stream(topics, "moved", "G", source, keys),
        *check_counts(topics),
    ]


def check_repeated(
    topics: Topics, name: str, key: str, kept: Iterable[Record], source_keys: Mapping[int, str]
) -> list[str]:
    """A stream with the numbers of `kept`, each at least once and under its `key`."""
    expected = {record.number("N"): record for record in kept}
    got = {record.number("N") for record in topics[name]}
    problems = [f"{name}: lost {number}" for number in sorted(expected.keys() - got)]
    problems += [f"{name}: invented {number}" for number in sorted(got - expected.keys())]
    for record in topics[name]:
        number = record.number("N")
        source = expected.get(number)
        right = source_keys.get(number) if key == "K" or source is None else source.value.get(key)
        if source is not None and record.key != right:
            problems.append(f"{name}: {number} has key {record.key} instead of {right}")
    return problems


def check_last_counts(topics: Topics) -> list[str]:
    """The last row of each group contains all of its numbers. A count never falls for good: an
    older row behind a newer one would have been written by a process that had lost its task."""
    least: Counter[object] = Counter()
    least_sum: Counter[object] = Counter()
    for record in topics["numbers"]:
        least[record.value.get("H")] += 1
        least_sum[record.value.get("H")] += record.number("N")
    last = {record.key: record for record in topics["counts"]}
    highest: Counter[object] = Counter()
    for record in topics["counts"]:
        highest[record.key] = max(highest[record.key], record.number("C"))
    problems = [f"counts: invented {group}" for group in last if group not in least]
    for group, count in least.items():
        row = last.get(str(group))
        if row is None:
            problems.append(f"counts: lost {group}")
        elif row.number("C") < count or row.number("S") < least_sum[group]:
            problems.append(f"counts: {group} ends at {row.value} of {count}, {least_sum[group]}")
        elif row.number("C") < highest[group]:
            problems.append(f"counts: {group} ends at {row.value}, but was at {highest[group]}")
    return problems


def check_at_least_once(topics: Topics, acks: Mapping[int, Ack]) -> list[str]:
    """All violations of at least once."""
    source = topics["numbers"]
    keys = {record.number("N"): record.key for record in source}
    kept = [record for record in source if record.number("N") % 3]
    return [
        *check_input(topics, acks),
        *check_repeated(topics, "copies", "K", kept, keys),
        *check_repeated(topics, "moved", "G", source, keys),
        *check_last_counts(topics),
    ]


def read_acks(path: Path) -> dict[int, Ack]:
    """What was acknowledged, by number."""
    lines = (line.split() for line in path.read_text().splitlines())
    return {
        int(number): (int(partition), None if offset == UNKNOWN else int(offset))
        for number, partition, offset in lines
    }


def ends_of(
    servers: str, names: Iterable[str], *, settled: bool = True
) -> dict[tuple[str, int], int]:
    """The ends of all partitions, after all their transactions have ended; unless `settled`, of the
    records committed at this moment."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 2})
    deadline = time.monotonic() + SETTLE_SECONDS
    listed = admin.list_topics(timeout=30).topics
    topic_partitions = [
        TopicPartition(name, part) for name in names for part in listed[name].partitions
    ]
    wanted = {topic_partition: OffsetSpec.latest() for topic_partition in topic_partitions}
    while True:
        try:
            committed, written = (
                {(at.topic, at.partition): f.result().offset for at, f in futures.items()}
                for futures in (
                    admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_COMMITTED),
                    admin.list_offsets(wanted, isolation_level=IsolationLevel.READ_UNCOMMITTED),
                )
            )
        except KafkaException as error:
            # A broker that has just come back.
            if error.args[0].code() not in ELECTING or time.monotonic() > deadline:
                raise
            time.sleep(0.2)
            continue
        if committed == written or not settled:
            return committed
        if time.monotonic() > deadline:
            raise SystemExit(f"VIOLATION a transaction stays open: {committed} of {written}")
        time.sleep(0.2)


def read(servers: str, names: Iterable[str], *, settled: bool = True) -> dict[str, list[Record]]:
    """All committed records; see `ends_of`."""
    names = tuple(names)
    ends = ends_of(servers, names, settled=settled)
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "crash-checker",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
            "log_level": 2,
        }
    )
    found: dict[str, list[Record]] = {name: [] for name in names}
    open_places = {topic_partition for topic_partition, end in ends.items() if end}
    following: dict[tuple[str, int], int] = defaultdict(int)
    consumer.assign([TopicPartition(*topic_partition, 0) for topic_partition in open_places])
    while open_places:
        for message in consumer.consume(5000, 1.0):
            topic_partition = (message.topic() or "", message.partition() or 0)
            error, offset = message.error(), message.offset() or 0
            if error is None:
                # The client may hand out a record again when a leader has moved.
                if offset < following[topic_partition]:
                    continue
                following[topic_partition] = offset + 1
                record = parsed(topic_partition[1], offset, message.key(), message.value())
                found[topic_partition[0]].append(record)
            elif error.code() != KafkaError._PARTITION_EOF:
                raise KafkaException(error)
            elif offset >= ends[topic_partition] or not settled:
                open_places.discard(topic_partition)
    consumer.close()
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("service")
    parser.add_argument("acks", type=Path)
    parser.add_argument("--at-least-once", action="store_true")
    given = parser.parse_args()
    full = {name: f"{given.service}.{name}" for name in TOPICS}
    records = read(given.servers, full.values())
    topics = {name: records[full[name]] for name in TOPICS}
    acks = read_acks(given.acks)
    problems = (check_at_least_once if given.at_least_once else check)(topics, acks)
    for remark in doubled_input(topics)[:50]:
        sys.stdout.write(f"INPUT {remark}\n")
    for problem in problems[:50]:
        sys.stdout.write(f"VIOLATION {problem}\n")
    if len(problems) > 50:
        sys.stdout.write(f"VIOLATION and {len(problems) - 50} more\n")
    sizes = {name: len(found) for name, found in topics.items()}
    sys.stdout.write(json.dumps({"acknowledged": len(acks), **sizes}) + "\n")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
