"""A database in memory for each test and shorthands to fill it; several instances for one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import millstream
from millstream import Database
from tests.unit.command_topic.converging import Cluster

EARLIEST = {"auto.offset.reset": "earliest"}
ORDERS = (
    "CREATE STREAM orders (customer STRING KEY, item STRING, amount DOUBLE) "
    "WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');"
)
SPENDING = (
    "CREATE TABLE spending AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total "
    "FROM orders GROUP BY customer EMIT CHANGES;"
)
LATE = """
CREATE STREAM clicks (page STRING KEY, n INT) WITH (KAFKA_TOPIC='clicks', PARTITIONS=1, FORMAT='JSON');
CREATE TABLE hits AS SELECT page, COUNT(*) AS hits FROM clicks
    WINDOW TUMBLING (SIZE 1 SECOND, GRACE PERIOD 0 SECONDS) GROUP BY page EMIT CHANGES;
INSERT INTO clicks (rowtime, page, n) VALUES (100, 'a', 1);
INSERT INTO clicks (rowtime, page, n) VALUES (5000, 'a', 1);
INSERT INTO clicks (rowtime, page, n) VALUES (200, 'a', 1);
"""  # noqa: E501
"""One click that is late."""
ROWS = (("ann", "tea", 1.5), ("bob", "milk", 3.0), ("ann", "jam", 2.5), ("cleo", "tea", 10.0))


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect(properties=EARLIEST) as database:
        yield database


@pytest.fixture
def shop(db: Database) -> Database:
    """Four orders of three customers, and the table of what each has spent."""
    fill(db)
    db.execute(SPENDING)
    db.wait()
    return db


@pytest.fixture
def reopen(tmp_path: Path) -> Iterator[Callable[[], Database]]:
    """Opens the same file again, closing it first where it is open."""
    opened: list[Database] = []

    def again() -> Database:
        while opened:
            opened.pop().close()
        opened.append(millstream.connect(str(tmp_path / "shop.db"), properties=EARLIEST))
        return opened[-1]

    yield again
    while opened:
        opened.pop().close()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """Instances that a test starts, over one log; they are closed behind it."""
    made = Cluster()
    yield made
    made.close()


def fill(db: Database) -> None:
    db.execute(ORDERS)
    for customer, item, amount in ROWS:
        db.execute(f"INSERT INTO orders VALUES ('{customer}', '{item}', {amount});")
