"""What an embedded log writes for new topics and writers: creating a query is mostly that."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import pytest

from millstream.log import tables
from millstream.log.embedded import EmbeddedLog
from millstream.log.log import Appended, Outcome, Topic
from millstream.log.logfile import LogFile
from millstream.model.batch import raw_batch
from millstream.model.errors import ConflictError, FencedError, StatementError, UnavailableError


@pytest.fixture
def commits(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with each transaction."""
    found: list[str] = []
    commit = LogFile._commit

    def counted(self: LogFile, cursor: duckdb.DuckDBPyConnection) -> None:
        found.append("")
        commit(self, cursor)

    monkeypatch.setattr(LogFile, "_commit", counted)
    return found


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with closing(EmbeddedLog.open(str(tmp_path / "m.db"))) as opened:
        yield opened


def test_topics_are_created_in_one_transaction(log: EmbeddedLog, commits: list[str]) -> None:
    heard = []
    log.on_news(lambda news: heard.append(news))
    a, b = log.create_topics([Topic("a", 1), Topic("b", 2)])
    assert isinstance(a, Topic) and isinstance(b, Topic)
    assert len(commits) == 1 and len(heard) == 2
    assert log.create_topics([Topic("a", 1), Topic("none", 0)]) != []
    assert len(commits) == 1, "nothing is written where nothing can be created"


def test_the_second_of_two_of_one_name_is_refused(log: EmbeddedLog) -> None:
    first, second, empty = log.create_topics([Topic("a", 1), Topic("a", 3), Topic("b", 0)])
    assert isinstance(first, Topic) and first.partitions == 1
    assert isinstance(second, ConflictError) and isinstance(empty, StatementError)
    assert log.topic("a") == first


def test_all_or_none_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = str(tmp_path / "m.db")
    insert = tables.insert_topic

    def full(cursor: duckdb.DuckDBPyConnection, topic: Topic) -> object:
        if topic.name == "b":
            raise duckdb.IOException("Could not write file: No space left on device")
        return insert(cursor, topic)

    with closing(EmbeddedLog.open(path)) as log:
        with monkeypatch.context() as patched:
            patched.setattr(tables, "insert_topic", full)
            results = log.create_topics([Topic("a", 1), Topic("b", 1), Topic("c", 0)])
            assert [type(result) for result in results] == [
                UnavailableError,
                UnavailableError,
                StatementError,
            ]
            with pytest.raises(UnavailableError):
                log.create_topic(Topic("b", 1))
        assert log.topic("a") is None
        assert all(isinstance(each, Topic) for each in log.create_topics([Topic("a", 1)]))
    with closing(EmbeddedLog.open(path)) as log:
        assert log.topic("a") is not None and log.topic("b") is None


def test_a_writer_is_opened_without_a_transaction(log: EmbeddedLog, commits: list[str]) -> None:
    log.create_topic(Topic("a", 1))
    batch = raw_batch([(b"k", b"v", 1)])
    commits.clear()
    old = log.writer("w")
    new = log.writer("w")
    assert commits == []
    with pytest.raises(FencedError):
        old.append([Appended("a", 0, batch, 1)])
    assert new.transact("w", [Appended("a", 0, batch, 1)], {}) is Outcome.COMMITTED
    assert len(commits) == 1 and log.end_offset("a", 0) == 1
