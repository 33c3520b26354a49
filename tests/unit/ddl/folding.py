"""Statements planned one after another over a catalog and topics that are only values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from millstream.ddl.change import plan_change
from millstream.ddl.effects import Change
from millstream.ddl.environment import ConfiguredStatement, Environment
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import PlannedTopics
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.log import Topic
from millstream.model.settings import EngineSettings
from millstream_parser import parse

EXISTING = (
    Topic("orders", 2, 3, id="7"),
    Topic("odd", 3, id="8"),
    Topic("_millstream_x", 1, id="9"),
)
SCRIPT = """
CREATE TYPE money AS DECIMAL(10, 2);
CREATE STREAM orders (id INT KEY, customer STRING, total INT)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM odd (id INT KEY, v INT) WITH (KAFKA_TOPIC='odd', VALUE_FORMAT='JSON');
CREATE STREAM events (id INT KEY, v INT)
  WITH (KAFKA_TOPIC='events', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE SOURCE TABLE prices (id INT PRIMARY KEY, price INT)
  WITH (KAFKA_TOPIC='prices', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE spending AS SELECT customer, SUM(total) AS total FROM orders GROUP BY customer;
CREATE STREAM large AS SELECT * FROM orders WHERE total > 10;
CREATE STREAM larger AS SELECT * FROM large WHERE total > 20;
INSERT INTO events SELECT id, v FROM odd;
"""
"""Statement n starts a query with number n: CST_PRICES_4, CTAS_SPENDING_5, CSAS_LARGE_6, …"""
CREATED = {"CTAS_SPENDING_5": (Topic("orders", 2, id="7"),)}
"""What the command topic says about the topics of a query."""


@dataclass(frozen=True)
class Existing:
    """Topics without a log."""

    all: tuple[Topic, ...] = EXISTING

    def topic(self, name: str) -> Topic | None:
        return next((topic for topic in self.all if topic.name == name), None)

    def topics(self) -> tuple[Topic, ...]:
        return self.all


@dataclass
class Fold:
    """The catalog and the topics after the statements so far."""

    snapshot: CatalogSnapshot = field(default_factory=CatalogSnapshot)
    topics: PlannedTopics = field(default_factory=lambda: PlannedTopics(Existing()))
    number: int = 0
    replaying: bool = False
    """Whether the statements come from the command topic."""
    shared: bool = False

    def plan(self, sql: str, properties: Mapping[str, str] | None = None) -> Change:
        """What one statement comes to, which is not applied."""
        (statement,) = parse(sql)
        given = ConfiguredStatement(
            statement, sql, sql, properties or {}, self.number, self.number * 1_000
        )
        topics = None if self.replaying else self.topics
        environment = Environment(builtin_catalogue(), EngineSettings(), topics, self.shared)
        return plan_change(given, self.snapshot, environment)

    def apply(self, sql: str) -> Change:
        """One statement, on top of which the next one is planned."""
        change = self.plan(sql)
        self.snapshot = change.after
        self.topics.apply(change.effects)
        self.number += 1
        return change


def folded(*, replaying: bool = False) -> Fold:
    """After `SCRIPT`."""
    made = Fold(replaying=replaying)
    for sql in SCRIPT.split(";")[:-1]:
        made.apply(f"{sql.strip()};")
    made.snapshot = made.snapshot.with_topics(CREATED)
    return made


def differences(before: CatalogSnapshot, after: CatalogSnapshot) -> Iterator[str]:
    """What is new (+), gone (-) or another (~) in a catalog."""
    old, new = before.catalog, after.catalog
    kinds: tuple[tuple[str, Mapping[str, object], Mapping[str, object]], ...] = (
        ("source", old.sources, new.sources),
        ("type", old.types, new.types),
        ("query", old.queries, new.queries),
        ("plan", before.plans, after.plans),
        ("topics", before.topics, after.topics),
        ("paused", dict.fromkeys(before.paused), dict.fromkeys(after.paused)),
    )
    for kind, was, now in kinds:
        for name in sorted(was.keys() | now.keys()):
            sign = "+" if name not in was else "-" if name not in now else "~"
            if was.get(name) is not now.get(name) or sign != "~":
                yield f"{sign}{kind} {name}"
