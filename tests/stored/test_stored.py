"""Databases that earlier versions have written open, hold what they held, and go on."""

from __future__ import annotations

import tarfile
from decimal import Decimal
from pathlib import Path

import duckdb
import pytest

import millstream
from millstream import Database
from millstream.backup.check import check_database
from millstream.backup.restore import restore
from millstream.log import tables
from millstream.model.errors import MillstreamError, UnavailableError
from tests.stored.content import BACKUPS, CUSTOMERS, HERE, NAME, ORDERS, order

STORED = sorted(HERE.glob("*.tar.gz"))


@pytest.fixture(params=STORED, ids=lambda file: file.name.partition(".")[0])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder as a version has left it."""
    with tarfile.open(request.param) as archive:
        archive.extractall(tmp_path, filter="data")
    return tmp_path


def check(db: Database, orders: int) -> None:
    """All tables are those of so many orders."""
    db.wait()
    numbers = {f"c{key}": range(key, orders, 10) for key in range(10)}
    spent = sorted(db.execute("SELECT customer, n, last FROM spent;"))
    assert spent == [(key, sum(own), f"i{own[-1] % 7}") for key, own in numbers.items()]
    hourly: dict[str, int] = {}
    for customer, count in db.execute("SELECT customer, n FROM hourly;"):
        hourly[customer] = hourly.get(customer, 0) + count
    assert hourly == {key: len(own) for key, own in numbers.items()}
    towns = dict(db.execute("SELECT town, n FROM towns;"))
    placed = [dict(CUSTOMERS).get(f"c{number % 10}") for number in range(orders)]
    assert towns == {town: placed.count(town) for town in ("t0", "t1", "t2")}
    prices = [row[0] for row in db.execute("SELECT item->price AS price FROM orders;")]
    assert sorted(prices) == [Decimal(f"{number}.25") for number in range(orders)]


def test_it_opens_and_goes_on(folder: Path) -> None:
    for orders in (ORDERS, ORDERS + 20):
        with millstream.connect(folder / NAME) as db:
            check(db, orders)
            for number in range(orders, orders + 20):
                db.execute(order(number))
            check(db, orders + 20)
    assert check_database(str(folder / NAME)).well


def test_its_state_is_rebuilt_from_its_changelogs(folder: Path) -> None:
    (folder / f"{NAME}.state").unlink()
    with millstream.connect(folder / NAME) as db:
        check(db, ORDERS)


def test_its_backup_is_restored(folder: Path) -> None:
    if not (folder / BACKUPS).exists():
        pytest.skip("that version had no backups")
    restore(str(folder / BACKUPS), folder / "again.db")
    with millstream.connect(folder / "again.db") as db:
        check(db, ORDERS)


def test_each_format_has_a_file() -> None:
    """A change of the format comes with a file of the one before."""
    names = {file.name for file in STORED}
    assert names >= {f"log-{version}.tar.gz" for version in range(1, tables.VERSION + 1)}


def test_a_file_of_a_later_version_is_refused_with_words(folder: Path) -> None:
    with duckdb.connect(str(folder / NAME)) as connection:
        connection.execute("UPDATE log.about SET version = 99")
    before = (folder / NAME).read_bytes()
    with pytest.raises(UnavailableError, match="has format 99; this version") as refused:
        millstream.connect(folder / NAME)
    assert refused.value.code == "E-VERSION"
    with pytest.raises(MillstreamError, match="has format 99"):
        check_database(str(folder / NAME))
    assert (folder / NAME).read_bytes() == before
