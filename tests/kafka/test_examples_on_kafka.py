"""The examples print on Kafka what they print otherwise."""

from __future__ import annotations

import uuid
from importlib import import_module

import pytest

import millstream
from tests.examples.test_examples import PRINTED

TOPICS = (
    *("topic-source", "topic-sink", "payments", "readings", "owners", "visits"),
    *("lines", "words", "counts"),
    *("deliveries", "LOCATED", "PER_CITY"),
    *("ALERTS", "SUSPICIONS", "SUSPICIOUS", "SCORES", "BUYERS"),
)
"""What the run before may have left."""


@pytest.mark.parametrize("name", PRINTED)
def test_it_runs_on_kafka(name: str, servers: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = import_module(f"examples.{name}")
    service = f"example-{uuid.uuid4().hex[:8]}"
    with millstream.connect(
        kafka=servers, service_id=service, functions=example.FUNCTIONS
    ) as database:
        for topic in TOPICS:
            if database.engine.log.topic(topic) is not None:
                database.engine.log.delete_topic(topic)
        example.run(database)
    assert capsys.readouterr().out == PRINTED[name]
