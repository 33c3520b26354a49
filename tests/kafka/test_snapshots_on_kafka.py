"""Pull queries over several tables on a real cluster, while records flow into them."""

from __future__ import annotations

import uuid

import pytest

import millstream
from millstream.cluster import alignment
from millstream.cluster.scatter_gather import READY_MS
from tests.patience import until
from tests.snapshots.run import EARLIEST, Findings, read
from tests.snapshots.workload import FEW, INVARIANTS, SCRIPT, load

READS = 3 * len(INVARIANTS)


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_answers_are_of_one_instant(
    servers: str, kind: str, guarantee: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "HOLD_S", 600.0)
    properties = {**EARLIEST, "processing.guarantee": guarantee, READY_MS: "600000"}
    service = f"snapshots-{uuid.uuid4().hex[:8]}"
    findings = Findings()
    with millstream.connect(kafka=servers, service_id=service, properties=properties) as db:
        db.execute(SCRIPT)
        topics = [source.topic for source in db.engine.catalog.sources.values()]
        try:
            db.wait()
            with load(db.engine.log, 3, 0.2):
                read([db], READS, findings)
        finally:
            # Another service would find these, with records that are not its own.
            db.execute("TERMINATE ALL;")
            for topic in topics:
                db.engine.log.delete_topic(topic)
    assert findings.wrong == []
    assert not findings.refused
    assert sum(len(values) for values in findings.seen.values()) > len(INVARIANTS)


def test_answers_of_two_instances_are_of_one_instant(
    servers: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(alignment, "HOLD_S", 600.0)
    properties = {**EARLIEST, "processing.guarantee": "exactly_once_v2", READY_MS: "600000"}
    service = f"snapshots-{uuid.uuid4().hex[:8]}"
    findings = Findings()
    with (
        millstream.connect(kafka=servers, service_id=service, properties=properties) as one,
        millstream.connect(kafka=servers, service_id=service, properties=properties) as two,
    ):
        one.execute(FEW)
        topics = [source.topic for source in one.engine.catalog.sources.values()]
        try:
            until(lambda: shared(one, two))
            with load(one.engine.log, 3, 0.2):
                read([one, two], READS, findings, invariants=INVARIANTS[:3])
        finally:
            one.execute("TERMINATE ALL;")
            for topic in topics:
                one.engine.log.delete_topic(topic)
    assert findings.wrong == []
    assert not findings.refused
    assert sum(len(values) for values in findings.seen.values()) > 3


def shared(*databases: millstream.Database) -> bool:
    """Whether each instance has tasks, and each task of every query is open on one of them."""
    owned = [
        {
            (query_id, task)
            for query_id in db.engine.catalog.queries
            if (reached := db.engine.runtime.reached(query_id)) is not None
            for task in reached.tasks
        }
        for db in databases
    ]
    wanted = {(q, task) for q in databases[0].engine.catalog.queries for task in range(3)}
    return all(owned) and sorted(wanted) == sorted(task for each in owned for task in each)
