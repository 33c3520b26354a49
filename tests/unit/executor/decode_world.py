"""Random queries over one topic that decode its records together, checked against queries that
each decode for themselves."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb
import pyarrow as pa

from millstream.catalog.source import Format, TimestampColumn
from millstream.executor.decode_cache import DecodeCache
from millstream.executor.source_reader import Rows, Sharing, SourceReader
from millstream.formats.codec import DecodeSpec
from millstream.log.log import Fetched
from millstream.model.batch import raw_batch
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BIGINT, HEADERS, STRING

TOPIC = "t"
JSON, KAFKA, DELIMITED = Format("JSON"), Format("KAFKA"), Format("DELIMITED")
KEY = Column("K", STRING, Role.KEY)
A, B, TIME = Column("A", BIGINT), Column("B", STRING), Column("T", BIGINT)
SCHEMAS = (
    Schema((KEY, A, B, TIME)),
    Schema((KEY, A, replace(B, type=BIGINT), TIME)),
    Schema((KEY, replace(A, type=STRING), TIME)),
    Schema((KEY, A, B, TIME, Column("H", HEADERS, Role.HEADERS))),
    Schema((A, B, TIME)),
)
PSEUDO = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")


def values(chance: random.Random) -> Iterator[bytes | None]:
    """Values of records that some formats and schemas can read, and some cannot."""
    while True:
        number, time = chance.randrange(1000), chance.randrange(1, 10_000)
        good = json.dumps({"A": number, "B": str(number), "T": time}).encode()
        others = (b"null", b"{", None, b'{"A":"x","T":5}', b"1,2,3", b'{"B":"y","T":-7}')
        yield good if chance.random() < 0.85 else chance.choice(others)


def records(chance: random.Random, count: int) -> pa.Table:
    """Records of a partition. Some offsets are missing."""
    made = values(chance)
    keys = (None, b"a", b"bb", b'"c"')
    batch = raw_batch(
        [(chance.choice(keys), next(made), chance.randrange(1, 10_000)) for _ in range(count)],
        [[{"key": "h", "value": b"x"}] if chance.random() < 0.1 else None for _ in range(count)],
    )
    offsets, at = [], 0
    for _ in range(count):
        at += 1 if chance.random() < 0.9 else chance.randrange(2, 5)
        offsets.append(at)
    return batch.set_column(0, "offset", pa.array(offsets, pa.int64()))


def specs(chance: random.Random) -> list[DecodeSpec]:
    """A way to decode, and others that differ from it in one respect."""
    schema = chance.choice(SCHEMAS)
    timestamp = TimestampColumn("T") if chance.random() < 0.3 else None
    one = DecodeSpec(chance.choice((KAFKA, JSON)), JSON, schema, (), timestamp=timestamp)
    others = [
        replace(one, schema=chance.choice(SCHEMAS)),
        replace(one, key_format=JSON if one.key_format == KAFKA else KAFKA),
        replace(one, value_format=DELIMITED),
        replace(one, timestamp=None if one.timestamp else TimestampColumn("T")),
        replace(one, is_table=bool(schema.key)),
    ]
    return [one, *chance.sample(others, 2)]


@dataclass
class Query:
    """One reader, its twin that shares nothing, and how far it has come."""

    reader: SourceReader
    twin: SourceReader
    topic: int
    positions: dict[int, int] = field(default_factory=dict)


class World:
    """Topics of the same name, one after another, and the queries that read them."""

    def __init__(self, seed: int, *, records_each: int = 60, max_bytes: int | None = None) -> None:
        self.chance = random.Random(seed)
        self.con = duckdb.connect(config={"threads": 1})
        partitions = self.chance.randrange(1, 4)
        self.topics = [
            [records(self.chance, records_each) for _ in range(partitions)] for _ in range(2)
        ]
        limits = (0, 2_000, 20_000, 1 << 30)
        self.max_bytes = self.chance.choice(limits) if max_bytes is None else max_bytes
        self.cache = DecodeCache(self.max_bytes)
        self.queries: list[Query] = []
        self.specs = specs(self.chance)

    def add(self) -> None:
        """A query, mostly like another one but for its columns."""
        chance = self.chance
        chosen = chance.choice(self.specs)
        names = [name for name in (*chosen.schema.names, *PSEUDO) if chance.random() < 0.4]
        chosen = replace(chosen, columns=tuple((f"c{at}", name) for at, name in enumerate(names)))
        topic = 0 if chance.random() < 0.8 else 1
        sharing = Sharing(self.cache, {TOPIC: f"id{topic}"})
        reader = SourceReader(TOPIC, chosen, sharing)
        query = Query(reader, SourceReader(TOPIC, chosen), topic)
        self.queries.append(query)
        self.open(query)

    def open(self, query: Query) -> None:
        """Open some of its partitions, each at the beginning or somewhere else."""
        chance = self.chance
        for partition, table in enumerate(self.topics[query.topic]):
            if chance.random() < 0.8:
                last = table["offset"][-1].as_py()
                query.reader.open(partition)
                query.positions[partition] = chance.choice((0, 0, chance.randrange(last)))

    def fetched(self, query: Query, most: int) -> list[Fetched[Any]]:
        """What the query fetches next; `next_offset` is anywhere before the next record."""
        found = []
        for partition, position in sorted(query.positions.items()):
            table = self.topics[query.topic][partition]
            offsets = table["offset"].to_pylist()
            rest = [at for at, offset in enumerate(offsets) if offset >= position][:most]
            batch = table.slice(rest[0] if rest else 0, len(rest))
            behind = offsets[rest[-1]] + 1 if rest else position
            following = [offset for offset in offsets if offset >= behind]
            end = self.chance.choice((behind, following[0])) if following else behind
            found.append(Fetched(TOPIC, partition, batch, len(rest), end, not following))
        return found

    def read(self, query: Query, most: int) -> None:
        """Read, compare, and consume all of it or hold some back."""
        fetched = self.fetched(query, most)
        if not fetched:
            return
        found = query.reader.read(self.con, fetched)
        same(found, query.twin.read(self.con, fetched))
        consumed = {}
        for item in fetched:
            back = self.chance.randrange(item.count + 1) if self.chance.random() < 0.3 else 0
            at = item.batch["offset"][item.count - back].as_py() if back else item.next_offset
            consumed[TOPIC, item.partition] = query.positions[item.partition] = at
        query.reader.passed(consumed)

    def step(self) -> None:
        """Anything."""
        chance = self.chance
        what = chance.random()
        if not self.queries or what < 0.1:
            self.add()
            return
        query = chance.choice(self.queries)
        if what < 0.13:
            query.reader.close()
            self.queries.remove(query)
        elif what < 0.18:
            query.reader.forget()
            query.positions.clear()
            self.open(query)
        else:
            self.read(query, chance.choice((1, 3, 10, 40)))

    def check(self) -> None:
        """What is kept is counted, within bounds, and needed."""
        kept = [
            (partition, batch)
            for groups in self.cache._groups.values()
            for group in groups
            for partition in group.partitions.values()
            for batch in partition.batches
        ]
        assert sum(batch.bytes for _, batch in kept) == self.cache.bytes <= self.max_bytes
        for partition, batch in kept:
            assert len(partition.positions) > 1
            assert min(partition.positions.values()) < batch.stop
        for groups in self.cache._groups.values():
            assert groups
            assert all(not p.claims for group in groups for p in group.partitions.values())

    def close(self) -> None:
        """Close all queries: nothing may be left."""
        for query in self.queries:
            query.reader.close()
        assert self.cache._groups == {}
        assert self.cache._kept == {}
        assert self.cache.bytes == 0
        self.con.close()


def same(found: Rows, expected: Rows) -> None:
    """What a query sees does not depend on the others."""
    assert found.table.schema == expected.table.schema
    assert found.table.to_pydict() == expected.table.to_pydict()
    assert list(found.ends) == list(expected.ends)
    assert found.problems == expected.problems


def play(seed: int, steps: int = 60) -> World:
    """A random sequence."""
    world = World(seed)
    for _ in range(steps):
        world.step()
        world.check()
    world.close()
    return world
