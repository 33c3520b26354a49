"""Pull queries over several tables on a real cluster, while records flow into them."""

from __future__ import annotations

import uuid

import pytest

import millstream
from millstream.service.instances import alignment
from millstream.service.instances.gathering import READY_MS
from tests.snapshots.run import EARLIEST, Findings, read
from tests.snapshots.workload import INVARIANTS, SCRIPT, load

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
