"""A database as a version writes it to disk, for later versions to open.

    python -m tests.stored.content NAME

writes `tests/stored/NAME.tar.gz`, once for each format: a file that is there is never written
again, for a version that exists has written it. docs/upgrading.md says when there is a new one.
"""

from __future__ import annotations

import sys
import tarfile
import tempfile
from pathlib import Path

import millstream

HERE = Path(__file__).parent
NAME = "shop.db"
BACKUPS = "backups"
SCRIPT = """
CREATE STREAM orders (customer STRING KEY, item STRUCT<name STRING, price DECIMAL(9, 2)>, n INT)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=2, FORMAT='JSON');
CREATE TABLE customers (id STRING PRIMARY KEY, town STRING)
  WITH (KAFKA_TOPIC='customers', PARTITIONS=2, FORMAT='JSON');
SET 'auto.offset.reset' = 'earliest';
CREATE TABLE spent AS SELECT customer, SUM(n) AS n, LATEST_BY_OFFSET(item->name) AS last
  FROM orders GROUP BY customer EMIT CHANGES;
CREATE TABLE hourly AS SELECT customer, COUNT(*) AS n FROM orders WINDOW TUMBLING (SIZE 1 HOUR)
  GROUP BY customer EMIT CHANGES;
CREATE STREAM placed AS SELECT o.customer, o.n, c.town FROM orders o
  LEFT JOIN customers c ON o.customer = c.id EMIT CHANGES;
CREATE TABLE towns AS SELECT town, COUNT(*) AS n FROM placed WHERE town IS NOT NULL
  GROUP BY town EMIT CHANGES;
"""
CUSTOMERS = [(f"c{number}", f"t{number % 3}") for number in range(8)]
ORDERS = 100


def order(number: int) -> str:
    """The statement that places an order."""
    return (
        f"INSERT INTO orders (ROWTIME, customer, item, n) VALUES ({number * 60_000 + 1},"
        f" 'c{number % 10}', STRUCT(name := 'i{number % 7}', price := {number}.25), {number});"
    )


def write(folder: Path) -> None:
    """Make the database, and a backup where this version can."""
    with millstream.connect(folder / NAME) as db:
        db.execute(SCRIPT)
        for customer in CUSTOMERS:
            db.execute(f"INSERT INTO customers VALUES {customer};")
        db.wait()
        for number in range(ORDERS):
            db.execute(order(number))
        db.wait()
        if hasattr(db, "backup"):
            db.backup(str(folder / BACKUPS))


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without who has written it, and when."""
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def main() -> None:
    """Write the file of one name."""
    target = HERE / f"{sys.argv[1]}.tar.gz"
    with tempfile.TemporaryDirectory() as folder, tarfile.open(target, "x:gz") as archive:
        write(Path(folder))
        for file in sorted(Path(folder).iterdir()):
            archive.add(file, file.name, filter=_plain)


if __name__ == "__main__":
    main()
