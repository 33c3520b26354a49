"""A query under the runtime on a log of its own, for properties of how input arrives."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from millstream.catalog.catalog import Catalog
from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.executor.sender_labels import SENDER_LABELS
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.batches import TABLES
from millstream.log.log import Appended, Topic
from millstream.log.simulated import SimulatedLog
from millstream.model.batch import raw_batch
from millstream.plan.build import plan_query
from millstream.plan.define import create_source
from millstream.plan.nodes import holds_results
from millstream.plan.sinks import NewSource
from millstream.runtime.runtime import (
    ExecutorSpec,
    Guarantee,
    QuerySpec,
    QueryState,
    Runtime,
    RuntimeSettings,
)
from millstream.state.store import Store
from millstream.topology.split import LayoutOf, labelled, mixed, partition_per_channel, split
from millstream.topology.topology import Topology, channels_of, senders_of
from millstream_parser import parse, statements
from tests.groups import AnyGroups, AnyOrder

SETTINGS = RuntimeSettings(commit_interval_ms=3, max_batch_records=5)
SINK = "o"


LAYOUTS = (partition_per_channel, labelled)
"""Exchange channels as in a query that instances share."""


def topology_of(
    sources: str, sql: str, partitions: Mapping[str, int], layout: LayoutOf = mixed
) -> Topology:
    """What a CREATE … AS SELECT over the CREATE statements of `sources` runs as."""
    catalog = Catalog()
    for statement in parse(sources):
        assert isinstance(statement, statements.CreateSource)
        catalog = catalog.with_source(create_source(statement, catalog, {}))
    (statement,) = parse(sql)
    assert isinstance(statement, statements.CreateAs)
    planned = plan_query(
        statement.query,
        catalog,
        target=NewSource(statement.kind, statement.name, statement.properties),
        properties={},
        functions=builtin_catalogue(),
    )
    return split(planned.node, "Q", partitions=partitions.__getitem__, layout=layout)


def executor_specs(
    store: Store,
    topology: Topology,
    partitions: Mapping[str, int],
    guarantee: Guarantee,
    random: Random | None = None,
) -> tuple[ExecutorSpec[Any], ...]:
    """An executor for each sub-topology. `partitions`: of its sink, at least. `random`: divide its
    tasks into groups."""
    inner = {one.name: one for one in topology.internal_topics}
    made = []
    for sub in topology.subtopologies:
        out = str(sub.output)
        moved = inner.get(out)
        executor = DuckDBExecutor(
            store,
            "Q",
            sub,
            builtin_catalogue(),
            output_partitions=moved.tasks if moved else partitions[out],
            output_channels=moved.channels if moved else 0,
            labelled=bool(moved and moved.senders),
            held=guarantee is Guarantee.EXACTLY_ONCE,
            pace=Pace(fewest=3, piece=2),
            workers=None if random is None else AnyOrder(random),
            grouping=None if random is None else AnyGroups(random),
        )
        inputs = tuple(one.topic for one in sub.inputs)
        made.append(
            ExecutorSpec(
                executor,
                inputs,
                sub.partitions,
                sub.changelog,
                (out,),
                channels_of(sub),
                holds_results(sub.root),
                senders_of(sub),
                SENDER_LABELS,
            )
        )
    return tuple(made)


class SendingApart:
    """An executor whose tasks always send into separate channels, ignoring `together`."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def run(self, inputs: Sequence[Any], *, together: bool, closing: bool = False) -> Any:
        return self._inner.run(inputs, together=False, closing=closing)


class Pipeline:
    """A query that writes to the topic `o`; `stop` and `start` remove its state."""

    def __init__(
        self,
        sources: str,
        sql: str,
        partitions: Mapping[str, int],
        settings: RuntimeSettings = SETTINGS,
        guarantee: Guarantee = Guarantee.EXACTLY_ONCE,
        layout: LayoutOf = mixed,
        random: Random | None = None,
        *,
        handed: bool = True,
        markers: bool = False,
    ) -> None:
        """`partitions`: of the topics that it reads and of `o`. `random`: divide its tasks into
        groups that change. `handed`: rows move in memory. `markers`: transactions end with one."""
        self.random = random
        self.handed = handed
        self.settings, self.guarantee = settings, guarantee
        self.topology = topology_of(sources, sql, partitions, layout)
        self.log: SimulatedLog[Any] = SimulatedLog(TABLES, markers=markers)
        inner = self.topology.internal_topics
        self.partitions = {**partitions, **{one.name: one.tasks for one in inner}}
        for topic, count in {**partitions, **{one.name: one.partitions for one in inner}}.items():
            self.log.create_topic(Topic(topic, count))
        self.producer = self.log.writer("producer")
        self.now = 0
        self.apart = False
        """Whether tasks send as those of several instances do."""
        self.start()

    def start(self) -> None:
        """Run it, from what is committed."""
        self.store = Store.open(":memory:")
        specs = executor_specs(
            self.store, self.topology, self.partitions, self.guarantee, self.random
        )
        if self.apart:
            specs = tuple(replace(spec, executor=SendingApart(spec.executor)) for spec in specs)
        moved = {one.name for one in self.topology.internal_topics if one.kind == "repartition"}
        self.instance: Runtime[Any] = Runtime(self.log, self.settings)
        self.instance.add_query(
            QuerySpec(
                "Q",
                "Q",
                specs,
                self.guarantee,
                repartitions=frozenset(moved),
                batches=TABLES if self.handed and not self.apart else None,
            )
        )

    def stop(self) -> None:
        """End it without a commit."""
        self.instance.close(self.now, commit=False)
        self.store.close()

    def send(
        self,
        topic: str,
        partition: int,
        rows: Sequence[tuple[bytes, bytes | None, int]],
        headers: Sequence[Any] | None = None,
    ) -> None:
        """Records with key, value and event time."""
        if rows:
            batch = raw_batch(list(rows), None if headers is None else list(headers))
            self.producer.append([Appended(topic, partition, batch, len(rows))])

    def step(self) -> None:
        """One step of the instance, a millisecond later."""
        self.now += 1
        self.instance.step(self.now)

    def settle(self) -> None:
        """Work until nothing is left."""
        for _ in range(500):
            self.step()
            status = self.instance.query_status("Q")
            assert status.state is not QueryState.ERROR, status.error
            idle = status.state is QueryState.RUNNING and not any(status.lag.values())
            if idle and not self.instance._queries["Q"].dirty:
                return
        raise AssertionError("does not come to rest")

    def finish(self) -> list[list[dict[str, Any]]]:
        """Work until nothing is left; the records of each output partition."""
        self.settle()
        count = self.partitions[SINK]
        return [self.log.read(SINK, p, 0, 1 << 20).batch.to_pylist() for p in range(count)]


def encoded(value: Mapping[str, Any] | None) -> bytes | None:
    """The value of a record."""
    return None if value is None else json.dumps(value).encode()
