"""A fenced writer reports it, however the client detects it."""

from __future__ import annotations

import pytest

from millstream.log.kafka.log import KafkaLog
from millstream.log.log import Appended, Topic
from millstream.model.errors import FencedError
from tests.unit.log.suite import table_of

TOPIC = "fencing"
MANY = 300_000
"""So many that the brokers refuse the first before the last is passed to the client, which from
then on reports a fatal error without its kind."""


@pytest.mark.parametrize("count", [1, MANY])
def test_a_fenced_writer_gets_an_error(servers: str, kind: str, count: int) -> None:
    log = KafkaLog(servers)
    log.delete_topic(TOPIC)
    log.create_topic(Topic(TOPIC, 1))
    old = log.writer("writer")
    old.append([Appended(TOPIC, 0, table_of([0]), 1)])
    new = log.writer("writer")
    for _ in range(2):
        with pytest.raises(FencedError):
            old.append([Appended(TOPIC, 0, table_of(range(count)), count)])
    new.append([Appended(TOPIC, 0, table_of([1]), 1)])
    assert [fetched.as_py() for fetched in log.read(TOPIC, 0, 0, 10).batch["value"]] == [b"0", b"1"]
    log.close()
