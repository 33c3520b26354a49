"""An executor fed in pieces, for tests of programs: any cut of the input, state lost in between."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any

from millstream.catalog.source import Format, Source
from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.log import Appended
from millstream.model.schema import Column, Role, Schema, SourceKind, WindowedKey
from millstream.model.types import INTEGER, STRING
from millstream.plan import nodes as n
from millstream.state.store import Store
from millstream.testing.drawn import Line, fetched, raw
from millstream.topology.topology import SourceInput, SubTopology

KAFKA, JSON = Format("KAFKA"), Format("JSON")
CATALOGUE = builtin_catalogue()
K, V = Column("K", STRING, Role.KEY), Column("V", INTEGER)
Row = tuple[Any, ...]
"""(key, value columns or None, event time) of one output record."""


def read(name: str, kind: SourceKind, *, prefix: str = "", materialised: bool = False) -> n.Read:
    source = Source(name, kind, Schema((K, V)), name.lower(), KAFKA, JSON)
    schema = Schema((Column(prefix + "K", STRING, Role.KEY), Column(prefix + "V", INTEGER)))
    return n.Read(source, prefix, schema, ("K", "V"), kind, materialised)


def streams_joined(join: n.JoinKind, within: n.Within) -> n.StreamStreamJoin:
    """Streams S and T on their keys: L_K, L_V, R_V."""
    left = read("S", SourceKind.STREAM, prefix="L_")
    right = read("T", SourceKind.STREAM, prefix="R_")
    key = Column("L_K", STRING, Role.KEY)
    schema = Schema((key, Column("L_V", INTEGER), Column("R_V", INTEGER)))
    return n.StreamStreamJoin(left, right, join, within, schema)


def leaves(node: n.Node) -> list[n.Read]:
    below = [leaf for child in n.inputs(node) for leaf in leaves(child)]
    return [node] if isinstance(node, n.Read) else below


def subtopology(node: n.Node, window: WindowedKey | None = None) -> SubTopology:
    root = n.Write(node, "O", "o", KAFKA, JSON, window, None)
    inputs = tuple(SourceInput(leaf, leaf.source.topic) for leaf in leaves(root))
    return SubTopology(0, inputs, root, 1, "o", "changes")


class Host:
    """An executor that can be started anew with nothing but its changelog."""

    def __init__(self, sub: SubTopology) -> None:
        self.sub = sub
        self.changelog: list[Any] = []
        self.start()

    def start(self) -> None:
        self.store = Store.open(":memory:")
        self.executor = DuckDBExecutor(
            self.store, "Q", self.sub, CATALOGUE, pace=Pace(fewest=3, piece=2)
        )
        self.executor.open(0)
        for offset, batch in enumerate(self.changelog):
            self.executor.restore(0, fetched("changes", 0, batch, start=offset))

    def commit(self) -> list[Row]:
        """Flush and commit; the rows that leave only now."""
        flushed = self.executor.flush()
        self.changelog += [item.batch for item in flushed if item.topic == "changes"]
        self.executor.commit({0: len(self.changelog)})
        return decoded([item for item in flushed if item.topic == "o"])

    def close(self) -> None:
        self.executor.close()
        self.store.close()


def run_cut(
    sub: SubTopology, lines: list[Line], cuts: Sequence[int], restarts: Collection[int]
) -> list[Row]:
    """The output for one topic that is cut at these places, as far as it has so many lines."""
    limits = [[min(cut, len(lines))] for cut in sorted(cuts)]
    return run(sub, {sub.inputs[0].topic: lines}, limits, sorted(restarts))


def run(
    sub: SubTopology,
    feeds: dict[str, list[Line]],
    cuts: Sequence[Sequence[int]],
    restarts: Sequence[int] = (),
) -> list[Row]:
    """The executor's output when each run may read up to the next cut of every topic. Between runs
    the state is committed; before the runs in `restarts` it is lost and restored."""
    positions = dict.fromkeys(feeds, 0)
    rows: list[Row] = []
    host = Host(sub)
    try:
        ends = [*cuts, *[[len(lines) for lines in feeds.values()]] * (len(feeds) + 1)]
        for number, limit in enumerate(ends):
            if number in restarts:
                host.close()
                host.start()
            inputs = []
            for (topic, lines), upto in zip(feeds.items(), limit, strict=True):
                at = positions[topic]
                batch = raw(lines[at : max(upto, at)], ["V"])
                done = max(upto, at) == len(lines)
                inputs.append(fetched(topic, 0, batch, start=at, end=done))
            result = host.executor.run(inputs)
            for (topic, _), reached in result.consumed.items():
                positions[topic] = reached
            rows += [*decoded(result.outputs), *host.commit()]
    finally:
        host.close()
    assert positions == {topic: len(lines) for topic, lines in feeds.items()}
    return rows


def decoded(outputs: Sequence[Appended[Any]]) -> list[Row]:
    rows = []
    for item in outputs:
        for record in item.batch.to_pylist():
            value = record["value"]
            members = None if value is None else tuple(json.loads(value).values())
            rows.append((record["key"], members, record["timestamp"]))
    return rows
