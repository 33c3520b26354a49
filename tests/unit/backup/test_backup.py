"""What a backup holds, and what is restored of it."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import Database
from millstream.backup import backup, manifest, restore
from millstream.backup.backup import back_up
from millstream.backup.manifest import Manifest
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Outcome, Topic
from millstream.model.batch import raw_batch
from millstream.model.errors import (
    ConflictError,
    CorruptionError,
    MillstreamError,
    StatementError,
    UnavailableError,
)
from millstream.places.place import Place
from millstream.places.sealed import sealed
from millstream.query.results import Done
from millstream.query.session import Session
from millstream.service.backing_up import backup_to
from millstream_parser.statements import Backup
from tests.draws import draws
from tests.snapshots.workload import INVARIANTS, SCRIPT, load
from tests.unit.command_topic.converging import Cluster
from tests.unit.places.failing import failing

CLOCK = iter(range(10**12, 10**13)).__next__


def contents(log: EmbeddedLog) -> dict[str, Any]:
    """All that can be seen of a log."""
    found: dict[str, Any] = {"positions": {}}
    for topic in log.topics():
        places = [(topic.name, part) for part in range(topic.partitions)]
        records = []
        for place in places:
            at, end = log.start_offset(*place), False
            while not end:
                read = log.read(*place, at, 100)
                records += read.records().to_pylist()
                at, end = read.next_offset, read.end
        config = {name: value for name, value in topic.config.items() if "database" not in name}
        starts = [log.start_offset(*place) for place in places]
        found[topic.name] = (topic.id, topic.replicas, topic.numbered, config, starts, records)
    for group in ("g", "h"):
        found["positions"][group] = log.positions(group)
    return found


class Life:
    """Random things that happen to a log."""

    def __init__(self, path: Path, seed: int) -> None:
        self.random = random.Random(seed)
        self.path = path
        self.now = 10**12
        self.open()
        self.made = 0

    def open(self) -> None:
        self.log = EmbeddedLog.open(self.path, clock=lambda: self.now, compacting=False)

    def step(self) -> None:
        names = [topic.name for topic in self.log.topics()]
        kind = self.random.randrange(12)
        if not names or kind == 0:
            self.made += 1
            policy = self.random.choice(["delete", "compact"])
            config = {"cleanup.policy": policy, "segment.bytes": "900", "segment.ms": "50"}
            parts = self.random.randint(1, 3)
            self.log.create_topic(Topic(f"t{self.made}", parts, config=config))
        elif kind == 1 and len(names) > 2:
            self.log.delete_topic(self.random.choice(names))
        elif kind == 2:
            topic, part = self.place(names)
            self.log.truncate(topic, part, self.log.end_offset(topic, part) // 2)
        elif kind == 3:
            self.log.compact()
        elif kind == 4:
            self.log.close()
            self.open()
        elif kind == 5:
            writer = self.log.writer(self.random.choice("ab"))
            place = self.place(names)
            moved = {place: self.log.end_offset(*place)}
            assert writer.transact(self.random.choice("gh"), [], moved) is Outcome.COMMITTED
        else:
            self.append(*self.place(names))
        self.now += self.random.choice([0, 1, 30, 100_000])
        self.log.maintain()

    def place(self, names: list[str]) -> tuple[str, int]:
        topic = self.log.topic(self.random.choice(names))
        assert topic is not None
        return topic.name, self.random.randrange(topic.partitions)

    def append(self, topic: str, part: int) -> None:
        chance = self.random
        count = chance.randint(1, 30)
        rows: list[tuple[bytes | None, bytes | None, int]] = [
            (
                chance.choice([b"k%d" % chance.randrange(5), None]),
                chance.choice([b"v" * chance.randrange(40), None]),
                self.now + number,
            )
            for number in range(count)
        ]
        headers = chance.choice([None, [[{"key": "h", "value": b"x"}]] * count])
        self.log.send([Appended(topic, part, raw_batch(rows, headers), count)])


@pytest.mark.parametrize("seed", range(draws(12)))
def test_what_is_restored_is_what_was_there(tmp_path: Path, seed: int) -> None:
    """After anything that can happen to a log; each backup of a series, and the log goes on."""
    life = Life(tmp_path / "a.db", seed)
    place = str(tmp_path / "backups")
    taken = []
    for _ in range(4):
        for _ in range(life.random.randrange(40)):
            life.step()
        taken.append((back_up(life.log, place, CLOCK).taken, contents(life.log)))
    life.log.close()
    for number, (at, there) in enumerate(taken):
        path = tmp_path / f"r{number}.db"
        restore.restore(place, path, at)
        found = EmbeddedLog.open(path, clock=lambda: life.now, compacting=False)
        assert contents(found) == there
        life.path, life.log = path, found
        for _ in range(15):
            life.step()
        life.log.close()


def test_the_next_backup_writes_what_is_new(tmp_path: Path) -> None:
    log = EmbeddedLog.open(tmp_path / "a.db", compacting=False)
    log.create_topic(Topic("t", 1, config={"segment.bytes": "1"}))
    log.create_topic(Topic("quiet", 1))
    batch = raw_batch([(b"k", b"v", 1)])
    for _ in range(5):
        log.send([Appended("t", 0, batch, 1)])
    place = str(tmp_path / "b")
    first = back_up(log, place, CLOCK)
    assert first.new_files == first.files == 6
    assert back_up(log, place, CLOCK).new_files == 0
    log.send([Appended("t", 0, batch, 1)])
    second = back_up(log, place, CLOCK)
    assert (second.files, second.new_files, second.dropped) == (7, 1, 0)
    assert len(backup.manifests(Place.of(place))) == 3
    log.truncate("t", 0, 4)
    log.maintain()
    third = back_up(log, place, CLOCK, keep=1)
    assert (third.files, third.new_files, third.dropped) == (3, 0, 3)
    files = sorted(file for file in (tmp_path / "b").rglob("*") if file.is_file())
    assert len(files) == 4, "the manifest and what it needs"
    restore.restore(place, tmp_path / "r.db")
    log.close()


def test_a_database_is_backed_up_while_it_works(tmp_path: Path) -> None:
    """Each backup is of one moment: tables that are computed from others agree, once the restored
    queries have read what was not read yet."""
    with millstream.connect(tmp_path / "a.db") as db:
        db.execute("SET 'auto.offset.reset' = 'earliest';" + SCRIPT)
        with load(db.engine.log, 1, 0.002) as written:
            for number in range(3):
                before = written()
                while written() < before + 500:
                    threading.Event().wait(0.01)
                db.backup(str(tmp_path / "b"))
                check_restored(tmp_path, number)


def check_restored(tmp_path: Path, number: int) -> None:
    path = tmp_path / f"r{number}.db"
    restore.restore(str(tmp_path / "b"), path)
    with millstream.connect(path) as restored:
        restored.wait()
        for invariant in INVARIANTS:
            ((left, right),) = restored.execute(invariant.text)
            assert invariant.holds(left, right), invariant.name
        transfers = sum(
            restored.engine.log.end_offset("transfers", part)
            - restored.engine.log.start_offset("transfers", part)
            for part in range(3)
        )
        assert list(restored.execute("SELECT SUM(n) AS n FROM paid;")) == [(transfers,)]


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Database]:
    with millstream.connect(tmp_path / "shop.db") as db:
        db.execute("CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1, "
                   "FORMAT='JSON'); INSERT INTO s VALUES ('a', 1);")  # fmt: skip
        yield db


def test_the_statement(shop: Database, tmp_path: Path) -> None:
    done = shop.execute(f"BACKUP TO '{tmp_path / 'b'}';")
    assert isinstance(done, Done) and "segments" in done.message
    shop.execute(f"BACKUP TO '{tmp_path / 'b'}' KEEP 1;")
    (kept,) = backup.manifests(Place.of(str(tmp_path / "b")))
    assert len(kept.contents.topics) == 3
    shop.execute("SET 'auto.offset.reset' = 'earliest';")
    with pytest.raises(StatementError, match="0 backups cannot be kept"):
        shop.execute(f"BACKUP TO '{tmp_path / 'b'}' KEEP 0;")
    with pytest.raises(StatementError, match="names no place for backups"):
        shop.execute("BACKUP TO 'gopher://x/y';")


def test_it_is_not_accepted_over_a_network(shop: Database, tmp_path: Path) -> None:
    session = shop.session
    session.local = False
    with pytest.raises(StatementError, match="not over a network"):
        backup_to(shop.engine.registry, Backup(str(tmp_path / "b")), session)
    assert not (tmp_path / "b").exists()


def test_another_database_has_another_place(shop: Database, tmp_path: Path) -> None:
    """A restored one, too: its segments may have the same numbers with other records."""
    place = str(tmp_path / "b")
    shop.backup(place)
    restore.restore(place, tmp_path / "r.db")
    with millstream.connect(tmp_path / "r.db") as restored:
        with pytest.raises(ConflictError, match="backups of another database"):
            restored.backup(place)
        restored.backup(str(tmp_path / "c"))


def test_a_state_that_was_there_is_not_taken_for_its_own(shop: Database, tmp_path: Path) -> None:
    place = str(tmp_path / "b")
    shop.execute("SET 'auto.offset.reset' = 'earliest';")
    shop.execute("CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;")
    shop.wait()
    shop.backup(place)
    shop.execute("INSERT INTO s VALUES ('a', 2);")
    shop.wait()
    shop.close()
    (tmp_path / "shop.db").rename(tmp_path / "newer.db")
    restore.restore(place, tmp_path / "shop.db")
    assert (tmp_path / "shop.db.state").exists()
    with millstream.connect(tmp_path / "shop.db") as restored:
        restored.wait()
        assert list(restored.execute("SELECT k, n FROM t;")) == [("a", 1)]
    assert (tmp_path / "shop.db.state.quarantine").exists()


def test_nothing_is_written_over(shop: Database, tmp_path: Path) -> None:
    shop.backup(str(tmp_path / "b"))
    for name in ("r.db", "r.db.wal"):
        (tmp_path / name).write_bytes(b"precious")
        with pytest.raises(ConflictError, match="is there already"):
            restore.restore(str(tmp_path / "b"), tmp_path / "r.db")
        (tmp_path / name).unlink()
    with pytest.raises(StatementError, match="There is no backup"):
        restore.restore(str(tmp_path / "nowhere"), tmp_path / "r.db")
    with pytest.raises(StatementError, match="are later than that"):
        restore.restore(str(tmp_path / "b"), tmp_path / "r.db", at=5)
    assert not (tmp_path / "r.db").exists() and not (tmp_path / "nowhere").exists()


def test_wherever_it_fails_what_was_backed_up_is_there(
    shop: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The disk is full at each call of a backup and of a restore, one after another."""
    place = str(tmp_path / "b")
    with failing(monkeypatch) as disk:
        shop.backup(place)
        before = contents(shop.engine.log)  # type: ignore[arg-type]
        shop.execute("INSERT INTO s VALUES ('b', 2);")
        failed = 0
        while True:
            disk.calls, disk.fails = 0, lambda call, at=failed: call == at  # type: ignore[misc]
            try:
                shop.backup(place)
            except UnavailableError as error:
                assert error.code == "E-BACKUP-PLACE" and "No space left" in error.detail
            else:
                break
            finally:
                disk.fails = lambda call: False
            failed += 1
            restore.restore(place, tmp_path / f"{failed}.db")
            found = EmbeddedLog.open(tmp_path / f"{failed}.db")
            # What was refused after the manifest was there is a whole backup as well.
            assert contents(found) in (before, contents(shop.engine.log))  # type: ignore[arg-type]
            found.close()
        assert failed > 10
        for at in range(1000):
            disk.calls, disk.fails = 0, lambda call, at=at: call == at  # type: ignore[misc]
            try:
                restore.restore(place, tmp_path / "r.db")
            except UnavailableError:
                assert not list(tmp_path.glob("r*"))
            else:
                break
        assert at > 5
        found = EmbeddedLog.open(tmp_path / "r.db")
        assert contents(found) == contents(shop.engine.log)  # type: ignore[arg-type]
        found.close()


def test_a_listing_that_lacks_backups_loses_none(shop: Database, tmp_path: Path) -> None:
    """Where a store lists late, a backup that is not listed keeps its files."""
    place = str(tmp_path / "b")
    taken = shop.backup(place).taken
    hidden = tmp_path / "b" / backup.manifest_name(taken)
    content = hidden.read_bytes()
    hidden.unlink()
    shop.execute("INSERT INTO s VALUES ('b', 2);")
    shop.backup(place)
    hidden.write_bytes(content)
    restore.restore(place, tmp_path / "r.db", taken)


def damaged_at(file: Path, at: int, how: str) -> bytes:
    """Damage a file; returns what it was."""
    content = file.read_bytes()
    if how == "flip":
        changed = content[:at] + bytes([content[at] ^ 1 << at % 8]) + content[at + 1 :]
    else:
        changed = content[:at]
    file.write_bytes(changed)
    return content


@pytest.mark.parametrize("how", ["flip", "cut"])
def test_damage_is_found_and_named(shop: Database, tmp_path: Path, how: str) -> None:
    place, chance = str(tmp_path / "b"), random.Random(7)
    shop.backup(place)
    there = contents(shop.engine.log)  # type: ignore[arg-type]
    files = [file for file in (tmp_path / "b").rglob("*") if file.is_file() and file.stat().st_size]
    harmless = 0
    for number in range(120):
        file = chance.choice(files)
        content = damaged_at(file, chance.randrange(file.stat().st_size), how)
        path = tmp_path / f"r{number}.db"
        try:
            restore.restore(place, path)
        except CorruptionError as error:
            assert error.code == "E-BACKUP-DAMAGED" and file.name in error.message
            assert not path.exists()
        except UnavailableError as error:
            assert error.code == "E-VERSION" and file.suffix == ".json"
        else:
            # White space, or the case of a letter of an escape, in the manifest.
            harmless += 1
            found = EmbeddedLog.open(path)
            assert contents(found) == there
            found.close()
        file.write_bytes(content)
    assert harmless < 30


@pytest.mark.parametrize("name", ["../../etc/passwd", "/etc/passwd", "segments/x/../a.parquet", 7])
def test_a_manifest_names_no_other_file(shop: Database, tmp_path: Path, name: object) -> None:
    shop.backup(str(tmp_path / "b"))
    (file,) = (tmp_path / "b" / "backups").iterdir()
    body = json.loads(file.read_text())["backup"]
    body["topics"][0]["segments"][0]["file"] = name
    file.write_bytes(sealed("backup", 1, body))
    with pytest.raises(CorruptionError, match="is damaged"):
        restore.restore(str(tmp_path / "b"), tmp_path / "r.db")


@pytest.mark.parametrize(
    "content", [b"", b"{}", b"[]", b"null", b"[" * 9999, b'{"format": 1}', b"\xff", b'"x"']
)
def test_what_is_no_manifest_is_told(content: bytes) -> None:
    with pytest.raises(
        CorruptionError, match=r"The file 'backups/1\.json' of the backup is damaged"
    ):
        manifest.decode_manifest("backups/1.json", content)


def test_a_later_version_is_refused_with_words(tmp_path: Path, shop: Database) -> None:
    shop.backup(str(tmp_path / "b"))
    (file,) = (tmp_path / "b" / "backups").iterdir()
    file.write_text(file.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(UnavailableError, match="has format 2; this version") as refused:
        restore.restore(str(tmp_path / "b"), tmp_path / "r.db")
    assert refused.value.code == "E-VERSION"
    with pytest.raises(MillstreamError):
        shop.backup(str(tmp_path / "b"))


def test_manifests_are_read_as_they_were_written(tmp_path: Path) -> None:
    life = Life(tmp_path / "a.db", 3)
    for _ in range(60):
        life.step()
    back_up(life.log, str(tmp_path / "b"), CLOCK)
    life.log.close()
    (found,) = backup.manifests(Place.of(str(tmp_path / "b")))
    assert isinstance(found, Manifest)
    again = manifest.decode_manifest("x", manifest.encode_manifest(found))
    assert manifest.encode_manifest(again) == manifest.encode_manifest(found)


def test_topics_of_a_cluster_are_not_ours_to_back_up(tmp_path: Path) -> None:
    engine = Cluster().start()
    with pytest.raises(StatementError, match="Only a database in a file or in memory"):
        Database(engine, Session()).backup(str(tmp_path / "b"))
    engine.close()


def test_a_damaged_manifest_does_not_stand_in_the_way_of_others(
    shop: Database, tmp_path: Path
) -> None:
    place = str(tmp_path / "b")
    first, second = shop.backup(place).taken, shop.backup(place).taken
    file = tmp_path / "b" / backup.manifest_name(second)
    file.write_bytes(file.read_bytes()[:-9])
    (tmp_path / "b" / "backups" / "notes.json").write_text("of somebody else")
    with pytest.raises(CorruptionError, match=r"\.json' of the backup is damaged"):
        restore.restore(place, tmp_path / "r.db")
    restore.restore(place, tmp_path / "r.db", first)
    third = shop.backup(place, keep=1)
    assert third.new_files == 0
    restore.restore(place, tmp_path / "s.db")
