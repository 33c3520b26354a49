"""Queries that decode together see what they would see alone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from typing import Any

import pytest

from millstream.executor import decode_cache, source_reader
from millstream.executor.decode_cache import DecodeCache, Group
from millstream.executor.decoded_partition import DecodedBatch, DecodedPartition
from millstream.executor.source_reader import Sharing, SourceReader
from millstream.formats.codec import DecodeSpec
from tests.draws import draws
from tests.patience import PATIENCE_S
from tests.unit.executor.decode_world import (
    JSON,
    KAFKA,
    SCHEMAS,
    TOPIC,
    Query,
    World,
    play,
    same,
)

SEEDS = 60
SPEC = DecodeSpec(KAFKA, JSON, SCHEMAS[0], (("a", "A"), ("t", "ROWTIME")))


@pytest.mark.parametrize("seed", range(draws(SEEDS)))
def test_any_queries_see_what_they_see_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_cache, "CLAIM", (8, 1 << 15)[seed % 2])
    play(seed)


def test_the_random_queries_do_share() -> None:
    worlds = [play(seed) for seed in range(20)]
    assert any(world.cache.reused for world in worlds)
    assert any(world.cache.reused and 0 < world.max_bytes < 1 << 20 for world in worlds)


def queries(world: World, count: int, spec: DecodeSpec = SPEC) -> list[Query]:
    """Queries that are alike, at the beginning of all partitions."""
    made = []
    for _ in range(count):
        reader = SourceReader(TOPIC, spec, Sharing(world.cache, {TOPIC: "id"}))
        query = Query(reader, SourceReader(TOPIC, spec), 0)
        for partition in range(len(world.topics[0])):
            reader.open(partition)
            query.positions[partition] = 0
        made.append(query)
    return made


def run(world: World, query: Query, most: int) -> None:
    """Read, compare, and consume all of it."""
    fetched = world.fetched(query, most)
    same(query.reader.read(world.con, fetched), query.twin.read(world.con, fetched))
    query.positions = {item.partition: item.next_offset for item in fetched}
    query.reader.passed({(TOPIC, at): offset for at, offset in query.positions.items()})


def total(world: World) -> int:
    return sum(table.num_rows for table in world.topics[0])


def test_each_record_is_decoded_once() -> None:
    world = World(1, max_bytes=1 << 20)
    readers = queries(world, 8)
    # They cut the records differently, and are up to all of them apart.
    for query, most in zip(readers, (60, 20, 13, 60, 33, 60, 45, 60), strict=True):
        while any(item.count for item in world.fetched(query, most)):
            run(world, query, most)
    assert world.cache.decoded == total(world)
    assert world.cache.reused == 7 * total(world)
    assert world.cache.bytes == 0
    assert world.cache._kept == {}


def test_columns_of_all_readers_are_decoded_at_once() -> None:
    world = World(2, max_bytes=1 << 20)
    (narrow,) = queries(world, 1)
    (wide,) = queries(world, 1, replace(SPEC, columns=(("b", "B"), ("k", "K"))))
    run(world, narrow, 60)
    run(world, wide, 60)
    assert (world.cache.decoded, world.cache.reused) == (total(world), total(world))


def test_a_later_reader_extends_the_columns() -> None:
    world = World(3, max_bytes=1 << 20)
    first, second = queries(world, 2)
    run(world, first, 30)
    (wide,) = queries(world, 1, replace(SPEC, columns=(("b", "B"),)))
    run(world, wide, 60)
    before = world.cache.decoded
    run(world, second, 60)
    assert world.cache.decoded == before


def test_nothing_is_kept_for_a_query_alone() -> None:
    world = World(4, max_bytes=1 << 20)
    (query,) = queries(world, 1)
    run(world, query, 30)
    assert (world.cache.decoded, world.cache.bytes) == (0, 0)
    (other,) = queries(world, 1)
    run(world, query, 30)
    assert world.cache.bytes > 0
    other.reader.close()
    assert world.cache.bytes == 0


def test_a_paused_query_keeps_nothing_for_long() -> None:
    """What it has not read goes when the other query has filled the memory and reads on."""
    world = World(5, records_each=600, max_bytes=9_000)
    running, paused = queries(world, 2)
    most = 0
    while any(item.count for item in world.fetched(running, 10)):
        run(world, running, 10)
        most = max(most, world.cache.bytes)
    assert most > 4_500
    assert world.cache.bytes == 0
    # It reads what it has missed like any other query, and they share again from there on.
    run(world, paused, 600)


def test_a_query_that_ends_leaves_nothing() -> None:
    world = World(6, max_bytes=1 << 20)
    one, two = queries(world, 2)
    run(world, one, 60)
    two.reader.forget()
    assert world.cache.bytes == 0
    two.reader.close()
    one.reader.close()
    one.reader.close()
    assert world.cache._groups == {}


class Halting:
    """Makes a thread stop within its first decoding, and notes which threads decode or wait."""

    def __init__(self, cache: DecodeCache, monkeypatch: pytest.MonkeyPatch) -> None:
        self.decoding, self.waiting, self.go = (threading.Event() for _ in range(3))
        self.calls: list[str] = []
        self.error: Exception | None = None
        inner, wait = source_reader.decode, cache._changed.wait

        def decode(*arguments: Any) -> Any:
            self.calls.append(threading.current_thread().name)
            if len(self.calls) == 1:
                self.decoding.set()
                assert self.go.wait(PATIENCE_S)
                if self.error is not None:
                    raise self.error
            return inner(*arguments)

        def waited(timeout: float | None = None) -> bool:
            self.waiting.set()
            return wait(PATIENCE_S)

        monkeypatch.setattr(source_reader, "decode", decode)
        monkeypatch.setattr(cache._changed, "wait", waited)


def both(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> tuple[Halting, list[BaseException], World]:
    """Two threads want the same records; the first one is decoding when the second one comes."""
    world = World(7, max_bytes=1 << 20)
    one, two = queries(world, 2)
    fetched = world.fetched(one, 60)
    expected = one.twin.read(world.con, fetched)
    halting = Halting(world.cache, monkeypatch)
    halting.error = error
    errors: list[BaseException] = []

    def read(query: Query) -> None:
        try:
            same(query.reader.read(world.con.cursor(), fetched), expected)
        except BaseException as caught:
            errors.append(caught)

    threads = [
        threading.Thread(target=read, args=(q,), name=n) for q, n in ((one, "1"), (two, "2"))
    ]
    threads[0].start()
    assert halting.decoding.wait(PATIENCE_S)
    threads[1].start()
    assert halting.waiting.wait(PATIENCE_S)
    halting.go.set()
    for thread in threads:
        thread.join(PATIENCE_S)
        assert not thread.is_alive()
    world.check()
    return halting, errors, world


def test_a_thread_waits_for_what_another_one_decodes(monkeypatch: pytest.MonkeyPatch) -> None:
    halting, errors, world = both(monkeypatch, None)
    assert (halting.calls, errors) == (["1"], [])
    assert world.cache.reused == total(world)


def test_a_thread_decodes_itself_what_another_one_could_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    error = RuntimeError("planted")
    halting, errors, _ = both(monkeypatch, error)
    assert (halting.calls, errors) == (["1", "2"], [error])


def test_two_threads_decode_different_records_at_the_same_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(decode_cache, "CLAIM", 30)
    halting, errors, world = both(monkeypatch, None)
    assert errors == []
    # The second thread decodes the rest while the first one halts, then waits for the first part.
    assert halting.calls[0] == "1"
    assert halting.calls.count("2") >= 1
    assert world.cache.decoded == total(world)


# --- planted bugs ------------------------------------------------------------------------------


def _one_group(self: DecodeCache, topic: str, spec: Any, reader: object, names: Any) -> Group:
    """Decoded under the schema of the first reader."""
    group = self._groups.setdefault(topic, [Group(topic, spec)])[0]
    group.names[reader] = names
    return group


def _without(field: str, value: Any) -> Callable[..., Group]:
    """Readers that differ in this field only are taken for alike."""

    def join(self: DecodeCache, topic: str, spec: Any, reader: object, names: Any) -> Group:
        return JOIN(self, topic, replace(spec, **{field: value}), reader, names)

    return join


JOIN = DecodeCache.join


def _any_topic(self: DecodeCache, topic: str, spec: Any, reader: object, names: Any) -> Group:
    return JOIN(self, topic.partition("\0")[0], spec, reader, names)


def _any_columns(self: DecodedPartition, span: Any, names: Collection[str]) -> list[DecodedBatch]:
    return DECODED(self, span, ())


DECODED = DecodedPartition.decoded


def _whole(self: DecodedBatch, first: int, stop: int) -> DecodedBatch:
    return self


def _no_problems(self: DecodedBatch, first: int, stop: int) -> DecodedBatch:
    return replace(BETWEEN(self, first, stop), problems=())


BETWEEN = DecodedBatch.between


def _first_only(span: Any, batches: Sequence[DecodedBatch]) -> list[Any]:
    """A part that is there in part is taken for complete."""
    return [] if batches else [span]


def _never_passed(self: DecodedPartition) -> list[DecodedBatch]:
    return []


def _no_limit(self: DecodeCache, max_bytes: int = 0) -> None:
    INIT(self, 1 << 40)


INIT = DecodeCache.__init__

BUGS: dict[str, tuple[Any, str, Any]] = {
    "decoded under the schema of another query": (DecodeCache, "join", _one_group),
    "... of other columns": (DecodeCache, "join", _without("schema", SCHEMAS[0])),
    "... of another format": (DecodeCache, "join", _without("value_format", JSON)),
    "... of another key format": (DecodeCache, "join", _without("key_format", KAFKA)),
    "... of another timestamp": (DecodeCache, "join", _without("timestamp", None)),
    "... of a table as of a stream": (DecodeCache, "join", _without("is_table", False)),
    "the records of an earlier topic": (DecodeCache, "join", _any_topic),
    "columns that were not decoded": (DecodedPartition, "decoded", _any_columns),
    "more than what was asked for": (DecodedBatch, "between", _whole),
    "problems are reported to one query only": (DecodedBatch, "between", _no_problems),
    "a part of the records, taken for all": (decode_cache, "gaps", _first_only),
    "kept for ever": (DecodedPartition, "passed", _never_passed),
    "kept without limit": (DecodeCache, "__init__", _no_limit),
}


@pytest.mark.parametrize("bug", BUGS)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name, wrong = BUGS[bug]
    monkeypatch.setattr(owner, name, wrong)
    # This check would hide some of them.
    monkeypatch.setattr(source_reader, "_complete", lambda *_: True)
    for seed in range(SEEDS):
        try:
            play(seed)
        except Exception:
            return
    pytest.fail(f"{SEEDS} seeds do not find: {bug}")


def test_queries_that_start_together_share_from_the_first_record_on() -> None:
    """The first one reads before the others have opened what they will read."""
    world = World(8, max_bytes=1 << 20)
    partitions = len(world.topics[0])
    sharing = Sharing(world.cache, {TOPIC: "id"})
    readers = [SourceReader(TOPIC, SPEC, sharing, partitions) for _ in range(3)]
    for reader in readers:
        # What a query does before it opens its tasks.
        reader.forget()
    for reader in readers:
        for partition in range(partitions):
            reader.open(partition)
        query = Query(reader, SourceReader(TOPIC, SPEC), 0, dict.fromkeys(range(partitions), 0))
        run(world, query, 60)
    assert (world.cache.decoded, world.cache.reused) == (total(world), 2 * total(world))
    assert world.cache.bytes == 0


def test_partitions_that_other_instances_read_keep_nothing() -> None:
    world = World(9, max_bytes=1 << 20)
    world.topics = [[*world.topics[0], *world.topics[1]][:2]] * 2
    sharing = Sharing(world.cache, {TOPIC: "id"})
    here, elsewhere = (SourceReader(TOPIC, SPEC, sharing, 2) for _ in range(2))
    here.open(0)
    here.open(1)
    elsewhere.open(1)
    twin = SourceReader(TOPIC, SPEC)
    run(world, Query(elsewhere, twin, 0, {1: 0}), 60)
    run(world, Query(here, twin, 0, {0: 0, 1: 0}), 60)
    assert world.cache.bytes == 0
