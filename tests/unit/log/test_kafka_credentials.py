"""Which credentials of the client are those of a member."""

from __future__ import annotations

import struct

import pytest

pytest.importorskip("confluent_kafka")

from confluent_kafka import Consumer, KafkaError

from millstream.log.kafka.credentials import cause_of, member_of, of_no_member
from millstream.model.errors import StatementError


def credential(generation: int, member: bytes, instance: bytes = b"\1") -> bytes:
    return b"CGMDv2:" + struct.pack("=i", generation) + b"group\0" + member + b"\0" + instance


@pytest.mark.parametrize(
    ("shown", "named"),
    [
        (credential(1, b"me"), b"me"),
        (credential(700, b"me", b"\0one\0"), b"me"),
        (credential(1, b""), b""),
        (credential(1, b"", b"\0one\0"), b""),
        (credential(0, b"me"), b""),
        (credential(-1, b"me"), b""),
        (credential(-1, b""), b""),
    ],
)
def test_a_member_has_a_name_and_a_generation(shown: bytes, named: bytes) -> None:
    assert member_of(shown) == named


@pytest.mark.parametrize("shown", [None, b"", b"CGMDv3:" + bytes(20)])
def test_what_is_not_understood_is_not_shown_to_brokers(shown: object) -> None:
    with pytest.raises(StatementError, match="another way"):
        member_of(shown)


@pytest.mark.parametrize("rest", [b"\1", b"\0one\0"])
def test_the_credential_of_no_member_is_for_any_group(rest: bytes) -> None:
    made = of_no_member(credential(-1, b"", rest), "another")
    assert made == credential(-1, b"", rest).replace(b"group", b"another")
    assert member_of(made) == b""


@pytest.mark.parametrize("shown", [credential(1, b"me"), credential(-1, b"me"), credential(3, b"")])
def test_a_members_credential_is_not_made_into_anothers(shown: bytes) -> None:
    with pytest.raises(StatementError, match="of a member"):
        of_no_member(shown, "another")


def test_the_client_shows_no_membership_in_this_way() -> None:
    """Bytes of the installed client for one group are those that were made from another's."""
    shown = {}
    for group in ("group", "another"):
        asked = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": group, "log_level": 0})
        shown[group] = asked.consumer_group_metadata()
        asked.close()
    assert of_no_member(shown["group"], "another") == shown["another"]


def test_what_was_fatal_is_read_from_the_clients_words() -> None:
    twin = KafkaError(KafkaError.FENCED_INSTANCE_ID)
    wrapped = KafkaError(KafkaError._FATAL, f"Fatal error: {twin.str()}: and so on")
    assert cause_of(wrapped).code() == KafkaError.FENCED_INSTANCE_ID
    other = KafkaError(KafkaError._FATAL, "Fatal error: of another kind")
    assert cause_of(other).code() == KafkaError._FATAL
