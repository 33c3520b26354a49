"""What `millstream check` finds in a file."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import duckdb
import pytest

import millstream
from millstream.backup.check import check_backup, check_database, put_state_aside
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Topic
from millstream.model import file_damage
from millstream.model.batch import raw_batch
from millstream.model.errors import CorruptionError, MillstreamError, UnavailableError
from millstream.model.file_damage import SUMS
from tests.draws import draws
from tests.unit.backup.test_backup import Life

COUNTING = """
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, FORMAT='JSON');
SET 'auto.offset.reset' = 'earliest';
CREATE TABLE t AS SELECT k, COUNT(*) AS n FROM s GROUP BY k EMIT CHANGES;
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A database with a table, closed."""
    found = tmp_path / "a.db"
    with millstream.connect(found) as db:
        db.execute(COUNTING)
        db.insert("s", [{"K": f"k{number % 7}", "V": number} for number in range(500)])
        db.wait()
    return found


def test_all_is_well(path: Path) -> None:
    before = path.read_bytes()
    found = check_database(str(path))
    assert found.well and found.topics == 5 and found.records > 1000
    assert path.read_bytes() == before


@pytest.mark.parametrize("seed", range(draws(8)))
def test_whatever_has_happened_to_a_log_is_well(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path / "a.db", seed)
    for _ in range(80):
        life.step()
    life.log.close()
    assert check_database(str(tmp_path / "a.db")).log == ()


def test_a_database_that_is_open_is_not_checked(path: Path) -> None:
    with millstream.connect(path), pytest.raises(MillstreamError, match="is open in"):
        check_database(str(path))


def test_what_is_no_database_is_told(tmp_path: Path) -> None:
    with pytest.raises(CorruptionError, match="There is no file"):
        check_database(str(tmp_path / "nothing.db"))
    (tmp_path / "text.db").write_text("hello")
    with pytest.raises(CorruptionError, match="cannot be read as a log"):
        check_database(str(tmp_path / "text.db"))
    duckdb.connect(str(tmp_path / "other.db")).close()
    with pytest.raises(CorruptionError, match="cannot be read as a log"):
        check_database(str(tmp_path / "other.db"))


Change = Callable[[duckdb.DuckDBPyConnection], object]
WRONG: list[tuple[str, str, str]] = [
    ("DELETE FROM {s} WHERE part = 1 AND off = 7", "topic 's', segment 0, partition 1",
     "records are missing between the offsets 0 and"),
    ("UPDATE {s} SET off = 9999 WHERE part = 0 AND off = 3", "topic 's', segment 0, partition 0",
     "are not in order"),
    ("UPDATE {s} SET part = 5 WHERE part = 0", "topic 's', segment 0, partition 5",
     "there is no such partition"),
    ("INSERT INTO log.starts SELECT id, 0, 100000 FROM log.topics WHERE name = 's'",
     "topic 's', partition 0", "it starts at 100000, but ends at"),
    ("UPDATE log.positions SET position = position + 1 WHERE topic = 's' AND part = 0",
     "topic 's', partition 0", "it has read up to"),
    ("UPDATE log.positions SET topic = 'gone' WHERE topic = 's'", "topic 'gone'", "of no records"),
    ("DROP TABLE {s}", "topic 's', segment 0", "does not exist"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "where", "what"), WRONG)
def test_what_does_not_belong_together_is_found(
    path: Path, change: str, where: str, what: str
) -> None:
    """Changes that leave every checksum as it should be."""
    with duckdb.connect(str(path)) as connection:
        ((topic,),) = connection.execute("SELECT id FROM log.topics WHERE name = 's'").fetchall()
        connection.execute(change.format(s=f"log.records_{topic}_0"))
    found = check_database(str(path))
    assert not found.well
    assert any(where in str(each) and what in str(each) for each in found.log), found.log


def test_a_lost_segment_is_found(tmp_path: Path) -> None:
    log = EmbeddedLog.open(tmp_path / "a.db", compacting=False)
    log.create_topic(Topic("t", 1, config={"segment.bytes": "1"}))
    for _ in range(4):
        log.send([Appended("t", 0, raw_batch([(b"k", b"v", 1)]), 1)])
    log.close()
    with duckdb.connect(str(tmp_path / "a.db")) as connection:
        connection.execute("DELETE FROM log.segments WHERE number = 1")
    (damage,) = check_database(str(tmp_path / "a.db")).log
    assert str(damage) == (
        "topic 't', segment 2, partition 0: it begins at 2, the one in front of it ends at 1"
    )


def test_the_state_is_compared_with_its_changelog_and_repaired(path: Path) -> None:
    with duckdb.connect(f"{path}.state") as connection:
        connection.execute("""UPDATE "$positions" SET position = position + 1000""")
    found = check_database(str(path))
    assert found.log == () and "but its changelog ends at" in str(found.state[0])
    put_state_aside(str(path))
    assert check_database(str(path)).well
    with millstream.connect(path) as db:
        db.wait()
        assert sum(n for _, n in db.execute("SELECT k, n FROM t;")) == 500


def test_a_state_for_which_duckdb_aborts_ends_no_process(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its directory is not what was noted, so another process opens it first."""
    noted = Path(f"{path}.state{SUMS}")
    content = bytearray(noted.read_bytes())
    content[12] ^= 1
    noted.write_bytes(content)
    assert check_database(str(path)).well, "that process did not die"
    monkeypatch.setattr(file_damage, "_OPEN", "import os; os.abort()")
    (damage,) = check_database(str(path)).state
    assert "DuckDB ends the process" in str(damage)
    with millstream.connect(path) as db:
        db.wait()
        assert [each["kind"] for each in db.processing_log().to_pylist()] == ["STATE"]
        assert sum(n for _, n in db.execute("SELECT k, n FROM t;")) == 500
    assert check_database(str(path)).well


def test_a_lost_end_is_found(tmp_path: Path) -> None:
    """A file that is older than its mark."""
    path = tmp_path / "a.db"
    log = EmbeddedLog.open(path)
    log.create_topic(Topic("t", 1))
    log.close()
    older = path.read_bytes()
    log = EmbeddedLog.open(path)
    log.send([Appended("t", 0, raw_batch([(b"k", b"v", 1)] * 3), 3)])
    log.close()
    path.write_bytes(older)
    (damage,) = check_database(str(path)).log
    assert str(damage) == "log: it holds 0 records, 3 were committed: its end is lost"
    with pytest.raises(CorruptionError, match="has lost records") as refused:
        EmbeddedLog.open(path)
    assert refused.value.code == "E-LOG-CUT" and path.read_bytes() == older
    path.unlink()
    EmbeddedLog.open(path).close()
    assert check_database(str(path)).well, "a new file of this name is not expected to have them"


def test_the_mark_follows_what_the_log_holds(tmp_path: Path) -> None:
    """Whatever happens to a log, it opens again; with a topic less it expects less."""
    for seed in range(6):
        life = Life(tmp_path / f"{seed}.db", seed)
        for _ in range(60):
            life.step()
        for topic in life.log.topics():
            life.log.delete_topic(topic.name)
            life.log.close()
            life.open()
        life.log.close()
        assert check_database(str(tmp_path / f"{seed}.db")).log == ()


def flipped(file: Path, at: int) -> None:
    content = bytearray(file.read_bytes())
    content[at] ^= 1 << at % 8
    file.write_bytes(bytes(content))


@pytest.mark.parametrize("suffix", ["", ".state"])
def test_bits_that_have_turned_are_found_or_do_not_count(path: Path, suffix: str) -> None:
    """Each file, 60 bits of it, one after another: either the check finds it, or everything is read
    as before."""
    file, chance, found = Path(f"{path}{suffix}"), random.Random(11), 0
    whole = file.read_bytes()
    before = check_database(str(path))
    for _ in range(60):
        flipped(file, chance.randrange(len(whole)))
        try:
            checked = check_database(str(path))
        except (CorruptionError, UnavailableError):
            found += 1
        else:
            found += not checked.well
            if suffix:
                assert checked.log == ()
            if checked.well:
                assert checked == before
        file.write_bytes(whole)
    assert found > 5
    assert check_database(str(path)) == before


def test_a_backup_is_checked(path: Path, tmp_path: Path) -> None:
    with millstream.connect(path) as db:
        db.backup(str(tmp_path / "b"))
    found = check_backup(str(tmp_path / "b"))
    assert found.well and found.records > 1000
    for file in (tmp_path / "b" / "segments").rglob("*.parquet"):
        if file.stat().st_size:
            flipped(file, file.stat().st_size // 2)
            break
    found = check_backup(str(tmp_path / "b"))
    assert not found.well and file.name in str(found.log[0])
