"""Readers that share a consumer read as if each had one of its own, whatever the others do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from millstream.log.kafka import fetched_partitions
from millstream.log.kafka.fetched_partitions import FetchedPartitions
from millstream.log.kafka.fetcher import Fetcher
from millstream.log.kafka.intake import PartitionChunk
from millstream.log.kafka.partition_buffer import Cursor, PartitionBuffer
from millstream.log.log import TopicPartition as Place
from millstream.model.errors import UnavailableError
from tests.draws import draws
from tests.unit.log.fetching import CHUNK, PLACES, RECORD, Caller, World

SEEDS = 150
STEPS = 120
ROUNDS = 400
"""Rounds after which everything must have been read."""
FIRST, SECOND, OTHER = PLACES


def open_caller(world: World) -> None:
    """A reader of some partitions: from the start, from the end, or from between."""
    draw = world.draw
    places = draw.sample(PLACES, draw.randint(1, len(PLACES)))
    ends = world.brokers.ends
    positions = {
        place: draw.choice([0, ends[place], draw.randint(0, ends[place])]) for place in places
    }
    world.caller(positions, together=draw.random() < 0.4)


def close_caller(world: World) -> None:
    """Close a reader; often its query opens another one where it stopped."""
    old = world.callers.pop(world.draw.randrange(len(world.callers)))
    old.reader.close()
    if world.draw.random() < 0.6:
        world.caller(old.positions, together=old.together)


def disturb(world: World) -> bool:
    """Something goes wrong with a partition, a consumer or all of them; returns whether only time
    helps."""
    kind = world.draw.choice(["refused", "broken", "stalled"])
    if kind == "refused":
        world.brokers.refused.add(world.draw.choice(PLACES))
    elif kind == "broken":
        world.brokers.broken = True
    elif world.main.client is not None:
        world.main.client.stalled = True
        return True
    return False


def play(seed: int, patch: pytest.MonkeyPatch) -> None:
    """A world in which everything happens, until all is read."""
    world = World(seed, patch, room=RECORD * 25)
    draw = world.draw
    slow, world.interrupted = draw.random(), draw.choice((0.0, 0.2))
    stalled = False
    for _ in range(STEPS):
        world.now += draw.choice((0.0, 0.01, 0.06))
        match draw.choices(
            ("append", "step", "read", "open", "close", "disturb"), (6, 12, 12, 2, 1, 0.5)
        )[0]:
            case "append":
                world.append(draw.choice(PLACES), draw.randint(1, 9), own=draw.random() < 0.3)
            case "step":
                world.step()
            case "read" if world.callers:
                # The first ones are read seldom.
                index = int(len(world.callers) * draw.random() ** slow)
                world.callers[index].round(draw.randint(1, 12), draw.choice((0.0, 0.3, 1.0)))
            case "open" if len(world.callers) < 5:
                open_caller(world)
            case "close" if world.callers:
                close_caller(world)
            case "disturb":
                stalled |= disturb(world)
        # Each partition has filled its share when fewer had one, and one fetch more.
        assert world.held() <= world.room * 2 + len(PLACES) * CHUNK * 2 * RECORD
    if not stalled:
        # None of them needs the others, but to notice that a consumer has stalled.
        drain(world, draw.sample(world.callers, draw.randint(0, len(world.callers))))
    else:
        # A reader of one partition cannot know of what other processes have written.
        for place in PLACES:
            world.append(place, 1, own=True)
    drain(world, world.callers, stalled=stalled)
    settle(world)


def drain(world: World, callers: Sequence[Caller], *, stalled: bool = False) -> None:
    """These callers read the rest, each when it has been told of something, or has found
    something. The others do nothing."""
    for _ in range(ROUNDS):
        world.now += 0.05
        world.step()
        for caller in callers:
            if caller.awake or stalled:
                caller.round(6)
        if all(caller.done for caller in callers):
            return
    raise AssertionError("a reader is held up")


def settle(world: World) -> None:
    """A reader is looked at again and again; without news, one consumer is left."""
    for _ in range(60):
        world.now += 0.5
        world.step()
        for caller in world.callers:
            caller.round(6)
    assert world.open_consumers == bool(world.callers), "a consumer is left over"


def test_each_reader_reads_its_partitions_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(draws(SEEDS)):
        try:
            play(seed, monkeypatch)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error


# ---- planted bugs ----------------------------------------------------------------------------


def trimmed_at_the_fastest(buffer: PartitionBuffer) -> None:
    """Drops what one reader has passed and another one has not."""
    floor = max((cursor.rows for cursor in buffer.cursors), default=buffer.rows)
    while buffer._chunks and buffer._chunks[0].rows_after <= floor:
        buffer.start = buffer._chunks.pop(0).last + 1


def opened_behind(partitions: FetchedPartitions) -> None:
    """A new consumer goes on one record too late."""
    renewed(partitions)
    for buffer in partitions.buffers.values():
        buffer.next += 1


def claimed_too_early(partitions: FetchedPartitions, cursor: Cursor, *_: float) -> bool:
    """A reader leaves its own consumer before it has come to what the main one holds."""
    cursor.reserved = False
    return cursor.attached


def removed_for_good(partitions: FetchedPartitions, place: Place) -> PartitionBuffer | None:
    """A partition that was given up is assigned again."""
    partitions._unchecked = True
    return partitions.buffers.pop(place, None)


def never_slow(_partitions: FetchedPartitions, *_: object) -> None:
    """Slow readers hold up the others."""


def told_nobody(fetcher: Fetcher, pieces: Sequence[PartitionChunk]) -> None:
    """Records arrive, and no reader is woken."""
    for place, piece in pieces:
        fetcher._partitions.take(place, piece)


renewed = FetchedPartitions.opened
PLANTED: dict[str, tuple[type, str, object]] = {
    "a buffer trimmed under a reader": (PartitionBuffer, "trim", trimmed_at_the_fastest),
    "a new consumer that leaves records out": (FetchedPartitions, "opened", opened_behind),
    "a reader that joins too early": (FetchedPartitions, "claim", claimed_too_early),
    "a partition assigned twice": (FetchedPartitions, "_remove", removed_for_good),
    "slow readers that are waited for": (FetchedPartitions, "_detach_slow", never_slow),
    "records that wake nobody": (Fetcher, "_take", told_nobody),
}


@pytest.mark.parametrize("bug", PLANTED)
def test_planted_bugs_are_found(bug: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*PLANTED[bug])
    with pytest.raises((AssertionError, IndexError)):
        for seed in range(SEEDS):
            play(seed, monkeypatch)


# ---- one thing at a time ---------------------------------------------------------------------


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    return World(1, monkeypatch, room=RECORD * 100)


def until_read(world: World, *callers: Caller, held: float = 0.0) -> None:
    """Step and read until these callers have everything."""
    for _ in range(4 * ROUNDS):
        world.step()
        world.now += 0.01
        for caller in callers:
            caller.round(100, held)
        if all(caller.done for caller in callers):
            return
    raise AssertionError("a reader is held up")


def test_readers_share_a_consumer_and_the_memory(world: World) -> None:
    world.append(FIRST, 20)
    world.append(SECOND, 20)
    callers = [world.caller({FIRST: 0, SECOND: 0}) for _ in range(10)]
    for _ in range(30):
        world.step()
        for caller in callers:
            caller.round(0)
    assert world.open_consumers == 1
    found = [caller.reader.read(*FIRST, 0, 3).batch["value"] for caller in callers]
    assert len({each.chunk(0).buffers()[2].address for each in found}) == 1


def test_a_slow_reader_holds_up_no_other_and_takes_no_memory(world: World) -> None:
    world.append(FIRST, 10)
    slow, fast = world.caller({FIRST: 0}), world.caller({FIRST: 0})
    while not slow.round(1):
        world.step()
    until_read(world, fast)
    assert len(world.clients) == 1
    for _ in range(30):
        world.append(FIRST, 30)
        until_read(world, fast)
        assert world.held() <= world.room + CHUNK * 2 * RECORD
    assert slow.consumed == 1
    until_read(world, slow)
    assert slow.consumed == fast.consumed == 910
    settle(world)


def detached_within_a_read(world: World) -> Caller:
    """A slow reader, which reads again just when it is detached."""
    slow, fast = world.caller({FIRST: 0}), world.caller({FIRST: 0})
    world.append(FIRST, 1000)
    while not slow.round(1):
        world.step()
    while not fast.round(100, held=0.0) or world.held() < world.room:
        world.step()
    fast.round(1000)
    fast.round(1000)
    world.step()
    world.now += 2 * fetched_partitions.SLOW_SECONDS
    world.interrupted = 1.0
    slow.round(10)
    return slow


def test_a_reader_is_detached_within_a_read(world: World) -> None:
    slow = detached_within_a_read(world)
    assert world.catching_up[0].running
    until_read(world, slow)


def closed_unnoticed(buffer: PartitionBuffer, cursor: Cursor) -> None:
    """Drops what a slow reader needs without telling it."""
    buffer.cursors.remove(cursor)
    buffer.trim()


def test_a_reader_that_is_not_told_of_it_is_found(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PartitionBuffer, "close", closed_unnoticed)
    with pytest.raises((AssertionError, IndexError)):
        detached_within_a_read(world)


def test_readers_that_take_turns_are_not_slow(world: World) -> None:
    """Each falls behind by what the other one has just read, which may be all that has room."""
    callers = [world.caller({FIRST: 0}) for _ in range(2)]
    world.append(FIRST, 1000)
    for _ in range(30):
        for caller in callers:
            caller.round(1000)
            for _ in range(100):
                world.step()
                world.now += fetched_partitions.SLOW_SECONDS / 200
    assert min(caller.consumed for caller in callers) == 1000
    assert len(world.clients) == 1


def test_a_paused_partition_whose_share_has_grown_is_read_on(world: World) -> None:
    """When the other partition is at its end, the slow reader holds more than half of the share,
    but less than all of it."""
    world.append(FIRST, 1000)
    world.append(SECOND, 30)
    slow, fast = world.caller({FIRST: 0}), world.caller({FIRST: 0, SECOND: 0})
    while world.main._partitions._paused != {FIRST}:
        for caller in (slow, fast):
            caller.round(0)
        world.step()
    until_read(world, fast)


def test_a_late_reader_catches_up_and_joins(world: World) -> None:
    world.append(FIRST, 200)
    early = world.caller({FIRST: 0})
    until_read(world, early)
    late = world.caller({FIRST: 0})
    late.round(100)
    assert world.main.running
    assert world.catching_up[0].running
    until_read(world, late)
    settle(world)
    world.append(FIRST, 10)
    until_read(world, early, late)
    assert (late.consumed, early.consumed, len(world.clients)) == (210, 210, 2)


def test_a_late_reader_joins_while_records_arrive(world: World) -> None:
    early = world.caller({FIRST: 0})
    world.append(FIRST, 100)
    until_read(world, early)
    late = world.caller({FIRST: 0})
    for _ in range(200):
        world.append(FIRST, 2)
        for _ in range(4):
            world.step()
        early.round(100)
        late.round(100)
    assert world.open_consumers == 1


def test_a_query_that_opens_again_goes_on_where_it_stopped(world: World) -> None:
    """Another query still reads: the consumer is not replaced, and nothing is assigned again."""
    world.append(FIRST, 50)
    world.append(OTHER, 50)
    other, query = world.caller({OTHER: 0}), world.caller({FIRST: 0})
    until_read(world, other, query)
    query.reader.close()
    world.append(FIRST, 5)
    again = world.caller({FIRST: world.brokers.records[FIRST][30][0]})
    until_read(world, other, again)
    settle(world)
    assert (again.consumed, world.main.opened) == (25, 1)


def test_a_reader_far_ahead_of_a_partition_left_alone(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What nobody wants is not fetched: the consumer is replaced, and other readers go on."""
    monkeypatch.setattr(fetched_partitions, "SKIPPED_MAX", 10)
    world.append(FIRST, 5)
    world.append(OTHER, 5)
    other, query = world.caller({OTHER: 0}), world.caller({FIRST: 0})
    until_read(world, other, query)
    query.reader.close()
    world.append(FIRST, 500)
    ahead = world.caller({FIRST: world.brokers.ends[FIRST]})
    for _ in range(50):
        world.append(OTHER, 1)
        world.append(FIRST, 1)
        until_read(world, other, ahead)
        world.now += 0.5
    assert (other.consumed, ahead.consumed, world.main.opened) == (55, 50, 2)
    settle(world)


def test_a_refused_partition_harms_its_readers_alone_and_once(world: World) -> None:
    world.append(FIRST, 5)
    world.append(OTHER, 5)
    both, first, other = (
        world.caller(dict.fromkeys(places, 0)) for places in ((FIRST, OTHER), (FIRST,), (OTHER,))
    )
    world.brokers.refused.add(FIRST)
    until_read(world, both, first, other)
    assert [len(caller.errors) for caller in (both, first, other)] == [1, 1, 0]
    settle(world)
    assert [len(caller.errors) for caller in (both, first, other)] == [1, 1, 0]


def test_what_came_before_an_error_is_read_first(world: World) -> None:
    world.append(FIRST, 3)
    caller = world.caller({FIRST: 0})
    caller.round(0)
    while not caller.reader.ready({}):
        world.step()
    world.brokers.refused.add(FIRST)
    while world.brokers.refused:
        world.step()
    assert caller.round(1)
    assert not caller.errors
    settle(world)
    assert (caller.consumed, len(caller.errors)) == (3, 1)


def test_a_failed_consumer_is_told_to_each_reader_once_and_started_again(world: World) -> None:
    world.append(FIRST, 5)
    world.append(OTHER, 5)
    callers = [world.caller({FIRST: 0, OTHER: 0}) for _ in range(3)]
    callers[0].round(9)
    world.step()
    for caller in callers[1:]:
        caller.round(9)
    world.brokers.broken = True
    while world.main.running:
        world.step()
    until_read(world, *callers)
    assert [len(caller.errors) for caller in callers] == [1, 1, 1]
    assert all(isinstance(caller.errors[0], UnavailableError) for caller in callers)
    assert world.open_consumers == 1


def test_a_stalled_consumer_is_replaced_for_all(world: World) -> None:
    world.append(FIRST, 50)
    callers = [world.caller({FIRST: 0, SECOND: 0}) for _ in range(3)]
    until_read(world, *callers)
    assert world.main.client is not None
    world.main.client.stalled = True
    world.append(FIRST, 50, own=True)
    for _ in range(20):
        world.now += 0.5
        world.step()
        for caller in callers:
            caller.round(100)
    until_read(world, *callers)
    assert [caller.consumed for caller in callers] == [100, 100, 100]
    assert world.open_consumers == 1


def test_a_deleted_topic_is_left_and_the_others_are_read_on(world: World) -> None:
    world.append(FIRST, 5)
    world.append(OTHER, 5)
    first, other = world.caller({FIRST: 0}), world.caller({OTHER: 0})
    until_read(world, first, other)
    world.main.forget(FIRST[0])
    world.step()
    assert world.main.client is not None
    assert list(world.main.client.positions) == [OTHER]
    # Another topic of that name begins at 0.
    world.brokers.records[FIRST], world.brokers.ends[FIRST] = [], 0
    world.append(FIRST, 7)
    world.append(OTHER, 7)
    first.reader.close()
    anew = world.caller({FIRST: 0})
    until_read(world, anew, other)
    settle(world)
    assert (anew.consumed, other.consumed) == (7, 12)


def test_nothing_is_left_of_closed_readers(world: World) -> None:
    world.append(FIRST, 50)
    early = world.caller({FIRST: 0})
    until_read(world, early)
    late = world.caller({FIRST: 0})
    late.round(1)
    for caller in (early, late):
        caller.reader.close()
    assert world.held() == 0
    for _ in range(3):
        world.step()
    assert world.open_consumers == 0
    with pytest.raises(UnavailableError):
        late.reader.read(*FIRST, 0, 1)
