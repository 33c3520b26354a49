"""Makes this process a member of its service."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from millstream.log.assignment.group_assignment import Seated
from millstream.log.assignment.leader import Leader
from millstream.log.kafka.assignment_topic import (
    AssignmentTopic,
    TopicLog,
    assignment_topic,
    members_topic,
)
from millstream.log.kafka.client import Membership, member_config
from millstream.log.kafka.instance_member import InstanceMember
from millstream.log.kafka.name_dispute import NameDispute
from millstream.log.kafka.plain_producers import PlainProducers
from millstream.log.kafka.producer_pool import ProducerPool
from millstream.log.kafka.topics import Topics
from millstream.log.kafka.transactions import Entry, MemberCredential
from millstream.log.log import Result
from millstream.model.errors import ConflictError, MillstreamError


@dataclass(frozen=True, slots=True)
class Service:
    """The group whose members are the instances of a service, and how this process takes part."""

    servers: str
    group: str
    membership: Membership
    extra: Mapping[str, str] = field(repr=False)


def join_group(
    service: Service,
    log: TopicLog,
    topics: Topics,
    pool: ProducerPool,
    plain: PlainProducers,
    moved: Callable[[str], None],
) -> InstanceMember:
    """The member, which has begun to join. `moved`: see `InstanceMember`. Raises
    UnavailableError."""
    agreed, shared = assignment_topic(service.group), members_topic(service.group)
    for result in topics.create([agreed, shared]):
        if isinstance(result, MillstreamError) and not isinstance(result, ConflictError):
            raise result
    membership = service.membership
    seconds = membership.session_timeout_ms / 1000
    topic = AssignmentTopic(agreed.name, log, plain.send)

    def claim(seated: Seated, credential: MemberCredential) -> Result:
        return pool.carry_out([Entry([topic.row(seated)])], credential)[0]

    leader = Leader(
        membership.copies,
        membership.limits,
        restart_seconds=seconds,
        probing_seconds=membership.probing_ms / 1000,
    )
    return InstanceMember(
        member_config(service.servers, service.group, membership, service.extra),
        shared.name,
        topic,
        claim,
        leader,
        NameDispute(membership.instance, membership.incarnation, membership.superseded),
        moved,
        keep_seconds=seconds if membership.instance else 0.0,
    )
