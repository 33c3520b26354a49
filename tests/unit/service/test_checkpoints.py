"""A database whose state is lost, and whose checkpoints are at a place."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from moto.server import ThreadedMotoServer
from pyarrow import fs

import millstream
from millstream.checkpoints.repository import Repository
from millstream.model.errors import StatementError
from millstream.model.settings import EngineSettings
from millstream.places.place import Place
from millstream.scheduler.checkpoints import Checkpoints

SCRIPT = """
CREATE STREAM s (k STRING KEY, n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE t AS SELECT k, COUNT(*) AS c, SUM(n) AS n FROM s GROUP BY k EMIT CHANGES;
CREATE TABLE w AS SELECT n % 3 AS m, COLLECT_LIST(k) AS ks, MAX(n) AS n FROM s
  WINDOW TUMBLING (SIZE 1 DAY) GROUP BY n % 3 EMIT CHANGES;
"""
NEVER = 86_400_000


class Shop:
    """A database in a folder, and its checkpoints at a URL."""

    def __init__(self, folder: Path, url: str) -> None:
        self.path = folder / "shop.db"
        self.url = url

    def open(self, url: str | None = None) -> millstream.Database:
        settings = EngineSettings(
            checkpoints_url=self.url if url is None else url, checkpoint_interval_ms=NEVER
        )
        return millstream.connect(self.path, settings=settings)

    def lose_state(self) -> None:
        for path in self.path.parent.glob("shop.db.state*"):
            path.unlink()


def checkpoints(db: millstream.Database) -> Checkpoints:
    """Those of a database, where few rows are enough for one."""
    restoring = db.engine.restoring
    assert restoring is not None and restoring.checkpoints is not None
    restoring.checkpoints.fewest = 1
    return restoring.checkpoints


def insert(db: millstream.Database, first: int, end: int) -> None:
    db.insert("s", [{"K": f"k{n % 7}", "N": n} for n in range(first, end)])
    db.engine.drain()


def answers(db: millstream.Database) -> list[Any]:
    db.engine.drain()
    return [sorted(map(repr, db.execute(f"SELECT * FROM {name};"))) for name in ("t", "w")]


def filled(shop: Shop) -> list[Any]:
    """Make the database, with a checkpoint of each task; its answers."""
    with shop.open() as db:
        db.execute(SCRIPT)
        insert(db, 0, 100)
        checkpoints(db).write()
        return answers(db)


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path, str(tmp_path / "place"))


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Callable[[str], int]:
    caplog.set_level(logging.INFO, "millstream")
    return lambda text: sum(text in record.getMessage() for record in caplog.records)


def test_the_state_comes_back(shop: Shop, told: Callable[[str], int]) -> None:
    with shop.open() as db:
        db.execute(SCRIPT)
        insert(db, 0, 100)
        assert checkpoints(db).write() == 4, "two tasks each"
        insert(db, 100, 120)
        expected = answers(db)
    shop.lose_state()
    with shop.open() as db:
        assert answers(db) == expected
        assert told("was loaded from checkpoints") == 2
        insert(db, 120, 130)
        more = answers(db)
    with millstream.connect() as other:
        other.execute(SCRIPT)
        insert(other, 0, 130)
        assert answers(other)[0] == more[0]


def test_a_state_that_is_there_is_used(shop: Shop, told: Callable[[str], int]) -> None:
    expected = filled(shop)
    with shop.open() as db:
        assert answers(db) == expected
    assert told("was loaded from checkpoints") == 0


def test_a_place_that_is_away(shop: Shop, told: Callable[[str], int], tmp_path: Path) -> None:
    """The changelogs have everything, too."""
    expected = filled(shop)
    shop.lose_state()
    file = tmp_path / "file"
    file.touch()
    with shop.open(str(file)) as db:
        assert answers(db) == expected
        assert checkpoints(db).write() == 0
        assert told("was written: Could not") == 1
        insert(db, 100, 110)
        assert checkpoints(db).write() == 0
        assert told("was written: Could not") == 1, "once, until it is over"


def test_a_checkpoint_of_a_later_version(
    shop: Shop, told: Callable[[str], int], tmp_path: Path
) -> None:
    """The changelogs have everything, too."""
    expected = filled(shop)
    shop.lose_state()
    for path in (tmp_path / "place").rglob("*.json"):
        path.write_text(path.read_text().replace('"format": 1', '"format": 2'))
    with shop.open() as db:
        assert answers(db) == expected
    assert told("has format 2; this version of Millstream reads format 1") == 2


def test_no_place(shop: Shop) -> None:
    with pytest.raises(StatementError, match="names no place for checkpoints"):
        shop.open("nothing://there")
    with shop.open() as db:
        db.execute(SCRIPT)


def slow_place(monkeypatch: pytest.MonkeyPatch) -> tuple[threading.Event, threading.Event]:
    """A place that answers when the second event is set; the first one says that it was asked."""
    loading, go_on = threading.Event(), threading.Event()
    rows = Repository.rows

    def slow(self: Repository, *arguments: Any) -> Any:
        loading.set()
        go_on.wait()
        return rows(self, *arguments)

    monkeypatch.setattr(Repository, "rows", slow)
    return loading, go_on


def test_a_query_is_dropped_while_its_state_is_loaded(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(shop)
    shop.lose_state()
    loading, go_on = slow_place(monkeypatch)
    with shop.open() as db:
        loading.wait()
        dropping = threading.Thread(target=db.execute, args=("DROP TABLE t; DROP TABLE w;",))
        dropping.start()
        go_on.set()
        dropping.join()
        assert not db.engine.catalog.queries
        db.execute(SCRIPT.partition(";")[2])
        insert(db, 100, 110)
        assert len(answers(db)[0]) == 7


def test_other_queries_work_while_a_state_is_loaded(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = filled(shop)
    shop.lose_state()
    loading, go_on = slow_place(monkeypatch)
    with shop.open() as db:
        loading.wait()
        db.execute(
            "CREATE STREAM r (k STRING KEY, n INT) WITH (KAFKA_TOPIC='r', PARTITIONS=1, "
            "VALUE_FORMAT='JSON'); CREATE STREAM d AS SELECT k, n * 2 AS n FROM r EMIT CHANGES;"
        )
        db.execute("INSERT INTO r VALUES ('a', 4);")
        with db.execute("SELECT n FROM d EMIT CHANGES LIMIT 1;") as found:
            assert [tuple(row) for row in found] == [(8,)]
        go_on.set()
        assert answers(db) == expected


@pytest.mark.parametrize("fault", [ValueError("a fault"), pa.ArrowInvalid("another one")])
def test_a_fault_of_ours_costs_time_alone(
    shop: Shop,
    monkeypatch: pytest.MonkeyPatch,
    told: Callable[[str], int],
    fault: Exception,
) -> None:
    """Neither are partitions held for ever, nor are there no checkpoints any more."""
    expected = filled(shop)
    shop.lose_state()

    def faulty(*_arguments: Any, **_named: Any) -> Any:
        raise fault

    with monkeypatch.context() as patched:
        patched.setattr(Repository, "rows", faulty)
        with shop.open() as db:
            assert answers(db) == expected
            insert(db, 100, 110)
            patched.setattr(Repository, "write_rows", faulty)
            assert checkpoints(db).write() == 0
            assert told("was written") == 1
    with shop.open() as db:
        insert(db, 110, 120)
        assert checkpoints(db).write() == 4


def test_closing_ends_a_checkpoint_between_two_files(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("millstream.checkpoints.writing.FILE_BYTES", 1)
    monkeypatch.setattr("millstream.checkpoints.writing._BATCH_ROWS", 2)
    with shop.open() as db:
        db.execute(SCRIPT)
        insert(db, 0, 100)
        found = checkpoints(db)
        write = Place.write
        written: list[str] = []

        def closing(self: Place, name: str, content: Any) -> Any:
            written.append(name)
            found.close()
            return write(self, name, content)

        monkeypatch.setattr(Place, "write", closing)
        assert found.write() == 0
        assert len(written) == 1


def test_checkpoints_of_former_queries_are_deleted(shop: Shop) -> None:
    with shop.open() as db:
        db.execute(SCRIPT)
        insert(db, 0, 100)
        found = checkpoints(db)
        found.write()
        before = found.repository.states()
        db.execute("DROP TABLE t;")
        found.delete_orphans()
        assert found.repository.states() == before, "a new topic may not be known here yet"
        found.delete_orphans()
        (left,) = found.repository.states()
        assert left in before and left.startswith("CTAS_W")
        expected = answers_of_w(db)
    shop.lose_state()
    with shop.open() as db:
        db.engine.drain()
        assert answers_of_w(db) == expected


def answers_of_w(db: millstream.Database) -> list[str]:
    return sorted(map(repr, db.execute("SELECT * FROM w;")))


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ann")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    host, port = server.get_host_and_port()
    found = f"?scheme=http&endpoint_override={host}:{port}&region=us-east-1"
    system, _ = fs.FileSystem.from_uri(f"s3://x/y{found}&allow_bucket_creation=true")
    system.create_dir("states")
    yield f"s3://states/shop{found}"
    server.stop()


def test_in_an_object_store(tmp_path: Path, bucket: str, told: Callable[[str], int]) -> None:
    shop = Shop(tmp_path, bucket)
    with shop.open() as db:
        db.execute(SCRIPT)
        for first in range(0, 400, 100):
            insert(db, first, first + 100)
            checkpoints(db).write()
        expected = answers(db)
    shop.lose_state()
    with shop.open() as db:
        assert answers(db) == expected
        assert told("was loaded from checkpoints") == 2
        db.execute("DROP TABLE t; DROP TABLE w;")
        found = checkpoints(db)
        found.delete_orphans()
        found.delete_orphans()
        assert found.repository.states() == []


def test_what_is_told_of_them(shop: Shop) -> None:
    """Of each task the newest one, in EXPLAIN and in the metrics; and how many failed."""
    with shop.open() as db:
        db.execute(SCRIPT)
        insert(db, 0, 100)
        found = checkpoints(db)
        written = found.write()
        metrics = db.metrics()
        assert metrics.instance.checkpoints_written == written > 1
        told = [each for query in metrics.queries for each in query.checkpoints]
        assert len(told) == written
        assert all(each.position > 0 and each.written_at_ms > 0 for each in told)
        (table,) = [query.query_id for query in metrics.queries if query.query_id[:6] == "CTAS_T"]
        explained = str(next(iter(db.execute(f"EXPLAIN {table};"))))
        assert "Checkpoints: sub-topology 0, partition 0: up to" in explained
        text = millstream.exposition(metrics)
        assert text.count("millstream_checkpoint_written_time_seconds{") == written
        (shop.path.parent / "place").rename(shop.path.parent / "elsewhere")
        (shop.path.parent / "place").write_text("no folder")
        insert(db, 100, 200)
        assert found.write() == 0
        assert db.metrics().instance.checkpoints_failed == written
        db.execute(f"TERMINATE {table};")
        found.write()
        assert found.written(table) == {}
    (shop.path.parent / "place").unlink()
    (shop.path.parent / "elsewhere").rename(shop.path.parent / "place")
    shop.lose_state()
    with shop.open() as db:
        db.engine.drain()
        assert db.metrics().instance.checkpoints_loaded == written - 2


def test_nothing_is_told_without_a_place() -> None:
    with millstream.connect() as db:
        assert db.metrics().instance.checkpoints_written == 0
        db.execute(SCRIPT)
        db.engine.drain()
        assert all(query.checkpoints == () for query in db.metrics().queries)
