"""Whether a sink holds what plain DuckDB finds over the whole input.

Millstream's results are compared row by row, of tables the last row of each key; those of the
peers, which name and write things differently, by how many rows they have and what they add up to.
"""

from __future__ import annotations

from dataclasses import dataclass

import duckdb
import pyarrow as pa
from confluent_kafka import Consumer, Message, TopicPartition

from tests.bench.kafka.contenders import Race
from tests.bench.kafka.load import records

_AT_ONCE = 10_000


@dataclass(frozen=True, slots=True)
class Wanted:
    """The rows that a workload must produce, as a query over the input; how Millstream writes them,
    as columns of `found` (k: key as text, w: its window start, v: the value); and the column of the
    peers that is added up."""

    rows: str
    columns: str
    added: str = "price"
    table: bool = False


_GROUPED = "(v->>'BIDS')::BIGINT, (v->>'PRICE')::BIGINT"
_WINDOWS = """SELECT {key}, started, COUNT(*), MAX(price) FROM (SELECT *, unnest(range(
  ts - ts % {step} - {size} + {step}, ts + 1, {step})) AS started FROM bid) GROUP BY ALL"""
WANTED = {
    "W1": Wanted(
        "SELECT auction, bidder, price * 0.908::DOUBLE AS price, dateTime, extra FROM bid",
        "(v->>'AUCTION')::BIGINT, (v->>'BIDDER')::BIGINT, (v->>'PRICE')::DOUBLE,"
        " (v->>'DATETIME')::BIGINT, v->>'EXTRA'",
    ),
    "W2": Wanted(
        "SELECT auction, price FROM bid WHERE auction % 123 = 0",
        "(v->>'AUCTION')::BIGINT, (v->>'PRICE')::BIGINT",
    ),
    "W3": Wanted(
        "SELECT auction, COUNT(*), MAX(price) AS price FROM bid GROUP BY auction",
        f"k::BIGINT, {_GROUPED}",
        table=True,
    ),
    "W4": Wanted(
        _WINDOWS.format(key="bidder", size=10_000, step=10_000),
        f"k::BIGINT, w, {_GROUPED}",
        table=True,
    ),
    "W5": Wanted(
        _WINDOWS.format(key="auction", size=10_000, step=2_000),
        f"k::BIGINT, w, {_GROUPED}",
        table=True,
    ),
    "W6": Wanted(
        "SELECT auction, bidder, price, b.dateTime, itemName, seller, category"
        " FROM bid b JOIN auction a ON b.auction = a.id",
        "k::BIGINT, (v->>'BIDDER')::BIGINT, (v->>'PRICE')::BIGINT, (v->>'DATETIME')::BIGINT,"
        " v->>'ITEMNAME', (v->>'SELLER')::BIGINT, (v->>'CATEGORY')::BIGINT",
    ),
    "W7": Wanted(
        "SELECT p.id, name, a.id AS auction FROM person p JOIN auction a"
        " ON p.id = a.seller AND abs(p.ts - a.ts) <= 10000",
        "k::BIGINT, v->>'NAME', (v->>'AUCTION')::BIGINT",
        added="auction",
    ),
}
_TYPES = {
    "bid": '{"auction":"BIGINT","bidder":"BIGINT","price":"BIGINT","dateTime":"BIGINT","extra":"VARCHAR"}',  # noqa: E501
    "auction": '{"id":"BIGINT","itemName":"VARCHAR","seller":"BIGINT","category":"BIGINT"}',
    "person": '{"id":"BIGINT","name":"VARCHAR"}',
}


class Expected:
    """The whole input in plain DuckDB, made once."""

    def __init__(self, events: int) -> None:
        self._connection = duckdb.connect()
        self._connection.execute("SET threads = 1; SET memory_limit = '4GB'")
        for source, values, _, times in records(events):
            self._connection.register("raw", pa.table({"value": values, "ts": times}))
            self._connection.execute(
                f"CREATE TABLE {source} AS SELECT unnest(from_json(value, '{_TYPES[source]}')), ts"
                " FROM raw"
            )

    def verdict(self, servers: str, race: Race) -> str:
        """`ok`, or the error of a sink; with the number of records in it."""
        wanted = WANTED[race.workload.name.rstrip("c")]
        peer = race.contender != "millstream"
        connection = self._connection
        connection.execute(f"CREATE OR REPLACE TEMP TABLE wanted AS {wanted.rows}")
        found = _read(servers, race.sink, race.partitions)
        connection.register("read", found)
        connection.execute(_last(wanted, peer))
        differ = _added(connection, wanted) if peer else _rows(connection, wanted)
        connection.execute("DROP TABLE found")
        connection.unregister("read")
        return f"{found.num_rows} out, {differ or 'ok'}"


def _last(wanted: Wanted, peer: bool) -> str:
    """`found`: the records; of a table, those that were not replaced."""
    split = not peer and "w," in wanted.columns
    key = "key[:-9]::BLOB" if split else "key"
    start = "('0x' || hex(key[-8:]))::BIGINT" if split else "0::BIGINT"
    rows = "SELECT * FROM read"
    if wanted.table:
        rows += " WHERE key IS NULL OR true QUALIFY key IS NULL OR row_number() OVER"
        rows += " (PARTITION BY key ORDER BY place DESC) = 1"
    return (
        f"CREATE TABLE found AS SELECT decode({key}) AS k, {start} AS w,"
        f" decode(value)::JSON AS v FROM ({rows})"
    )


def _rows(connection: duckdb.DuckDBPyConnection, wanted: Wanted) -> str:
    rows = f"SELECT {wanted.columns} FROM found"
    wrong = [
        connection.execute(f"SELECT count(*) FROM ({one} EXCEPT ALL {other})").fetchone()
        for one, other in ((rows, "FROM wanted"), ("FROM wanted", rows))
    ]
    extra, missing = (row[0] if row else -1 for row in wrong)
    return f"WRONG: {extra} rows too many, {missing} missing" if extra or missing else ""


def _added(connection: duckdb.DuckDBPyConnection, wanted: Wanted) -> str:
    column = "max(price)" if "started" in wanted.rows else wanted.added
    asked = f'SELECT count(*), sum("{column}")::HUGEINT FROM wanted'
    given = f"SELECT count(*), sum((v->>'{wanted.added}')::DOUBLE)::HUGEINT FROM found"
    one, other = (connection.execute(text).fetchone() or (0, 0) for text in (asked, given))
    rows, total = other[0] - one[0], abs(other[1] - one[1]) / one[1]
    return f"DIFFERS: {rows:+} rows, sum off by {total:.1e}" if rows or total > 1e-9 else ""


def _read(servers: str, sink: str, partitions: int) -> pa.Table:
    """All committed records by their order within the partition."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench-check",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
            "isolation.level": "read_committed",
            "fetch.queue.backoff.ms": 10,
        }
    )
    consumer.assign([TopicPartition(sink, partition, 0) for partition in range(partitions)])
    pieces, ended = [], 0
    while ended < partitions:
        messages = consumer.consume(_AT_ONCE, 0.5)
        kept = [message for message in messages if message.error() is None]
        ended += len(messages) - len(kept)
        pieces.append(_table(kept))
    consumer.close()
    return pa.concat_tables(pieces)


def _table(messages: list[Message]) -> pa.Table:
    columns = {
        "place": pa.array([message.offset() for message in messages], pa.int64()),
        "key": pa.array([message.key() for message in messages], pa.binary()),
        "value": pa.array([message.value() for message in messages], pa.binary()),
    }
    return pa.table(columns)
