"""Checkpoints of state: written by one instance, loaded by another that lacks the state."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from millstream.checkpoints import writing
from millstream.checkpoints.fingerprint import agrees
from millstream.checkpoints.loading import Loading, Range
from millstream.checkpoints.manifest import Checkpoint
from millstream.checkpoints.repository import Repository, StateId, in_path
from millstream.checkpoints.stopping import Stopped
from millstream.checkpoints.writing import Task, write_checkpoint
from millstream.executor.channel_watermarks import state_tables
from millstream.executor.compaction import Pace
from millstream.executor.executor import DuckDBExecutor
from millstream.functions.catalogue import builtin_catalogue
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError, StatementError, UnavailableError
from millstream.operators.compile import compile_subtopology
from millstream.places.sealed import sealed
from millstream.state.bulk_table import BulkTable, drop_leftovers
from tests.draws import draws
from tests.simulation.real import topology_of
from tests.unit.executor.test_replica import PACE, QUERIES, Bench
from tests.unit.places.failing import FailingDisk, failing

ENDLESS = Pace(fewest=1_000_000)


class Checkpointed(Bench):
    """A query of which checkpoints are written and loaded."""

    def __init__(self, name: str, place: Path, pace: Pace = PACE) -> None:
        sql = f"CREATE TABLE o WITH (KAFKA_TOPIC = 'out') AS {QUERIES[name]};"
        (sub,) = topology_of(sql, 2).subtopologies
        super().__init__(sub)
        program = compile_subtopology(sub, builtin_catalogue(), headers=False, cached=False)
        self.tables = state_tables(program, sub)
        self.repository = Repository.of(str(place), "shop")
        self.state = StateId("Q", 0, "1")
        self.pace = pace

    def executor(self, store: int) -> DuckDBExecutor:
        catalogue = builtin_catalogue()
        return DuckDBExecutor(self.stores[store], "Q", self.sub, catalogue, pace=self.pace)

    def send(self, count: int, partition: int) -> None:
        """Records of a hundred keys."""
        rows = []
        for _ in range(count):
            self.sent += 1
            key = 2 * self.rnd.randrange(50) + partition
            value = json.dumps({"G": key, "N": self.sent}).encode()
            rows.append((json.dumps(key).encode(), value, 1000 + self.sent))
        self.producer.append([Appended("in", partition, raw_batch(rows), count)])

    def settle(self, count: int) -> None:
        """Process records of partition 0. A process that is started again finds its position on
        the changelog, which falls short where transactions have markers."""
        self.send(count, 0)
        self.process(0)
        self.process(0)

    def task(self, store: int, partition: int) -> Task:
        changelog = self.sub.changelog
        return Task(self.stores[store], self.state, self.tables, changelog, partition)

    def write(self, store: int, partition: int) -> Checkpoint | None:
        """A checkpoint on top of the newest one, as an instance writes it."""
        last = next(self.repository.newest(self.state, partition, 0, 1 << 60), None)
        return write_checkpoint(self.task(store, partition), self.repository, self.log, last)

    def load(self, store: int, *partitions: int, alone: bool = False) -> dict[int, int]:
        loading = self.loading(store)
        ranges = {
            p: Range(
                self.log.start_offset(self.sub.changelog, p),
                self.log.written_end(self.sub.changelog, p),
            )
            for p in partitions
        }
        return loading.load(ranges, alone=alone)

    def loading(self, store: int) -> Loading:
        return Loading(
            self.stores[store],
            self.repository,
            self.state,
            self.tables,
            partial(agrees, self.log, self.sub.changelog),
        )

    def position(self, store: int, partition: int) -> int:
        replica = self.replica(store)
        found = replica.position(partition)
        replica.close()
        return found

    def check(self, store: int) -> None:
        """A state has all that the processing one has; expired rows may be left in it."""
        held = self.rows(store)
        assert any(held.values())
        for name, rows in self.rows(0).items():
            assert set(map(str, rows)) <= set(map(str, held[name])), name
        if self.windowless:
            assert {n: len(r) for n, r in held.items()} == {
                n: len(r) for n, r in self.rows(0).items()
            }

    @property
    def windowless(self) -> bool:
        return self.sub.root.window is None


@pytest.fixture(params=sorted(QUERIES))
def query(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Checkpointed]:
    """Its changelog keeps everything, as that of the next one does."""
    opened = Checkpointed(request.param, tmp_path / "place", ENDLESS)
    yield opened
    opened.close()


@pytest.fixture
def counted(tmp_path: Path) -> Iterator[Checkpointed]:
    opened = Checkpointed("counted", tmp_path / "place", ENDLESS)
    yield opened
    opened.close()


@pytest.mark.parametrize("alone", [True, False])
def test_an_instance_without_state_loads_it_and_replays_the_rest(
    query: Checkpointed, alone: bool
) -> None:
    query.send(15, 0)
    query.send(9, 1)
    query.process(0)
    written = [query.write(0, partition) for partition in (0, 1)]
    query.send(4, 0)
    query.process(0)
    loaded = query.load(1, 0, 1, alone=alone)
    assert loaded == {p: each.position for p, each in enumerate(written) if each}
    assert len(loaded) == 2
    query.follow(1)
    query.check(1)


def test_only_what_has_changed_is_written(counted: Checkpointed) -> None:
    """As long as it is less than half of the state."""
    counted.settle(40)
    first = counted.write(0, 0)
    assert first is not None and first.base == first.position
    assert counted.write(0, 0) is None, "nothing is new"
    counted.send(1, 0)
    counted.process(0)
    second = counted.write(0, 0)
    assert second is not None and second.base == first.base
    assert second.files[: len(first.files)] == first.files
    assert second.changed_rows < first.base_rows
    assert counted.load(1, 0) == {0: second.position}
    counted.check(1)


def test_a_state_that_has_the_rows_replays_the_changes(counted: Checkpointed) -> None:
    """What a checkpoint has besides, is on the changelog as well."""
    counted.settle(40)
    counted.write(0, 0)
    assert counted.load(1, 0)
    counted.send(1, 0)
    counted.process(0)
    assert counted.write(0, 0)
    before = counted.rows(1)
    assert counted.load(1, 0) == {}
    assert counted.rows(1) == before
    counted.follow(1)
    counted.check(1)


def test_a_checkpoint_older_than_the_changelog_is_no_use(counted: Checkpointed) -> None:
    counted.send(10, 0)
    counted.process(0)
    found = counted.write(0, 0)
    assert found is not None
    counted.log.truncate(counted.sub.changelog, 0, found.fingerprint.offset)
    counted.send(3, 0)
    counted.process(0)
    end = counted.log.end_offset(counted.sub.changelog, 0)
    assert counted.load(1, 0) == {0: found.position}
    counted.log.truncate(counted.sub.changelog, 0, end)
    assert counted.load(2, 0) == {}


def test_a_checkpoint_ahead_of_the_changelog_is_not_used(counted: Checkpointed) -> None:
    """It is of a log that has lost its end."""
    counted.send(10, 0)
    counted.process(0)
    found = counted.write(0, 0)
    assert found is not None
    loading = counted.loading(1)
    assert loading.load({0: Range(0, found.position - 1)}, alone=True) == {}


def test_a_copy_that_has_gone_its_own_way_does_not_load(
    counted: Checkpointed, tmp_path: Path
) -> None:
    """Its topics have the same ids, and its changelog has other records at the same offsets."""
    counted.settle(40)
    found = counted.write(0, 0)
    assert found is not None
    copy = Checkpointed("counted", tmp_path / "place", ENDLESS)
    copy.rnd = Random(8)
    copy.settle(60)
    assert copy.log.end_offset(copy.sub.changelog, 0) >= found.position
    assert copy.load(1, 0) == {}
    copy.follow(1)
    copy.check(1)
    copy.close()
    assert counted.load(1, 0) == {0: found.position}


def test_a_query_that_is_created_again_has_checkpoints_of_its_own(counted: Checkpointed) -> None:
    counted.send(10, 0)
    counted.process(0)
    assert counted.write(0, 0)
    counted.state = StateId("Q", 0, "2")
    assert counted.load(1, 0) == {}


def test_two_checkpoints_are_kept_with_their_files_alone(
    counted: Checkpointed, tmp_path: Path
) -> None:
    for _ in range(6):
        counted.send(40, 0)
        counted.process(0)
        assert counted.write(0, 0)
    positions = counted.repository.positions(counted.state, 0)
    assert len(positions) == 2
    used = {
        file.name
        for position in positions
        for file in counted.repository.read(counted.state, 0, position).files
    }
    there = {path.name for path in tmp_path.rglob("*.arrows")}
    assert there == used


def test_a_writer_that_is_no_owner_any_more_takes_nothing_away(counted: Checkpointed) -> None:
    """Its checkpoint is older and right; the files of one that is being written stay."""
    counted.send(40, 0)
    counted.process(0)
    counted.follow(1)
    counted.send(40, 0)
    counted.process(0)
    ahead = counted.position(0, 0) + 5
    rows = [("made", counted.stores[0].cursor().sql("SELECT 1 AS x").to_arrow_table())]
    (made,) = counted.repository.write_rows(counted.state, 0, ahead, rows)
    newest = counted.write(0, 0)
    assert newest is not None
    old = write_checkpoint(counted.task(1, 0), counted.repository, counted.log, None)
    assert old is not None and old.position < newest.position
    counted.write(0, 0)
    assert counted.repository.rows(counted.state, 0, made).num_rows == 1
    assert counted.load(2, 0) == {0: newest.position}
    counted.check(2)


@pytest.mark.parametrize("alone", [True, False])
def test_a_damaged_checkpoint_is_left_out(
    counted: Checkpointed, tmp_path: Path, alone: bool
) -> None:
    """For the one before it; without any, the state is as empty as it was."""
    places = []
    for _ in range(2):
        counted.send(40, 0)
        counted.process(0)
        found = counted.write(0, 0)
        assert found is not None and found.base == found.position
        places.append(found)
    rnd = Random(3)
    (newest,) = tmp_path.rglob(places[1].files[0].name)
    content = bytearray(newest.read_bytes())
    for _ in range(20):
        changed = bytearray(content)
        changed[rnd.randrange(len(changed))] ^= 1 << rnd.randrange(8)
        newest.write_bytes(changed)
        with counted.stores[1].cursor() as cursor:
            cursor.execute('DELETE FROM state.main."$positions"')
        assert counted.load(1, 0, alone=alone) == {0: places[0].position}
    counted.follow(1)
    counted.check(1)
    for path in (*tmp_path.rglob("*.json"), *tmp_path.rglob("*.arrows")):
        path.write_bytes(path.read_bytes()[:-3])
    assert counted.load(2, 0, alone=alone) == {}
    counted.follow(2)
    counted.check(2)


@pytest.mark.parametrize("alone", [True, False])
def test_a_load_that_was_broken_off_leaves_no_rows(
    counted: Checkpointed, alone: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "FILE_BYTES", 1)
    monkeypatch.setattr(writing, "_BATCH_ROWS", 5)
    counted.send(40, 0)
    counted.process(0)
    found = counted.write(0, 0)
    assert found is not None and len(found.files) > 2
    asked = iter([False, False, True])
    loading = replace(counted.loading(1), stopped=lambda: next(asked))
    with pytest.raises(Stopped):
        loading.load({0: Range(0, 1 << 60)}, alone=alone)
    assert any(counted.rows(1).values()) is not alone, "some rows were committed"
    replica = counted.replica(1)
    assert replica.open(0) == 0
    replica.close()
    assert not any(counted.rows(1).values())
    counted.follow(1)
    counted.check(1)


def test_who_changes_the_state_meanwhile_wins(
    counted: Checkpointed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A load that somebody else has cleared in the middle does not pretend to be whole."""
    counted.send(40, 0)
    counted.process(0)
    assert counted.write(0, 0)
    rows = Repository.rows

    def cleared_meanwhile(self: Repository, *arguments: Any) -> Any:
        replica = counted.replica(1)
        replica.clear(0, 0)
        replica.close()
        return rows(self, *arguments)

    monkeypatch.setattr(Repository, "rows", cleared_meanwhile)
    assert counted.load(1, 0) == {}
    monkeypatch.undo()
    counted.follow(1)
    counted.check(1)


def test_a_table_that_a_kill_left_half_filled_is_dropped(counted: Checkpointed) -> None:
    counted.send(10, 0)
    counted.process(0)
    store = counted.stores[0]
    before = counted.rows(0)
    for table in counted.tables:
        BulkTable(store, "Q", 0, table)
    assert len(counted.rows(0)) == 2 * len(before)
    drop_leftovers(store)
    assert counted.rows(0) == before


def test_a_place_that_fails_at_any_call_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither by writing nor by loading: what cannot be loaded is replayed."""
    for failed in range(0, 120, 2):
        with failing(monkeypatch) as disk:
            query = Checkpointed("counted", tmp_path / str(failed))
            disk.fails = lambda call, failed=failed: failed <= call < failed + 5  # type: ignore[misc]
            _live(query, disk)
            query.close()
            if disk.calls < failed:
                return
    pytest.fail("more calls are made than are tried here")


def _live(query: Checkpointed, disk: FailingDisk) -> None:
    for turn in range(3):
        query.send(30, 0)
        query.process(0)
        with suppress(UnavailableError):
            query.write(0, 0)
        if turn == 1:
            with suppress(UnavailableError):
                query.load(1, 0, alone=True)
    with suppress(UnavailableError):
        query.load(2, 0)
    for store in (1, 2):
        query.follow(store)
        query.check(store)


@pytest.mark.parametrize("seed", range(draws(12)))
def test_random_lives(tmp_path: Path, seed: int) -> None:
    """Tasks move between three instances that lose their state at any time; checkpoints are
    written by owners and former ones, and loaded from listings that may be old."""
    rnd = Random(seed)
    name = rnd.choice(sorted(QUERIES))
    query, alone = Checkpointed(name, tmp_path / "a"), Checkpointed(name, tmp_path / "b")
    stale = _Stale(query.repository, rnd)
    object.__setattr__(query.repository, "place", stale)
    for _ in range(12):
        count, partition, store = rnd.randrange(1, 30), rnd.randrange(2), rnd.randrange(3)
        query.send(count, partition)
        alone.send(count, partition)
        if rnd.random() < 0.5:
            query.stores[store].drop_query("Q")
        if rnd.random() < 0.7:
            query.load(store, *range(2), alone=rnd.random() < 0.5)
        query.process(store)
        alone.process(0)
        for written in range(2):
            if rnd.random() < 0.5:
                query.write(rnd.randrange(3), written)
    for partition in range(2):
        out = [each.log.read("out", partition, 0, 1 << 20).batch for each in (query, alone)]
        assert out[0]["value"].to_pylist() == out[1]["value"].to_pylist()
    query.close()
    alone.close()


class _Stale:
    """A place whose listings leave out files, and that has lost some."""

    def __init__(self, repository: Repository, rnd: Random) -> None:
        self._place = repository.place
        self._rnd = rnd

    def names(self, folder: str) -> list[str]:
        return [name for name in self._place.names(folder) if self._rnd.random() < 0.9]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._place, name)


def test_no_place() -> None:
    with pytest.raises(StatementError, match="names no place for checkpoints"):
        Repository.of("nothing://there", "shop")


def test_ids_are_one_part_of_a_path(tmp_path: Path) -> None:
    """Kafka's are in Base64; a folder of another name would be taken for one of a former query."""
    repository = Repository.of(str(tmp_path), "yVRXkpr4S/b+qi1nXo")
    rows = pa.table({"x": [1]})
    found = set()
    for query, topic in (("Q", "FeAh/YnxTb+hvvXE"), ("a/b@c", "FeAhYnxTbhvvXE"), ("Q", "7")):
        state = StateId(query, 0, topic)
        repository.write_rows(state, 0, 1, [("t", rows)])
        found.add(state.folder)
        assert state.folder.rpartition("@")[2] == in_path(topic)
    assert set(repository.states()) == found
    assert len(list(tmp_path.iterdir())) == 1
    for folder in found:
        repository.drop(folder)
    assert repository.states() == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "x.arrows", 7])
def test_a_checkpoint_names_no_other_file(
    counted: Checkpointed, tmp_path: Path, name: object
) -> None:
    counted.settle(40)
    assert counted.write(0, 0)
    (file,) = tmp_path.rglob("*.json")
    body = json.loads(file.read_text())["checkpoint"]
    body["files"][0]["name"] = name
    file.write_bytes(sealed("checkpoint", 1, body))
    (position,) = counted.repository.positions(counted.state, 0)
    with pytest.raises(CorruptionError, match="is damaged"):
        counted.repository.read(counted.state, 0, position)
    assert counted.load(1, 0) == {}
