"""Whether a table that was made with back-fill is what it must be; shares no code with the engine.

The numbers of one group are those with the same remainder modulo KEYS x PARTS; they come from one
partition of the input, in order. So each change of a group is its count and sum after one more of
them, by a formula: a gap or a duplicate appears in the first change behind it.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tests.crash.kafka_checker import Record, check_input, doubled_input, read, read_acks
from tests.crash.kafka_input import KEYS, PARTS

GROUPS = KEYS * PARTS
_GONE = frozenset(
    {
        KafkaError.UNKNOWN_TOPIC_OR_PART,
        KafkaError.UNKNOWN_TOPIC_ID,
        KafkaError._UNKNOWN_TOPIC,
        KafkaError._UNKNOWN_PARTITION,
        KafkaError._AUTO_OFFSET_RESET,
    }
)
"""The error for a topic that is deleted while it is read."""


def first_of(group: str) -> int:
    """The first number of a group, as `3h1`: key 3, part h1; -1 where there is no such group."""
    key, _, part = group.partition("h")
    rests = (key, part)
    return next((n for n in range(GROUPS) if rests == (str(n % KEYS), str(n % PARTS))), -1)


def total(first: int, count: int) -> int:
    """The sum of so many numbers of a group."""
    return count * first + GROUPS * (count * (count - 1) // 2)


def check_changes(changes: Iterable[Record]) -> list[str]:
    """Each change of a group is a longer stretch of its numbers, unless it is the first by a newer
    query; those of a partition by an older one come before."""
    reached: dict[tuple[str, int], int] = defaultdict(int)
    newest: dict[int, int] = {}
    problems = []
    for record in changes:
        group, count, found = record.key, record.number("C"), record.number("S")
        first, version = first_of(group), record.number("V")
        before = reached[group, version]
        if first < 0 or count <= before or found != total(first, count):
            problems.append(f"counts: {group} goes from {before} to {count} with the sum {found}")
        if version < newest.get(record.partition, version):
            problems.append(f"counts: {group} comes from {version}, which was replaced")
        reached[group, version] = count
        newest[record.partition] = version
    return problems


def check_one_query(changes: Iterable[Record]) -> list[str]:
    """The last changes of all groups are by one query."""
    versions = {record.key: record.number("V") for record in changes}
    mixed = len(set(versions.values())) > 1
    return [f"counts: a mix of queries: {versions}"] if mixed else []


def check_whole(changes: Iterable[Record], numbers: int) -> list[str]:
    """The last change of each group has all of its numbers below `numbers`."""
    last = {record.key: record.number("C") for record in changes}
    wanted = {f"{n % KEYS}h{n % PARTS}": len(range(n, numbers, GROUPS)) for n in range(GROUPS)}
    wanted = {group: count for group, count in wanted.items() if count}
    return [] if last == wanted else [f"counts: {last} where {wanted} should be"]


def check_now(servers: str, service: str) -> tuple[list[str], int]:
    """The violations in the table as it is while instances work on it, and its changes; one that is
    dropped just now has none. Call this while it is not being replaced."""
    name = f"{service}.counts"
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 2})
    if name not in admin.list_topics(timeout=30).topics:
        return [], 0
    try:
        changes = read(servers, (name,), settled=False)[name]
    except KafkaException as error:
        if error.args[0].code() not in _GONE:
            raise
        return [], 0
    return [*check_changes(changes), *check_one_query(changes)], len(changes)


def check_end(servers: str, service: str, acks: Path) -> tuple[list[str], str]:
    """The violations when all is done, and a summary."""
    names = {name: f"{service}.{name}" for name in ("numbers", "counts")}
    found = read(servers, names.values())
    topics = {name: found[names[name]] for name in names}
    acknowledged = read_acks(acks)
    problems = [
        *check_input(topics, acknowledged),
        *doubled_input(topics),
        *check_changes(topics["counts"]),
        *check_one_query(topics["counts"]),
        *check_whole(topics["counts"], len(topics["numbers"])),
    ]
    sizes = {name: len(records) for name, records in topics.items()}
    return problems, json.dumps({"acknowledged": len(acknowledged), **sizes})
