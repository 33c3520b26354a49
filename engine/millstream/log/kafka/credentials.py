"""Reads the client's membership credential, whose format is internal to the client."""

from __future__ import annotations

import struct

from confluent_kafka import KafkaError

from millstream.model.errors import StatementError

_MAGIC = b"CGMDv2:"
_GENERATION = struct.Struct("=i")


def cause_of(fault: KafkaError) -> KafkaError:
    """The client reports the cause of a fatal error only in its message (2.16)."""
    for code in (KafkaError.FENCED_INSTANCE_ID, KafkaError.UNRELEASED_INSTANCE_ID):
        if (named := KafkaError(code)).str() in fault.str():
            return named
    return fault


def member_of(credential: object) -> bytes:
    """The member id that the brokers assigned to the owner of the credential; b"" before it has
    joined. The broker would take an empty id for the credential of a group without members."""
    generation, _group, member, _rest = _parts(credential)
    return member if generation > 0 else b""


def of_no_member(credential: object, group: str) -> bytes:
    """The credential for moving the positions of `group` while it has no members. Only a consumer
    can make one, and only for its own group: `credential` is one of any group, made before its
    consumer joined."""
    generation, _group, member, rest = _parts(credential)
    if generation > 0 or member:
        raise StatementError("This is the credential of a member")
    return _MAGIC + _GENERATION.pack(generation) + group.encode() + b"\0\0" + rest


def _parts(credential: object) -> tuple[int, bytes, bytes, bytes]:
    """Generation, group, member id, and the static name."""
    if not isinstance(credential, bytes) or not credential.startswith(_MAGIC):
        raise StatementError(
            "This version of confluent-kafka shows the credentials of members in another way",
            hint="Install the version that Millstream names.",
        )
    (generation,) = _GENERATION.unpack_from(credential, len(_MAGIC))
    group, member, rest = credential[len(_MAGIC) + _GENERATION.size :].split(b"\0", 2)
    return generation, group, member, rest
