"""Configures the clients and translates their errors."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Literal

from confluent_kafka import KafkaError, KafkaException

from millstream.log.assignment.group_assignment import Copies, Limits, no_copies
from millstream.model.errors import (
    CorruptionError,
    FencedError,
    MillstreamError,
    StatementError,
    UnavailableError,
)

REQUEST_SECONDS = 10.0
"""How long one request to the cluster may take before it raises UnavailableError."""
SETTLE_SECONDS = 30.0
"""How long a member may continue with tasks that it must give up."""

Settings = dict[str, str | int | float | bool]

_COMMON: Settings = {
    # By default a producer that requests metadata of a deleted topic that it wrote to creates it
    # again.
    "allow.auto.create.topics": False,
    "socket.timeout.ms": 6000,
    "reconnect.backoff.ms": 50,
    "reconnect.backoff.max.ms": 500,
    "retry.backoff.ms": 50,
    "topic.metadata.refresh.interval.ms": 30_000,
    "log_level": 2,
    # By default a client that has lost all brokers forgets them and starts over; where it had found
    # a coordinator before, `send_offsets_to_transaction` then waits for ever (2.16).
    "metadata.recovery.strategy": "none",
}
_ADMIN: Settings = {
    # It sends to a broker that it takes for the controller, and waits for that one alone until it
    # learns of another. With rare metadata requests it gives up while the rest of the cluster is
    # available (2.16).
    "topic.metadata.refresh.interval.ms": 500,
}
_CONSUMER: Settings = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "error",
    "isolation.level": "read_committed",
    "check.crcs": True,
    "fetch.queue.backoff.ms": 10,
    "queued.max.messages.kbytes": 4096,
    "max.partition.fetch.bytes": 524_288,
    "fetch.wait.max.ms": 100,
}
_PRODUCER: Settings = {
    # A broker refuses the next transaction of a producer for some milliseconds after a commit. The
    # producer asks again after this time, which doubles from try to try, up to the second one.
    "retry.backoff.ms": 2,
    "retry.backoff.max.ms": 100,
    "enable.idempotence": True,
    "acks": "all",
    "compression.type": "lz4",
    "linger.ms": 1,
    "batch.size": 1_000_000,
    "batch.num.messages": 100_000,
    "message.max.bytes": 10_000_000,
    "queue.buffering.max.messages": 1_000_000,
    "queue.buffering.max.kbytes": 65_536,
    "request.timeout.ms": 4000,
}
_MEMBER: Settings = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    # Other members of the group wait this long for one that does not respond: longer than our own
    # timeouts.
    "max.poll.interval.ms": int(SETTLE_SECONDS * 1500),
    "topic.metadata.refresh.interval.ms": 5000,
    # A fetch may begin before a new partition is paused. Until it ends, requests for metadata wait
    # on the same connection. A subscription that changes meanwhile waits for these, and sends no
    # heartbeats until then (2.16).
    "fetch.wait.max.ms": 50,
}
_OWN = frozenset(
    {
        "acks",
        "allow.auto.create.topics",
        "auto.commit.enable",
        "auto.offset.reset",
        "bootstrap.servers",
        "check.crcs",
        "enable.auto.commit",
        "enable.auto.offset.store",
        "enable.idempotence",
        "enable.partition.eof",
        "group.id",
        "group.instance.id",
        "group.protocol",
        "heartbeat.interval.ms",
        "isolation.level",
        "max.poll.interval.ms",
        "metadata.broker.list",
        "metadata.recovery.strategy",
        "partition.assignment.strategy",
        "plugin.library.paths",
        "request.required.acks",
        "sasl.kerberos.kinit.cmd",
        "session.timeout.ms",
        "transaction.timeout.ms",
        "transactional.id",
    }
)
"""Settings that users cannot change."""
_SECRET = re.compile(r"password|secret|key|pem|token|jaas|credential|oauthbearer|username")
"""Settings whose names contain one of these have secret values, which are never shown."""
_FENCING = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.FENCED_INSTANCE_ID,
    }
)


@dataclass(frozen=True, slots=True)
class Membership:
    """How this process shares the tasks of its queries with other processes.

    `instance`: a name that it keeps over restarts; a process that is back within the session
    timeout keeps its tasks. "" for none. `protocol`: "consumer" is KIP-848, where the brokers set
    the session timeout; a group keeps to one protocol. `incarnation`: unique to this process; the
    names of its writers end with it.
    """

    instance: str = ""
    protocol: Literal["classic", "consumer"] = "classic"
    session_timeout_ms: int = 10_000
    incarnation: str = field(default_factory=lambda: secrets.token_hex(8))
    superseded: Callable[[], bool] = lambda: True
    """Whether a process of the same name was started later than this one. It is called when the
    brokers report another process, which may also be a request of our own that arrived twice."""
    copies: Callable[[Collection[str]], Copies] = no_copies
    """Where the members that are named have the state of tasks; see `Leader`."""
    limits: Limits = field(default_factory=Limits)
    probing_ms: int = 2_000
    """How often to look whether copies are up to date that tasks wait for."""


def checked(given: Mapping[str, str]) -> dict[str, str]:
    """A user's settings for every client; raises StatementError for one that users cannot set.
    Settings that the client itself refuses raise an error when the first client is created."""
    for name in given:
        if name in _OWN or name.startswith("test.mock."):
            raise StatementError(
                f"The Kafka setting '{name}' cannot be changed",
                hint="Millstream's own guarantees depend on it, or it loads programs.",
            )
    return dict(given)


def refused(error: KafkaException, given: Mapping[str, str]) -> StatementError:
    """Our error for settings that the client rejects, without their secret values."""
    text = str(error.args[0].str())
    for name, value in given.items():
        if value and _SECRET.search(name):
            text = text.replace(value, "***")
    return StatementError(f"The Kafka client refuses its settings: {text}")


def admin_config(servers: str, extra: Mapping[str, str]) -> Settings:
    """Configuration of the client that creates and describes topics."""
    return {"bootstrap.servers": servers, **_COMMON, **_ADMIN, **extra}


def consumer_config(servers: str, group: str, extra: Mapping[str, str]) -> Settings:
    """Configuration of a client that reads committed records and never stores positions by
    itself."""
    return {"bootstrap.servers": servers, "group.id": group, **_COMMON, **_CONSUMER, **extra}


def lag_config(servers: str, group: str, extra: Mapping[str, str]) -> Settings:
    """Configuration of a client that reads the positions of a group without waiting for open
    transactions."""
    own: Settings = {"isolation.level": "read_uncommitted"}
    return {**consumer_config(servers, group, extra), **own}


def member_config(
    servers: str, group: str, membership: Membership, extra: Mapping[str, str]
) -> Settings:
    """Configuration of a client that is a member of a group and reads nothing."""
    own: Settings = {"bootstrap.servers": servers, "group.id": group}
    if membership.instance:
        own["group.instance.id"] = membership.instance
    if membership.protocol == "consumer":
        own["group.protocol"] = "consumer"
    else:
        own["partition.assignment.strategy"] = "cooperative-sticky"
        own["session.timeout.ms"] = membership.session_timeout_ms
        own["heartbeat.interval.ms"] = max(100, membership.session_timeout_ms // 10)
    return {**_COMMON, **_MEMBER, **own, **extra}


def producer_config(
    servers: str, identity: str, extra: Mapping[str, str], transaction_seconds: float
) -> Settings:
    """Configuration of the only client that may write as `identity`. After `transaction_seconds`
    the coordinator aborts a transaction whose owner sends nothing."""
    own: Settings = {
        "bootstrap.servers": servers,
        "transactional.id": identity,
        "transaction.timeout.ms": int(transaction_seconds * 1000),
    }
    return {**own, **_COMMON, **_PRODUCER, **extra}


def plain_producer_config(servers: str, extra: Mapping[str, str]) -> Settings:
    """Configuration of a client that writes outside of transactions; each record once, and in
    order, as long as the client lives."""
    return {"bootstrap.servers": servers, **_COMMON, **_PRODUCER, **extra}


def fences(error: KafkaError) -> bool:
    """Whether the error means that another client has fenced this one."""
    return error.code() in _FENCING


def translated(error: KafkaError | KafkaException, attempt: str) -> MillstreamError:
    """Our error for one of the client; `attempt` says what was tried, as in `read topic 't'`."""
    fault = error.args[0] if isinstance(error, KafkaException) else error
    text = f"Could not {attempt}: {fault.str()}"
    if fences(fault):
        return FencedError(text)
    match fault.code():
        case KafkaError.UNKNOWN_TOPIC_OR_PART | KafkaError._UNKNOWN_TOPIC:
            return StatementError(text)
        case KafkaError._UNKNOWN_PARTITION:
            return StatementError(text)
        case KafkaError.OFFSET_OUT_OF_RANGE | KafkaError._AUTO_OFFSET_RESET:
            return CorruptionError(text, code="E-GAP")
        case KafkaError.TOPIC_AUTHORIZATION_FAILED | KafkaError.CLUSTER_AUTHORIZATION_FAILED:
            return StatementError(text, hint="Ask for access to the topic on the Kafka cluster.")
        case _:
            return UnavailableError(
                text,
                hint="Is the Kafka cluster up and reachable, and do the security settings fit?",
            )
