"""Opens an engine whose log is a Kafka cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace

from millstream.cluster.joining import copies_of, join_service
from millstream.cluster.sharing import MembershipThread
from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.user import UserFunction
from millstream.history.from_kafka import FromKafka
from millstream.log.assignment.group_assignment import Copies, Limits
from millstream.log.kafka.asking import PAUSE
from millstream.log.kafka.client import REQUEST_SECONDS, Membership
from millstream.log.kafka.log import KafkaLog
from millstream.log.kafka.naming import namespace_of
from millstream.log.log import AS_THE_CLUSTER, Topic
from millstream.model.errors import (
    ConflictError,
    MillstreamError,
    UnavailableError,
)
from millstream.model.settings import EngineSettings, InstanceSettings
from millstream.service.engine import Engine, with_functions
from millstream.service.execution import resume_engine
from millstream.service.opening import MEMORY, open_local_state


def open_kafka_engine(
    servers: str,
    service_id: str,
    state: str,
    settings: EngineSettings,
    clock: Callable[[], int],
    functions: Sequence[UserFunction] = (),
    client: Mapping[str, str] | None = None,
    sharing: InstanceSettings | None = None,
) -> Engine:
    """An engine over the cluster at `servers`, with the queries of its service's command topic.

    `service_id`: the prefix of the names of the service's topics and groups in the cluster.
    `state`: the file of the state, or ":memory:" for a state that is restored from the changelogs
    at each start. `client`: further settings of the Kafka client; raises StatementError if the
    client refuses them. `sharing`: the settings of this instance among the others of the service.
    Raises UnavailableError if the cluster does not respond, CorruptionError if the state belongs to
    another command topic.
    """
    namespace = namespace_of(service_id)
    settings = replace(settings, command_topic=f"{namespace}commands", internal_prefix=namespace)
    catalogue = with_functions(builtin_catalogue(), functions)
    sharing = sharing or InstanceSettings()
    joined: list[MembershipThread] = []

    def copies(members: Collection[str]) -> Copies:
        # While the commands are replayed, this process may be a member, and even the leader.
        return copies_of(engine.cluster, joined[0], members) if joined else Copies(None)

    membership = Membership(
        sharing.instance_id,
        sharing.group_protocol,
        sharing.session_timeout_ms,
        superseded=lambda: any(one.superseded for one in joined),
        copies=copies,
        limits=Limits(sharing.acceptable_recovery_lag, sharing.max_warmup_replicas),
        probing_ms=sharing.probing_rebalance_interval_ms,
    )
    with ExitStack() as failed:
        log = KafkaLog(servers, namespace=namespace, settings=client, membership=membership)
        failed.callback(log.close)
        identity = _identity(log, settings.command_topic)
        store, problem = open_local_state(state, settings, identity)
        failed.callback(store.close)
        engine = resume_engine(
            log, store, settings, clock, catalogue, incarnation=membership.incarnation
        )
        failed.callback(engine.close)
        rack = (client or {}).get("client.rack", "")
        joined.append(join_service(engine.cluster, sharing, log.warmups, rack))
        failed.pop_all()
    engine.cluster.host_info.cluster_id = log.cluster_id()
    engine.metrics.files = {} if state == MEMORY else {"state": state}
    engine.historical.on_spark.kafka = FromKafka(servers, dict(client or {}))
    if problem is not None:
        engine.processing_log.add("", (problem,))
    return engine


def _identity(log: KafkaLog, topic: str) -> str:
    """The id of the command topic, which is created if it is missing. Each broker learns of a new
    topic at a different time, so the one that is asked next may not have it yet."""
    found: Topic | MillstreamError | None = log.topic(topic)
    if found is None:
        wanted = Topic(topic, 1, AS_THE_CLUSTER, {"retention.ms": "-1"})
        (found,) = log.create_topics([wanted])
    deadline = time.monotonic() + REQUEST_SECONDS
    while not isinstance(found, Topic) or not found.id:
        if isinstance(found, MillstreamError) and not isinstance(found, ConflictError):
            raise found
        if time.monotonic() > deadline:
            raise UnavailableError(f"The command topic '{topic}' cannot be found")
        time.sleep(PAUSE)
        found = log.topic(topic)
    return found.id
