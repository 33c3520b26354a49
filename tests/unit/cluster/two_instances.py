"""Two engines that share the partitions of their queries, each with wrong rows in those of the
other: orphans that a result must not contain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pyarrow as pa

import millstream
from millstream import Database, KeyValueStore, Processor, ProcessorContext, Record
from millstream.cluster.exchange import Exchange
from millstream.cluster.metadata import (
    HostedPartitions,
    InstanceMetadata,
    PeerView,
    updated_view,
)
from millstream.cluster.participant import Participations
from millstream.cluster.partition_read import PartitionRead
from millstream.cluster.routing import Fetch, Router
from millstream.cluster.scatter_gather import READY_MS, SNAPSHOT, serve_read
from millstream.formats.partition import partition_of
from millstream.model.listener import InternalListener
from millstream.query.session import Session

PARTITIONS = 4
PROPERTIES = {"auto.offset.reset": "earliest", READY_MS: "0", SNAPSHOT: "false"}
"""Each has a log of its own, so that they have no moment in common (see `shared_tasks.py`)."""
KEYS = tuple(f"k{i}" for i in range(24))
SCRIPT = """
CREATE STREAM sales (shop STRING KEY, item STRING, amount BIGINT)
  WITH (KAFKA_TOPIC='sales', PARTITIONS=4, VALUE_FORMAT='JSON');
CREATE TABLE totals AS SELECT item, COUNT(*) AS n, SUM(amount) AS total
  FROM sales GROUP BY item EMIT CHANGES;
CREATE TABLE by_shop AS SELECT shop, MAX(amount) AS most FROM sales GROUP BY shop EMIT CHANGES;
CREATE STREAM kept AS SELECT * FROM PROCESS(sales, 'Keeping');
CREATE TABLE hourly AS SELECT item, COUNT(*) AS n FROM sales WINDOW TUMBLING (SIZE 1 HOUR)
  GROUP BY item EMIT CHANGES;
"""


class Keeping(Processor):
    """Keeps the greatest amount of each shop, and one of all."""

    output = "shop STRING KEY, most BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self.most = context.store("most", KeyValueStore("STRING", "BIGINT"))

    def process(self, record: Record) -> None:
        for key in (record.key, "all"):
            self.most.put(key, max(self.most.get(key, 0), record.value["AMOUNT"]))


def part_of(key: str) -> int:
    return int(partition_of(pa.array([key.encode()], pa.binary()), PARTITIONS)[0])


def rows_of(key: str) -> list[str]:
    number = int(key[1:])
    return [f"('{key}', '{key}', {number * 10 + i})" for i in range(number % 3 + 1)]


def database(owned: frozenset[int]) -> Database:
    """A database with the right rows of some partitions, and other ones in the rest."""
    found = millstream.connect(
        functions=[millstream.processor(Keeping)], properties=dict(PROPERTIES)
    )
    found.execute(SCRIPT)
    for key in KEYS:
        right = part_of(key) in owned
        for row in rows_of(key) if right else [f"('{key}', '{key}', 999999)"]:
            found.execute(f"INSERT INTO sales VALUES {row};")
    found.wait()
    return found


@dataclass
class Node:
    """One instance, whose part of all queries is set by hand."""

    name: str
    db: Database
    held: HostedPartitions
    views: list[PeerView] = field(default_factory=list)
    asked: list[PartitionRead] = field(default_factory=list)
    exchange: Exchange = None  # type: ignore[assignment]
    live: Callable[[], Sequence[PeerView]] = None  # type: ignore[assignment]
    fetch: Fetch = None  # type: ignore[assignment]

    def __post_init__(self) -> None:
        engine = self.db.engine
        snapshots = Participations(engine.cluster)
        self.exchange = Exchange(
            InternalListener(token="t"),
            lambda request: serve_read(engine.cluster, request, snapshots),
            snapshots.execute,
        )
        engine.cluster.routing = Router(
            lambda _: self.held,
            lambda: self.live(),
            lambda *given: self.fetch(*given),
            self.exchange.send,
            f"{self.name}1",
        )
        self.live = lambda: self.views
        self.fetch = self.fetched

    def fetched(self, address: str, request: PartitionRead, timeout_ms: int) -> pa.Table:
        self.asked.append(request)
        return self.exchange.fetch(address, request, timeout_ms)

    def seen(self, **changed: str) -> PeerView:
        """How others see this node."""
        queries = dict.fromkeys(self.db.engine.catalog.queries, self.held)
        address = changed.get("address", self.exchange.address)
        return updated_view(
            None, InstanceMetadata(self.name, f"{self.name}1", address, queries), 0, 0
        )

    def rows(self, sql: str) -> list[tuple[object, ...]]:
        return list(self.db.execute(sql))

    def leave(self) -> None:
        """The database is as it was before."""
        self.exchange.close()
        self.db.engine.cluster.routing = None
        self.db.session = Session(dict(PROPERTIES))
