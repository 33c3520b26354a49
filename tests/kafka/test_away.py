"""A cluster that does not answer; no broker is needed for that."""

from __future__ import annotations

import pytest

pytest.importorskip("confluent_kafka")

from millstream.log.kafka.log import KafkaLog

NOWHERE = "127.0.0.1:1"


@pytest.mark.timeout(30)
def test_ends_are_unknown_at_once() -> None:
    log = KafkaLog(NOWHERE)
    assert log.end_offsets([("t", 0), ("t", 1)]) == {}
    assert log.end_offsets([("t", 0)]) == {}
    assert log.seen(["t"]) == {}
    log.close()
