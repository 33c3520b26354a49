"""What a lease on the command topic costs: writers that are opened, and reads."""

from __future__ import annotations

from collections import Counter

import pytest

from millstream.command_topic import following
from millstream.command_topic.commands import LeaseLostError
from millstream.log.faults import Fault
from millstream.service.engine import Engine
from tests.unit.command_topic.converging import COMMANDS, Cluster, execute

TYPES = "CREATE TYPE a AS INT; CREATE TYPE b AS INT; CREATE TYPE c AS INT;"


def counted(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How many writers of the command topic are opened, and how often and how much it is read."""
    found: Counter[str] = Counter()
    writer, read = cluster.log.writer, cluster.log.read

    def opened(identity, *arguments, **options):  # type: ignore[no-untyped-def]
        found["writers"] += identity == COMMANDS
        return writer(identity, *arguments, **options)

    def reading(topic, partition, offset, max_records):  # type: ignore[no-untyped-def]
        fetched = read(topic, partition, offset, max_records)
        if topic == COMMANDS:
            found["reads"] += 1
            # On Kafka, a read that finds less than it may return waits for more.
            found["waits"] += fetched.count < max_records
        return fetched

    monkeypatch.setattr(cluster.log, "writer", opened)
    monkeypatch.setattr(cluster.log, "read", reading)
    return found


def types_of(engine: Engine) -> list[str]:
    return sorted(engine.catalog.types)


def test_statements_of_one_instance_open_no_writer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cluster.start()
    found = counted(cluster, monkeypatch)
    execute(one, TYPES)
    assert found["writers"] == 0, "that of the lease with which it was opened is still the newest"
    assert found["waits"] == 0
    assert types_of(one) == ["A", "B", "C"]


def test_an_instance_that_was_fenced_opens_another_writer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = cluster.start(), cluster.start()
    found = counted(cluster, monkeypatch)
    execute(one, "CREATE TYPE a AS INT;")
    assert found["writers"] == 1
    execute(two, "CREATE TYPE b AS INT; CREATE TYPE c AS INT;")
    assert found["writers"] == 2
    cluster.agree()
    assert types_of(one) == types_of(two) == ["A", "B", "C"]
    assert found["waits"] == 0


def test_a_kept_writer_loses_its_lease_to_another_instance(cluster: Cluster) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, "CREATE TYPE a AS INT;")
    with pytest.raises(LeaseLostError), one.command_topic.log.lease(0) as lease:
        execute(two, "CREATE TYPE b AS INT;")
        lease.write(COMMANDS, [b"{}"], 0)
    cluster.agree()
    assert types_of(one) == ["A", "B"]


def test_a_lease_that_may_not_be_written_is_taken_with_another_writer(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = cluster.start()
    found = counted(cluster, monkeypatch)
    faults = [Fault.RESPONSE_LOST]
    cluster.on_request = lambda name: faults.pop() if name == "append" and faults else Fault.NONE
    execute(one, TYPES)
    assert not faults
    assert found["writers"] == 1
    assert types_of(one) == ["A", "B", "C"]


def test_polling_reads_only_what_is_new(cluster: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = cluster.start(), cluster.start()
    execute(one, "CREATE TYPE a AS INT;")
    cluster.agree()
    found = counted(cluster, monkeypatch)
    following.follow(two.command_topic)
    assert found["reads"] == 0, "what follows the last entry is its marker"
    execute(one, "CREATE TYPE b AS INT;")
    found.clear()
    following.follow(two.command_topic)
    assert types_of(two) == ["A", "B"]
    assert found == {"reads": 2, "waits": 0}, "the lease and the command"
