"""A state whose file has much that is free is made smaller when it is opened."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

import millstream
from millstream.model import file_space
from millstream.service import opening
from millstream.state import shrinking
from millstream.state.files import SUFFIX

MB = 1 << 20


@pytest.fixture
def path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A database whose state once had many more rows."""
    monkeypatch.setattr(file_space, "SPARE_BYTES", MB)
    path = tmp_path / "shop.db"
    with millstream.connect(path) as db:
        db.execute("""
            SET 'auto.offset.reset' = 'earliest';
            CREATE STREAM s (k STRING KEY, v STRING)
              WITH (KAFKA_TOPIC='s', PARTITIONS=1, VALUE_FORMAT='JSON');
            CREATE TABLE many AS SELECT v, COUNT(*) AS c FROM s GROUP BY v EMIT CHANGES;
        """)
        db.insert("s", [{"K": f"k{n % 100}", "V": f"value {n}"} for n in range(60_000)])
        db.wait()
    with millstream.connect(path) as db:
        db.execute("""
            SET 'auto.offset.reset' = 'earliest';
            CREATE TABLE few AS SELECT k, LATEST_BY_OFFSET(v) AS v FROM s GROUP BY k EMIT CHANGES;
        """)
        db.wait()
    with millstream.connect(path) as db:
        db.execute("DROP TABLE many;")
    assert size_of(path) > 2 * MB
    return path


def size_of(path: Path) -> int:
    return Path(f"{path}{SUFFIX}").stat().st_size


def answers(path: Path) -> dict[str, str]:
    with millstream.connect(path) as db:
        db.insert("s", [{"K": "k7", "V": "new"}])
        db.wait()
        return dict(map(tuple, db.execute("SELECT k, v FROM few;")))


EXPECTED = {f"k{n}": f"value {59_900 + n}" for n in range(100)} | {"k7": "new"}


def test_it_becomes_smaller_and_says_the_same(path: Path) -> None:
    with duckdb.connect(str(path) + SUFFIX) as before:
        indexes = before.execute("SELECT sql FROM duckdb_indexes() ORDER BY ALL").fetchall()
    assert answers(path) == EXPECTED
    assert size_of(path) < 2 * MB
    with duckdb.connect(str(path) + SUFFIX) as after:
        assert after.execute("SELECT sql FROM duckdb_indexes() ORDER BY ALL").fetchall() == indexes
    assert answers(path) == EXPECTED


def test_one_that_is_full_is_not_written_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers(path)
    monkeypatch.setattr(opening, "shrink", lambda file: pytest.fail(file))
    assert answers(path) == EXPECTED


def test_a_failure_leaves_the_old_one(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as failing:
        failing.setattr(shrinking.os, "fsync", full)
        assert answers(path) == EXPECTED
    assert "No space left on device" in caplog.text
    assert size_of(path) > 2 * MB
    assert not Path(f"{path}{SUFFIX}{shrinking.UNFINISHED}").exists()
    assert answers(path) == EXPECTED
    assert size_of(path) < 2 * MB


def test_what_a_kill_leaves_is_no_hindrance(path: Path) -> None:
    Path(f"{path}{SUFFIX}{shrinking.UNFINISHED}").write_bytes(b"half")
    Path(f"{path}{SUFFIX}{shrinking.UNFINISHED}.wal").write_bytes(b"half")
    assert answers(path) == EXPECTED
    assert size_of(path) < 2 * MB


def test_one_that_is_damaged_is_rebuilt(path: Path) -> None:
    state = Path(f"{path}{SUFFIX}")
    content = bytearray(state.read_bytes())
    for at in range(16_384, len(content), 65_536):
        content[at] ^= 1
    state.write_bytes(content)
    assert answers(path) == EXPECTED
