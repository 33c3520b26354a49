"""Opening the same file again: what exists, what continues, and what is created anew."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import millstream
from millstream import ConflictError, CorruptionError, Database, History, Rows, UnavailableError

EARLIEST = {"auto.offset.reset": "earliest"}
ORDERS = (
    "CREATE STREAM orders (customer STRING KEY, item STRING, amount DOUBLE) "
    "WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');"
)
SPENDING = (
    "CREATE TABLE spending AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total "
    "FROM orders GROUP BY customer EMIT CHANGES;"
)
BY_ITEM = "CREATE TABLE by_item AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;"
QUESTIONS = ("SELECT * FROM spending;", "SELECT * FROM by_item;", "SELECT * FROM lately;")
Reopen = Callable[[], Database]


def rows(db: Database, sql: str) -> list[tuple[object, ...]]:
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result, key=repr)


def order(db: Database, customer: str, item: str, amount: float) -> None:
    db.execute(f"INSERT INTO orders VALUES ('{customer}', '{item}', {amount});")


def shop(db: Database) -> Database:
    db.execute(ORDERS + SPENDING + BY_ITEM)
    db.execute(
        "CREATE TABLE people (name STRING PRIMARY KEY, city STRING) "
        "WITH (KAFKA_TOPIC='people', PARTITIONS=2, VALUE_FORMAT='JSON');"
        "CREATE TABLE lately AS SELECT * FROM people WHERE city <> 'Ely';"
        "INSERT INTO people VALUES ('ann', 'York'); INSERT INTO people VALUES ('bob', 'Ely');"
    )
    for number in range(10):
        order(db, f"c{number % 3}", f"i{number % 4}", number)
    db.wait()
    return db


def answers(db: Database) -> list[list[tuple[object, ...]]]:
    db.wait()
    return [rows(db, question) for question in QUESTIONS]


def test_everything_is_there_again(reopen: Reopen) -> None:
    db = shop(reopen())
    db.execute("CREATE TYPE money AS DECIMAL(10, 2);")
    shows = ("SHOW STREAMS;", "SHOW TABLES;", "SHOW TYPES;", "SHOW ALL TOPICS;")
    before = [rows(db, text) for text in shows], answers(db)
    ids = [row[0] for row in rows(db, "SHOW QUERIES;")]
    db = reopen()
    assert ([rows(db, text) for text in shows], answers(db)) == before
    assert [row[0] for row in rows(db, "SHOW QUERIES;")] == ids


def test_queries_go_on_from_where_they_were(reopen: Reopen) -> None:
    db = shop(reopen())
    db.execute("CREATE STREAM copy AS SELECT * FROM orders;")
    db.wait()
    assert len(rows(db, "SELECT * FROM copy;")) == 10
    for opened in range(3):
        db = reopen()
        order(db, "zoe", "i0", 1)
        db.wait()
        assert len(rows(db, "SELECT * FROM copy;")) == 11 + opened, "nothing twice"
        found = rows(db, "SELECT * FROM spending WHERE customer = 'zoe';")
        assert found == [("zoe", opened + 1, opened + 1.0)]


def test_a_query_from_the_end_keeps_its_start(reopen: Reopen) -> None:
    db = shop(reopen())
    db.execute("SET 'auto.offset.reset' = 'latest';")
    db.execute("CREATE STREAM late AS SELECT customer, item FROM orders;")
    order(db, "ann", "new", 1)
    db = reopen()
    db.wait()
    assert (
        rows(db, "SELECT * FROM late;") == [("new",)] or len(rows(db, "SELECT * FROM late;")) == 1
    )


def test_settings_of_a_query_are_its_for_life(reopen: Reopen) -> None:
    db = shop(reopen())
    db.execute("SET 'processing.guarantee' = 'exactly_once_v2';")
    db.execute("CREATE STREAM exact AS SELECT * FROM orders;")
    db = reopen()
    record = next(q for q in db.engine.catalog.queries.values() if q.sink == "EXACT")
    assert record.properties["processing.guarantee"] == "exactly_once_v2"
    assert "processing.guarantee" not in db.session.properties


def test_paused_stays_paused(reopen: Reopen) -> None:
    db = shop(reopen())
    query = next(row[0] for row in rows(db, "SHOW QUERIES;") if "SPENDING" in str(row[0]))
    db.execute(f"PAUSE {query};")
    db = reopen()
    order(db, "zoe", "i0", 1)
    db.wait()
    assert dict(row[::2][:2] for row in rows(db, "SHOW QUERIES;"))[query] == "PAUSED"
    assert rows(db, "SELECT * FROM spending WHERE customer = 'zoe';") == []
    db.execute(f"RESUME {query};")
    db = reopen()
    db.wait()
    assert rows(db, "SELECT * FROM spending WHERE customer = 'zoe';") == [("zoe", 1, 1.0)]


def test_dropped_stays_dropped(reopen: Reopen) -> None:
    db = shop(reopen())
    db.execute("DROP TABLE spending DELETE TOPIC;")
    query = next(row[0] for row in rows(db, "SHOW QUERIES;") if "BY_ITEM" in str(row[0]))
    db.execute(f"TERMINATE {query}; CREATE TYPE t AS INT; DROP TYPE t;")
    topics = rows(db, "SHOW ALL TOPICS;")
    db = reopen()
    assert [row[0] for row in rows(db, "SHOW TABLES;")] == ["BY_ITEM", "LATELY", "PEOPLE"]
    assert len(rows(db, "SHOW QUERIES;")) == 1 and rows(db, "SHOW TYPES;") == []
    assert rows(db, "SHOW ALL TOPICS;") == topics
    db.execute(SPENDING)
    db.wait()
    assert len(rows(db, "SELECT * FROM spending;")) == 3, "made anew from the first record"


def test_replaced_and_altered_stay_so(reopen: Reopen) -> None:
    db = shop(reopen())
    db.execute("ALTER STREAM orders ADD COLUMN note STRING;")
    db.execute("CREATE STREAM notes AS SELECT customer, note FROM orders;")
    db.execute(
        "CREATE OR REPLACE STREAM notes AS SELECT customer, note FROM orders WHERE note <> 'x';"
    )
    fields = rows(db, "DESCRIBE orders;")
    db = reopen()
    assert rows(db, "DESCRIBE orders;") == fields
    assert "note <> 'x'" in str(dict(rows(db, "DESCRIBE notes EXTENDED;"))["Statement"])


@pytest.mark.parametrize("harm", ["deleted", "garbage", "cut", "empty", "of another log"])
def test_state_is_made_anew(reopen: Reopen, tmp_path: Path, harm: str) -> None:
    before = answers(shop(reopen()))
    reopen().close()
    state = tmp_path / "shop.db.state"
    match harm:
        case "deleted":
            state.unlink()
        case "garbage":
            state.write_bytes(b"not a database" * 100)
        case "cut":
            state.write_bytes(state.read_bytes()[:300_000])
        case "empty":
            state.write_bytes(b"")
        case _:
            with millstream.connect(str(tmp_path / "other.db"), properties=EARLIEST) as other:
                other.execute(ORDERS + SPENDING)
                order(other, "thief", "x", 1)
                other.wait()
            shutil.copy(tmp_path / "other.db.state", state)
    db = reopen()
    assert answers(db) == before
    problems = db.processing_log().to_pylist()
    assert [problem["kind"] for problem in problems] == ([] if harm == "deleted" else ["STATE"])
    assert (tmp_path / "shop.db.state.quarantine").exists() == (harm != "deleted")
    order(db, "c0", "i0", 1)
    after = answers(db)
    assert after != before
    assert answers(reopen()) == after, "and it is kept from then on"


def test_a_log_made_anew_does_not_meet_old_state(reopen: Reopen, tmp_path: Path) -> None:
    shop(reopen())
    reopen().close()
    for file in ("shop.db", "shop.db.wal"):
        (tmp_path / file).unlink(missing_ok=True)
    db = reopen()
    db.execute(ORDERS + SPENDING)
    order(db, "zoe", "i0", 1)
    db.wait()
    assert rows(db, "SELECT * FROM spending;") == [("zoe", 1, 1.0)]


def test_a_log_that_is_not_one_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    path.write_bytes(b"holiday photos" * 1000)
    with pytest.raises(CorruptionError):
        millstream.connect(str(path))
    assert path.read_bytes() == b"holiday photos" * 1000


CRASHING = """
import os, sys
import millstream
db = millstream.connect(sys.argv[1], properties={"auto.offset.reset": "earliest"})
db.execute(sys.argv[2])
for number in range(20):
    db.execute(f"INSERT INTO orders VALUES ('c{number % 3}', 'i', {number});")
    if number == 9:
        db.wait()
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once_v2"])
def test_after_a_crash(tmp_path: Path, guarantee: str) -> None:
    path = str(tmp_path / "shop.db")
    script = f"SET 'processing.guarantee' = '{guarantee}';" + ORDERS + SPENDING
    done = subprocess.run([sys.executable, "-c", CRASHING, path, script], check=False)
    assert done.returncode == -9
    with millstream.connect(path, properties=EARLIEST) as db:
        db.wait()
        found = rows(db, "SELECT customer, n, total FROM spending;")
        assert found == [("c0", 7, 63.0), ("c1", 7, 70.0), ("c2", 6, 57.0)]


SECOND = """
import sys
import millstream
try:
    millstream.connect(sys.argv[1])
except millstream.UnavailableError as error:
    print(error.code, error)
"""


def test_a_second_process_gets_an_error(reopen: Reopen, tmp_path: Path) -> None:
    db = reopen()
    db.execute(ORDERS)
    path = str(tmp_path / "shop.db")
    done = subprocess.run(
        [sys.executable, "-c", SECOND, path], check=False, capture_output=True, text=True
    )
    assert done.stdout.startswith("E-LOG-LOCKED") and "another process" in done.stdout, done.stderr
    with pytest.raises(ConflictError) as caught:
        millstream.connect(path)
    assert caught.value.code == "E-LOG-OPEN"
    order(db, "ann", "tea", 1)
    assert len(rows(db, "SELECT * FROM orders;")) == 1


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError):
        millstream.connect(str(tmp_path / "none" / "shop.db"))


def test_a_query_that_cannot_start_does_not_hold_up_the_others(reopen: Reopen) -> None:
    db = shop(reopen())
    db.execute("CREATE STREAM copy AS SELECT * FROM orders;")
    db.wait()
    db.engine.log.delete_topic("people")  # behind the catalog's back
    db = reopen()
    order(db, "zoe", "i0", 1)
    db.wait()
    assert rows(db, "SELECT n FROM spending WHERE customer = 'zoe';") == [(1,)]
    states = {str(row[0]): str(row[2]) for row in rows(db, "SHOW QUERIES;")}
    (broken,) = [query for query in states if "LATELY" in query]
    assert "topic 'people' was deleted" in states[broken]
    db.execute(f"TERMINATE {broken};")
    assert broken not in [row[0] for row in rows(db, "SHOW QUERIES;")]


def test_a_file_name_may_hold_anything(tmp_path: Path) -> None:
    folder = tmp_path / "o'brien; drop table x"
    os.mkdir(folder)
    path = str(folder / "a b'c\"d.db")
    for _ in range(2):
        with millstream.connect(path, properties=EARLIEST) as db:
            if not db.engine.catalog.sources:
                db.execute(ORDERS + SPENDING)
            order(db, "ann", "tea", 1)
            db.wait()
    with millstream.connect(path) as db:
        assert rows(db, "SELECT n FROM spending;") == [(2,)]


FORGETFUL = f"""
import sys
import millstream
db = millstream.connect(sys.argv[1], properties={EARLIEST!r})
db.execute("{ORDERS} {SPENDING} INSERT INTO orders VALUES ('ann', 'tea', 1.5);")
print(next(iter(db.execute("SELECT customer, n FROM spending EMIT CHANGES;"))))
"""


def test_a_program_that_ends_without_closing_it(tmp_path: Path) -> None:
    path = str(tmp_path / "s.db")
    ended = subprocess.run(
        [sys.executable, "-c", FORGETFUL, path], capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("('ann', 1)\n", "")
    with millstream.connect(path) as db:
        (found,) = rows(db, "SELECT * FROM spending;")
    assert found == ("ann", 1, 1.5)


@pytest.mark.parametrize("name", ["state.db", "STATE", "temp.db", "system.db", "log1.db", "a b.db"])
def test_a_file_of_any_name_is_opened_again(tmp_path: Path, name: str) -> None:
    for number in (1, 2):
        with millstream.connect(str(tmp_path / name), properties=EARLIEST) as db:
            if number == 1:
                db.execute(ORDERS + SPENDING)
            order(db, "ann", "ink", 1.5)
            db.wait()
            assert rows(db, "SELECT * FROM spending;") == [("ann", number, 1.5 * number)]


@pytest.mark.parametrize("name", ["log.db", "Log", ".log", "log.old.db", "millstream_state.db"])
def test_a_file_of_a_name_that_is_taken_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(millstream.MillstreamError, match="Call it otherwise, such as") as refused:
        millstream.connect(str(tmp_path / name))
    assert refused.value.code == "E-CONFIG"
    assert not list(tmp_path.iterdir())
