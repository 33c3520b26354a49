"""Three instances of a service, statements inside of statements, requests that fail and processes
that die: in the end all hold the same, and nothing is left of what does not exist."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

from millstream.command_topic import following, snapshots
from millstream.log.faults import Fault, SimulatedCrash
from millstream.model.errors import MillstreamError
from millstream.model.settings import EngineSettings
from millstream.service.engine import Engine
from millstream.state.store import Store
from tests.draws import draws
from tests.unit.command_topic.converging import Cluster, execute, running

SEEDS = range(draws(40))
STATEMENTS = (
    "CREATE TYPE money AS INT;",
    "DROP TYPE IF EXISTS money;",
    "CREATE STREAM IF NOT EXISTS a (k STRING KEY, v INT)"
    " WITH (KAFKA_TOPIC='a', PARTITIONS=1, FORMAT='JSON');",
    "CREATE TABLE IF NOT EXISTS b AS SELECT v, COUNT(*) AS n FROM a GROUP BY v;",
    "CREATE TABLE IF NOT EXISTS d WITH (BACKFILL='duckdb') AS SELECT v, COUNT(*) AS n FROM a"
    " GROUP BY v;",
    "CREATE OR REPLACE TABLE d WITH (BACKFILL='duckdb') AS SELECT v, COUNT(*) + 1 AS n FROM a"
    " GROUP BY v;",
    "CREATE OR REPLACE STREAM c AS SELECT k, v FROM a;",
    "CREATE OR REPLACE STREAM c AS SELECT k, v FROM a WHERE v > 1;",
    "INSERT INTO c WITH (QUERY_ID='own') SELECT k, v + 1 AS v FROM a PARTITION BY k;",
    "CREATE TYPE IF NOT EXISTS coin AS INT;"
    "CREATE STREAM IF NOT EXISTS a (k STRING KEY, v INT)"
    " WITH (KAFKA_TOPIC='a', PARTITIONS=1, FORMAT='JSON');"
    "CREATE TABLE IF NOT EXISTS e AS SELECT v, COUNT(*) AS n FROM a GROUP BY v;"
    "CREATE TABLE IF NOT EXISTS f AS SELECT v, SUM(n) AS n FROM e GROUP BY v;"
    "INSERT INTO c WITH (QUERY_ID='other') SELECT k, v + 1 AS v FROM a PARTITION BY k;",
    "DROP TABLE IF EXISTS f DELETE TOPIC; DROP TABLE IF EXISTS e;",
    "TERMINATE ALL;",
    "PAUSE ALL;",
    "RESUME ALL;",
    "DROP TABLE IF EXISTS b DELETE TOPIC;",
    "DROP TABLE IF EXISTS d DELETE TOPIC;",
    "DROP STREAM IF EXISTS c;",
    "ALTER STREAM c ADD COLUMN w INT;",
)


class Storm:
    """What happens between any two effects, drawn from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.cluster = Cluster(EngineSettings(snapshot_commands=5))
        self.stores = [Store.open(":memory:") for _ in range(3)]
        for store in self.stores:
            self.cluster.start(store=store)
        self.depth = 0
        self.busy: set[int] = set()
        self.cluster.on_effect = self.effect
        self.cluster.on_request = self.request

    def effect(self, name: str) -> None:
        if self.busy and self.random.random() < 0.01:
            raise SimulatedCrash(name)
        if self.random.random() < 0.08:
            self.statement()

    def request(self, name: str) -> Fault:
        if self.random.random() < 0.01:
            return self.random.choice((Fault.REQUEST_LOST, Fault.RESPONSE_LOST))
        return Fault.NONE

    def statement(self) -> None:
        """An idle instance receives a statement."""
        index = self.random.randrange(3)
        if index in self.busy:
            return
        self.busy.add(index)
        engine = self.cluster.engines[index]
        try:
            if self.random.random() < 0.3:
                following.follow(engine.command_topic)
            execute(engine, self.random.choice(STATEMENTS))
        except MillstreamError:
            pass
        except SimulatedCrash:
            self.die(index)
        finally:
            self.busy.discard(index)

    def die(self, index: int) -> None:
        self.cluster.engines[index].runtime.close(commit=False)
        effect, request = self.cluster.on_effect, self.cluster.on_request
        self.cluster.calm()
        self.cluster.engines[index] = self.restarted(index)
        self.cluster.on_effect, self.cluster.on_request = effect, request

    def restarted(self, index: int) -> Engine:
        engine = self.cluster.start(store=self.stores[index])
        self.cluster.engines.pop()
        return engine


@pytest.mark.parametrize("seed", SEEDS)
def test_all_hold_the_same_in_the_end(seed: int) -> None:
    storm = Storm(seed)
    for _ in range(25):
        with suppress(SimulatedCrash):
            storm.statement()
    cluster = storm.cluster
    cluster.calm()
    for engine in cluster.engines:
        assert engine.driver.failure is None
    digest = cluster.agree()
    one = cluster.engines[0]
    fresh = cluster.start()
    assert snapshots.digest_of(fresh.command_topic) == digest
    assert running(fresh) == sorted(fresh.catalog.queries)
    internal = one.settings.internal_prefix
    left = [name for name in cluster.topics() if name.startswith(internal) and "-" in name]
    assert [
        name
        for name in left
        if not any(id in name for id in [*one.catalog.queries, "own", "other"])
    ] == []
    for engine in cluster.engines:
        assert engine.store.query_ids() <= set(engine.catalog.queries)
    assert not fresh.command_topic.state.unapplied
    cluster.close()
