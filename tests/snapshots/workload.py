"""Tables that must agree at every instant, the records that flow into them, and the queries."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from random import Random

import pyarrow as pa

from millstream.formats.partition import partition_of
from millstream.log.log import Appended, Log
from millstream.model.batch import raw_batch

PARTITIONS = 3
WRITERS = 2
SCRIPT = """
CREATE STREAM transfers (payer STRING KEY, payee STRING, amount BIGINT)
  WITH (KAFKA_TOPIC='transfers', PARTITIONS=3, VALUE_FORMAT='JSON');
CREATE TABLE people (id STRING PRIMARY KEY, town STRING)
  WITH (KAFKA_TOPIC='people', PARTITIONS=3, VALUE_FORMAT='JSON');
CREATE STREAM debits (id STRING KEY, n BIGINT)
  WITH (KAFKA_TOPIC='debits', PARTITIONS=3, VALUE_FORMAT='JSON');
CREATE STREAM credits (id STRING KEY, n BIGINT)
  WITH (KAFKA_TOPIC='credits', PARTITIONS=3, VALUE_FORMAT='JSON');
CREATE TABLE paid AS SELECT payer, SUM(amount) AS amount, COUNT(*) AS n
  FROM transfers GROUP BY payer EMIT CHANGES;
CREATE TABLE received AS SELECT payee, SUM(amount) AS amount, COUNT(*) AS n
  FROM transfers GROUP BY payee EMIT CHANGES;
CREATE TABLE large AS SELECT payer, COUNT(*) AS n FROM transfers WHERE amount >= 50
  GROUP BY payer EMIT CHANGES;
CREATE TABLE small AS SELECT payer, COUNT(*) AS n FROM transfers WHERE amount < 50
  GROUP BY payer EMIT CHANGES;
CREATE TABLE payers AS SELECT payer, amount * 2 AS twice FROM paid EMIT CHANGES;
CREATE TABLE levels AS SELECT n, COUNT(*) AS payers FROM paid GROUP BY n EMIT CHANGES;
CREATE TABLE hourly AS SELECT payee, COUNT(*) AS n FROM transfers WINDOW TUMBLING (SIZE 1 HOUR)
  GROUP BY payee EMIT CHANGES;
CREATE STREAM placed AS SELECT t.payer, t.amount, COALESCE(p.town, 'none') AS town
  FROM transfers t LEFT JOIN people p ON t.payer = p.id EMIT CHANGES;
CREATE TABLE towns AS SELECT town, SUM(amount) AS amount FROM placed GROUP BY town EMIT CHANGES;
CREATE TABLE debited AS SELECT id, COUNT(*) AS n FROM debits GROUP BY id EMIT CHANGES;
CREATE TABLE credited AS SELECT id, COUNT(*) AS n FROM credits GROUP BY id EMIT CHANGES;
"""
FEW = SCRIPT[: SCRIPT.index("CREATE TABLE levels")]
"""The tables of the first three invariants alone."""
TABLES = ("PAID", "RECEIVED", "LARGE", "SMALL", "PAYERS", "LEVELS", "HOURLY", "TOWNS")
Number = int | Decimal


@dataclass(frozen=True, slots=True)
class Invariant:
    """Two figures over different tables, and by how much the first may be the larger one."""

    name: str
    left: str
    right: str
    most: int = 0

    @property
    def text(self) -> str:
        """One query for both."""
        return f"SELECT ({self.left}) AS a, ({self.right}) AS b;"

    def holds(self, left: Number, right: Number) -> bool:
        """Whether the figures can be of one instant."""
        return 0 <= left - right <= self.most


def total(column: str, table: str) -> str:
    """The sum of a column, 0 of no rows."""
    return f"SELECT COALESCE(SUM({column}), 0) FROM {table}"


INVARIANTS = (
    Invariant("sums by payer and payee", total("amount", "paid"), total("amount", "received")),
    Invariant(
        "a filter and its complement",
        total("n", "paid"),
        f"SELECT ({total('n', 'large')}) + ({total('n', 'small')})",
    ),
    Invariant(
        "a table computed from a table",
        f"SELECT 2 * ({total('amount', 'paid')})",
        total("twice", "payers"),
    ),
    Invariant("groups of a table", "SELECT COUNT(*) FROM paid", total("payers", "levels")),
    Invariant("a windowed table", total("n", "received"), total("n", "hourly")),
    Invariant("behind a join", total("amount", "paid"), total("amount", "towns")),
    Invariant("two sources", total("n", "debited"), total("n", "credited"), WRITERS),
)
"""`two sources`: each writer records a debit, and when that is on the log the credit."""


def transfers(random: Random, count: int) -> list[tuple[str, dict[str, object]]]:
    """So many records with their keys."""
    return [
        (
            f"p{random.randrange(11)}",
            {"PAYEE": f"q{random.randrange(13)}", "AMOUNT": random.randrange(1, 100)},
        )
        for _ in range(count)
    ]


def appended(
    topic: str, rows: list[tuple[str, dict[str, object]]], at: int
) -> list[Appended[pa.Table]]:
    """The records of a topic, each in its key's partition."""
    keys = [key.encode() for key, _ in rows]
    places = partition_of(pa.array(keys, pa.binary()), PARTITIONS).tolist()
    made = []
    for partition in sorted(set(places)):
        records: list[tuple[bytes | None, bytes | None, int]] = [
            (key, json.dumps(value).encode(), at)
            for key, (_, value), place in zip(keys, rows, places, strict=True)
            if place == partition
        ]
        made.append(Appended(topic, partition, raw_batch(records), len(records)))
    return made


@contextmanager
def load(log: Log[pa.Table], seed: int, pause_s: float = 0.0) -> Iterator[Callable[[], int]]:
    """Writers in threads of their own; gives how many records they have written so far."""
    stop = threading.Event()
    written = [0] * WRITERS
    failed: list[BaseException] = []

    def write(number: int) -> None:
        random = Random(seed * 100 + number)
        writer = log.writer(f"load-{number}")
        try:
            while not stop.wait(pause_s):
                now = time.time_ns() // 1_000_000
                person = (f"p{random.randrange(11)}", {"TOWN": f"t{random.randrange(4)}"})
                writer.append(appended("transfers", transfers(random, 40), now))
                writer.append(appended("people", [person], now))
                writer.append(appended("debits", [(f"w{number}", {"N": 1})], now))
                writer.append(appended("credits", [(f"w{number}", {"N": 1})], now))
                written[number] += 43
        except BaseException as failure:
            failed.append(failure)
        finally:
            writer.close()

    threads = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: sum(written)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    if failed:
        raise failed[0]
