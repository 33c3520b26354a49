"""Properties a user may SET, by exact name, and the settings of an engine.

Only listed properties can be set: raw client configuration is never passed through, because it can
load code into the process.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from millstream.model import refusals
from millstream.model.listener import InternalListener
from millstream.model.nearest import nearest
from millstream.model.properties import PROPERTIES, Property

_BY_NAME = {item.name: item for item in PROPERTIES}
_ALIASES = {
    "statestore.cache.max.bytes": "cache.max.bytes.buffering",
    "processing.threads": "num.stream.threads",
}
_PREFIX = "ksql.streams."
OF_INSTANCE = {
    "num.stream.threads": "processing_threads",
    "num.standby.replicas": "standby_replicas",
    "session.timeout.ms": "session_timeout_ms",
    "group.protocol": "group_protocol",
    "acceptable.recovery.lag": "acceptable_recovery_lag",
    "max.warmup.replicas": "max_warmup_replicas",
    "probing.rebalance.interval.ms": "probing_rebalance_interval_ms",
}
"""Properties of Kafka Streams that count for a whole instance, and the settings that they are."""
OF_SHARING = OF_INSTANCE.keys() - {"num.stream.threads"}
"""Those for instances that share a log."""
_FROM_ZERO = {"num.standby.replicas", "acceptable.recovery.lag", "max.warmup.replicas"}
_RACKS = (
    "a task goes to an instance that has its state, in whatever rack; its standby tasks go to "
    "other racks, by client.rack among the settings of the Kafka client"
)
UNSUPPORTED = {
    "rack.aware.assignment.non_overlap_cost": _RACKS,
    "rack.aware.assignment.strategy": _RACKS,
    "rack.aware.assignment.tags": _RACKS,
    "rack.aware.assignment.traffic_cost": _RACKS,
}
"""Properties of Kafka Streams for which there is nothing here, and why."""


@dataclass(frozen=True, slots=True)
class InstanceSettings:
    """Settings for sharing the queries of a service with other instances, on Kafka.

    `instance_id`: a name that the instance keeps over restarts. If it is back within the session
    timeout, it continues with its tasks. Without a name, other instances take them over at once
    when it leaves, and after the timeout when it is killed. `group_protocol`: "classic" or
    "consumer" (KIP-848, where the brokers set the timeout); the same for all instances.
    `standby_replicas`: how many other instances keep a copy of each task's state. `listener`: where
    it answers pull queries for the others.

    A task with state moves to an instance whose copy lacks `acceptable_recovery_lag` records of the
    changelog at most; there is about one for each commit. Other copies are brought up to date
    first, `max_warmup_replicas` at a time in the whole service, and looked at every
    `probing_rebalance_interval_ms`; with `max_warmup_replicas` 0, a task moves without. A killed
    instance's task goes to the best copy there is. The same on all instances: the one that assigns
    the tasks uses its own.
    """

    instance_id: str = ""
    group_protocol: Literal["classic", "consumer"] = "classic"
    session_timeout_ms: int = 10_000
    standby_replicas: int = 0
    listener: InternalListener = field(default_factory=InternalListener)
    acceptable_recovery_lag: int = 100
    max_warmup_replicas: int = 2
    probing_rebalance_interval_ms: int = 2_000


@dataclass(frozen=True, slots=True)
class ConnectSettings:
    """Where Kafka Connect is. `credentials` are a user and a password with a colon between them, or
    empty; `timeout_ms` is that of each request."""

    url: str
    credentials: str = field(default="", repr=False)
    timeout_ms: int = 5_000


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """How one engine runs. Sizes in bytes, times in ms."""

    threads: int = 1
    """DuckDB's threads for batch work."""
    memory_limit: str = "1GB"
    """The memory that DuckDB may use before it spills to disk."""
    history_memory_limit: str = "1GB"
    """Additional memory that DuckDB may use, before it spills to disk, for each query over history,
    back-fill or pipeline in this process, and in each of Spark's Python workers."""
    processing_threads: int = 2
    """Threads that process queries. A query with much to do is processed by several of them."""
    function_threads: int = 2
    """Threads that process the queries that call functions in Python, and no others. As many of
    these run at once; functions that wait for long delay only each other."""
    max_batch_records: int = 200_000
    """Records handed to one run of a query, over all partitions."""
    decoded_bytes: int = 64 << 20
    """Decoded records kept for other queries that read the same topic; with 0, each query decodes
    for itself."""
    linger_ms: int = 5_000
    """How long a query of an embedded database lets more records come before it processes a few,
    while nobody waits for its results: no push query, no PRINT, and no pull query of the last
    seconds."""
    commit_interval_ms: int = 200
    """The commit interval of queries created without commit.interval.ms."""
    command_topic: str = "_millstream_commands"
    """The command topic, which holds the statements that define the catalog."""
    internal_prefix: str = "_millstream_"
    """The prefix of internal topics."""
    spark_master: str = "local[*]"
    """The Spark master for queries over history."""
    spark_options: Mapping[str, str] = field(default_factory=dict)
    """Further options of the Spark session."""
    schema_registry: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Settings of confluent-kafka's client of a schema registry. Without, a database in a file has
    a registry of its own, and one on Kafka has none."""
    kafka_connect: ConnectSettings | None = None
    """The Kafka Connect that has the connectors; without it, only a database in a file has one."""
    push_buffer_bytes: int = 256 << 20
    """Rows that a push query's client has not read yet; with more it is dropped."""
    processing_rows: bool = False
    """Whether entries of KSQL_PROCESSING_LOG hold the records and rows that they are about."""
    processing_retention_ms: int = 604_800_000
    """How long entries of KSQL_PROCESSING_LOG are kept, of which there are 100,000 at most."""
    checkpoints_url: str = ""
    """Where checkpoints of state are written, and loaded from by an instance that lacks the state:
    a folder, or a URL such as s3://bucket/shop; empty: nowhere. Several databases and services may
    share a place, and all instances of a service must have the same one."""
    checkpoint_interval_ms: int = 60_000
    """How often checkpoints are written of the state that has changed enough."""
    topic_settings: Mapping[str, str] = field(default_factory=dict)
    """Settings such as retention.ms of the topics that statements create, where they say nothing
    else: what log.retention.ms is for the brokers of Kafka, apart from cleanup.policy."""
    snapshot_commands: int = 50
    """The number of statements after which a snapshot of the catalog is written, for the next
    start."""

    def is_internal(self, topic: str) -> bool:
        """Whether a topic is the engine's own. Everything that hides, marks or protects internal
        topics uses this function."""
        return topic.startswith(self.internal_prefix) or topic == self.command_topic


def canonical_name(name: str) -> str:
    """The listed name of a property, which may be given with or without `ksql.streams.`."""
    if name in _BY_NAME:
        return name
    bare = name.removeprefix(_PREFIX)
    return _ALIASES.get(bare, bare)


def check_property(name: str, value: str) -> tuple[str, str]:
    """The canonical name and value; raises StatementError when unknown or out of range."""
    known = known_property(name)
    return known.name, _checked(known, str(value).strip())


_WHOLE = re.compile("-?[0-9]+")


def known_property(name: str) -> Property:
    """The property of this name; raises StatementError where there is none."""
    canonical = canonical_name(name)
    known = _BY_NAME.get(canonical)
    if known is None:
        _explain(name, canonical)
        listed = "SHOW PROPERTIES lists what can be set."
        near = nearest(name, _BY_NAME)
        raise refusals.SETTING_MISSING(
            name=name, hint=listed if near is None else f"Did you mean '{near}'?"
        )
    return known


def _explain(name: str, canonical: str) -> None:
    """Refuse the properties of Kafka Streams that a session cannot set."""
    if canonical in OF_INSTANCE:
        hint = "Give it to `connect` among its properties, or to the server's configuration."
        raise refusals.SETTING_OF_INSTANCE(name=name, hint=hint)
    if canonical in UNSUPPORTED:
        raise refusals.SETTING_UNSUPPORTED(name=name, reason=UNSUPPORTED[canonical])


def shared_settings(
    given: InstanceSettings | None, properties: Mapping[str, str]
) -> InstanceSettings | None:
    """The settings of an instance, with those among the properties for `connect`. Raises
    StatementError for an invalid value."""
    for name, text in properties.items():
        canonical, value = canonical_name(name), str(text).strip()
        base = given or InstanceSettings()
        match canonical:
            case "group.protocol":
                allowed = "classic, consumer"
                if value.lower() not in ("classic", "consumer"):
                    raise refusals.SETTING_VALUE(value=value, known=canonical, allowed=allowed)
                consumer = value.lower() == "consumer"
                given = replace(base, group_protocol="consumer" if consumer else "classic")
            case _ if canonical in OF_SHARING:
                least = 0 if canonical in _FROM_ZERO else 1
                number: Any = _number(canonical, value, least=least)
                given = replace(base, **{OF_INSTANCE[canonical]: number})
    return given


def _number(name: str, value: str, *, least: int) -> int:
    if not _WHOLE.fullmatch(value) or int(value) < least:
        allowed = f"a whole number from {least} on"
        raise refusals.SETTING_VALUE(value=value, known=name, allowed=allowed)
    return int(value)


def _checked(known: Property, value: str) -> str:
    match known.kind:
        case "string":
            return value
        case "int":
            if _WHOLE.fullmatch(value):
                return value
            allowed = "a whole number"
        case "bool":
            if value.lower() in ("true", "false"):
                return value.lower()
            allowed = "true or false"
        case "ms|never":
            if value.lower() == "never":
                return "never"
            if _WHOLE.fullmatch(value) and 0 < int(value) < 1 << 63:
                return value
            allowed = "a number of milliseconds above 0, or never"
        case choices:
            if value.lower() in choices.split("|"):
                return value.lower()
            allowed = choices.replace("|", ", ")
    raise refusals.SETTING_VALUE(value=value, known=known.name, allowed=allowed)


LOST_RECORDS = "millstream.lost.records"
"""The property that says what a query does when records are gone that it has not read."""
DEAD_LETTERS = "errors.dead.letter.queue.topic.name"
"""The property with the name of a query's dead letter topic; empty: there is none."""


def effective(properties: Mapping[str, str], name: str) -> str:
    """The value of a known property: the override, else its default."""
    return properties.get(name, _BY_NAME[name].default)
