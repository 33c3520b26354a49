"""The workloads of the bench as SQL, with their budgets in CPU seconds per million records."""

from __future__ import annotations

from dataclasses import dataclass

BID = """
CREATE STREAM bid (auction BIGINT, bidder BIGINT, price BIGINT, channel STRING, url STRING,
  dateTime BIGINT, extra STRING)
  WITH (KAFKA_TOPIC='bid', PARTITIONS=4, VALUE_FORMAT='JSON');
"""
AUCTION = """
CREATE TABLE auction (id BIGINT PRIMARY KEY, itemName STRING, seller BIGINT, category BIGINT)
  WITH (KAFKA_TOPIC='auction', PARTITIONS=4, VALUE_FORMAT='JSON');
"""
PERSON = """
CREATE STREAM person (id BIGINT KEY, name STRING)
  WITH (KAFKA_TOPIC='person', PARTITIONS=4, VALUE_FORMAT='JSON');
CREATE STREAM offer (id BIGINT KEY, seller BIGINT)
  WITH (KAFKA_TOPIC='auction', PARTITIONS=4, VALUE_FORMAT='JSON');
"""
"""The auctions again, in input order."""


@dataclass(frozen=True, slots=True)
class Workload:
    """`budget` and `kafka_streams`: CPU seconds per million records of the `inputs`; the second is
    None if it was not measured."""

    name: str
    title: str
    sql: str
    budget: float
    kafka_streams: float | None
    cached: bool = False
    inputs: tuple[str, ...] = ("bid",)


WORKLOADS = (
    Workload(
        "W1",
        "projection",
        "CREATE STREAM w1 AS SELECT auction, bidder, price * 0.908e0 AS price, dateTime, extra"
        " FROM bid EMIT CHANGES;",
        2.5,
        9.7,
    ),
    Workload(
        "W2",
        "filter",
        "CREATE STREAM w2 AS SELECT auction, price FROM bid WHERE auction % 123 = 0 EMIT CHANGES;",
        1.0,
        4.3,
    ),
    Workload(
        "W3",
        "count and max per auction, every change",
        "CREATE TABLE w3 AS SELECT auction, COUNT(*) AS bids, MAX(price) AS price FROM bid"
        " GROUP BY auction EMIT CHANGES;",
        4.5,
        22.7,
    ),
    Workload(
        "W3c",
        "count and max per auction, record cache",
        "CREATE TABLE w3 AS SELECT auction, COUNT(*) AS bids, MAX(price) AS price FROM bid"
        " GROUP BY auction EMIT CHANGES;",
        3.5,
        15.8,
        cached=True,
    ),
    Workload(
        "W4",
        "count and max per bidder, tumbling 10 s",
        "CREATE TABLE w4 AS SELECT bidder, COUNT(*) AS bids, MAX(price) AS price FROM bid"
        " WINDOW TUMBLING (SIZE 10 SECONDS) GROUP BY bidder EMIT CHANGES;",
        3.5,
        16.6,
        cached=True,
    ),
    Workload(
        "W5",
        "count and max per auction, hopping 10 s by 2 s",
        "CREATE TABLE w5 AS SELECT auction, COUNT(*) AS bids, MAX(price) AS price FROM bid"
        " WINDOW HOPPING (SIZE 10 SECONDS, ADVANCE BY 2 SECONDS) GROUP BY auction EMIT CHANGES;",
        5.0,
        28.1,
        cached=True,
    ),
    Workload(
        "W6",
        "bids joined with the auction table",
        "CREATE STREAM w6 AS SELECT b.auction AS auction, bidder, price, b.dateTime AS dateTime,"
        " itemName, seller, category FROM bid b JOIN auction a ON b.auction = a.id EMIT CHANGES;",
        4.5,
        19.3,
    ),
    Workload(
        "W7",
        "persons joined with their auctions within 10 s",
        "CREATE STREAM w7 AS SELECT p.id AS id, name, a.id AS auction FROM person p"
        " JOIN offer a WITHIN 10 SECONDS GRACE PERIOD 10 SECONDS ON p.id = a.seller EMIT CHANGES;",
        12.0,
        71.4,
        inputs=("person", "auction"),
    ),
    Workload(
        "WS",
        "count and max per bidder, sessions, gap 1 s",
        "CREATE TABLE ws AS SELECT bidder, COUNT(*) AS bids, MAX(price) AS price FROM bid"
        " WINDOW SESSION (1 SECONDS) GROUP BY bidder EMIT CHANGES;",
        7.0,
        None,
        cached=True,
    ),
)
