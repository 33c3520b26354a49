"""CPU of reading and writing a record in each format: the bids of Nexmark, and records with lists,
maps, structs and a field of two types; beside fastavro, Google's library and those of Java, a
record at a time (of Java, what the compiler and the collector take is not counted).

Each figure is the least of several repeats.
"""

from __future__ import annotations

import argparse
import io
import json
import time
from collections.abc import Callable, Sequence
from typing import Any

import duckdb
import fastavro
import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from google.protobuf.message_factory import GetMessageClass

from millstream.catalog.formats import CAPABILITIES
from millstream.formats.codec import read_payload, write_payload
from millstream.formats.payload import Layout, Subject
from millstream.log.embedded import EmbeddedLog
from millstream.model.physical import arrow_type
from millstream.model.schema import Column, Role
from millstream.model.types import (
    BIGINT,
    INTEGER,
    STRING,
    TIMESTAMP,
    Array,
    Field,
    Map,
    SqlType,
    Struct,
)
from millstream.schemas.embedded import EmbeddedRegistry
from tests.clients.java_libraries import JavaLibraries
from tests.clients.places import missing
from tests.conformance.messages import messages_of

FORMATS = ("JSON", "JSON_SR", "AVRO", "PROTOBUF", "PROTOBUF_NOSR", "MSGPACK", "DELIMITED")
BID: tuple[tuple[str, SqlType], ...] = (
    ("AUCTION", BIGINT),
    ("BIDDER", BIGINT),
    ("PRICE", BIGINT),
    ("CHANNEL", STRING),
    ("URL", STRING),
    ("DATE_TIME", TIMESTAMP),
    ("EXTRA", STRING),
)
NESTED: tuple[tuple[str, SqlType], ...] = (
    ("ID", BIGINT),
    ("TAGS", Array(STRING)),
    ("COUNTS", Map(STRING, BIGINT)),
    ("LIVES", Struct((Field("TOWN", STRING), Field("ZIP", INTEGER)))),
    ("NOTE", STRING),
)


def bids(count: int) -> list[dict[str, Any]]:
    """Bids as those of Nexmark."""
    return [
        {
            "AUCTION": 1_000 + n % 977,
            "BIDDER": 1_000 + n % 1_013,
            "PRICE": n * 7919 % 1_000_000,
            "CHANNEL": ("Google", "Apple", "Baidu", "Facebook")[n % 4],
            "URL": f"https://www.nexmark.com/item.htm?query={n % 1_000}",
            "DATE_TIME": 1_700_000_000_000_000 + n * 1_000,
            "EXTRA": "x" * 40,
        }
        for n in range(count)
    ]


def nested(count: int) -> list[dict[str, Any]]:
    """Records with others in them, and with a NULL in each third."""
    return [
        {
            "ID": n,
            "TAGS": ["red", "large"][: n % 3],
            "COUNTS": [("seen", n), ("sold", n % 7)],
            "LIVES": {"TOWN": "Bern", "ZIP": n % 9_999},
            "NOTE": None if n % 3 else "some text",
        }
        for n in range(count)
    ]


def cpu(call: Callable[[], object], records: int, repeats: int) -> float:
    """Microseconds of CPU for each record."""
    found = []
    for _ in range(repeats):
        began = time.process_time()
        call()
        found.append(time.process_time() - began)
    return 1e6 * min(found) / records


def measured(
    name: str, columns: Sequence[tuple[str, SqlType]], rows: list[dict[str, Any]], repeats: int
) -> tuple[float, float, int]:
    """Reading, writing, and the bytes of a payload."""
    con = duckdb.connect()
    registry = EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)
    layout = Layout(
        tuple(Column(column, kind, Role.VALUE) for column, kind in columns),
        tuple(range(len(columns))),
        subject=Subject(registry, "bench-value", "BENCH", is_key=False),
    )
    arrays = [pa.array([row[column] for row in rows], arrow_type(kind)) for column, kind in columns]
    payload = write_payload(con, arrays, layout, name, len(rows)).payload
    assert not read_payload(con, payload, layout, name).bad
    return (
        cpu(lambda: read_payload(con, payload, layout, name), len(rows), repeats),
        cpu(lambda: write_payload(con, arrays, layout, name, len(rows)), len(rows), repeats),
        payload.nbytes // len(rows),
    )


AVRO_BID = {
    "type": "record",
    "name": "bid",
    "fields": [
        {"name": name, "type": ["null", "string" if kind == STRING else "long"], "default": None}
        for name, kind in BID
    ],
}


def avro_payloads(rows: list[dict[str, Any]]) -> list[bytes]:
    """Bids as fastavro writes them."""
    schema, payloads = fastavro.parse_schema(AVRO_BID), []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, row)
        payloads.append(out.getvalue())
    return payloads


def by_fastavro(rows: list[dict[str, Any]], repeats: int) -> tuple[float, float]:
    """fastavro, a record at a time: reading and writing bids."""
    schema, payloads = fastavro.parse_schema(AVRO_BID), avro_payloads(rows)

    def read() -> None:
        for payload in payloads:
            fastavro.schemaless_reader(io.BytesIO(payload), schema, None)

    def write() -> None:
        for row in rows:
            fastavro.schemaless_writer(io.BytesIO(), schema, row)

    return cpu(read, len(rows), repeats), cpu(write, len(rows), repeats)


def proto_bid() -> Descriptor:
    """The message of bids."""
    fields = " ".join(
        f"{'string' if kind == STRING else 'int64'} {name} = {number};"
        for number, (name, kind) in enumerate(BID, 1)
    )
    return messages_of(f'syntax = "proto3"; message B {{ {fields} }}', ())[0]


def by_google(rows: list[dict[str, Any]], repeats: int) -> tuple[float, float]:
    """Google's library, a record at a time: reading all fields of bids, and writing them."""
    kind = GetMessageClass(proto_bid())
    payloads = [kind(**row).SerializeToString() for row in rows]
    names = [name for name, _ in BID]

    def read() -> None:
        for payload in payloads:
            message = kind.FromString(payload)
            [getattr(message, name) for name in names]

    def write() -> None:
        for row in rows:
            kind(**row).SerializeToString()

    return cpu(read, len(rows), repeats), cpu(write, len(rows), repeats)


def by_java(rows: list[dict[str, Any]]) -> dict[str, tuple[float, float]]:
    """The Java libraries, a record at a time, once they are warm: reading into generic records and
    dynamic messages, and writing them. Nothing if they are not installed."""
    why = missing("java")
    if why:
        print(f"NOT MEASURED: the libraries of Java ({why})")
        return {}
    kind = GetMessageClass(proto_bid())
    messages = [kind(**row).SerializeToString() for row in rows]
    with JavaLibraries() as java:
        return {
            "Avro (Java)": java.avro_cost(json.dumps(AVRO_BID), avro_payloads(rows)),
            "protobuf (Java)": java.protobuf_cost(proto_bid(), messages),
        }


def main(arguments: list[str] | None = None) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="make bench-formats", description=__doc__)
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--report", help="write the figures as JSON to this file")
    options = parser.parse_args(arguments)
    found: dict[str, Any] = {}
    print("| format | bid, read | write | bytes | nested, read | write | bytes |")
    print("|--|--:|--:|--:|--:|--:|--:|")
    for name in FORMATS:
        figures = [measured(name, BID, bids(options.records), options.repeats)]
        if CAPABILITIES[name].nests:
            figures.append(measured(name, NESTED, nested(options.records), options.repeats))
        found[name] = figures
        cells = [f"{read:.2f} | {write:.2f} | {size}" for read, write, size in figures]
        print(f"| {name} | {' | '.join([*cells, *['- | - | -'] * (2 - len(cells))])} |", flush=True)
    for name, call in (("fastavro", by_fastavro), ("protobuf (Google)", by_google)):
        read, write = call(bids(options.records // 4), options.repeats)
        found[name] = [(read, write)]
        print(f"| {name}, one by one | {read:.2f} | {write:.2f} | - | - | - | - |", flush=True)
    for name, (read, write) in by_java(bids(options.records // 4)).items():
        found[name] = [(read, write)]
        print(f"| {name}, one by one | {read:.2f} | {write:.2f} | - | - | - | - |", flush=True)
    if options.report:
        with open(options.report, "w", encoding="utf-8") as file:
            json.dump(found, file)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
