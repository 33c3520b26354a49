"""What a newcomer types wrongly on the first day, and what is answered.

    python -m tests.sql.first_day      # rewrites errors/first_day.txt; review the diff

Each block of the file is a statement, the message behind `    ` and the hint behind `    => `. The
line of the message that repeats the statement is left out.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import millstream
from millstream.model.errors import MillstreamError
from millstream.query.session import Session

FILE = Path(__file__).parent / "errors" / "first_day.txt"
SETUP = """
CREATE STREAM orders (
    id STRING KEY, customer STRING, amount DOUBLE, item STRUCT<sku STRING, qty INT>,
    tags ARRAY<STRING>, moment TIMESTAMP
  ) WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');
CREATE TABLE users (id STRING PRIMARY KEY, name STRING, region STRING)
  WITH (KAFKA_TOPIC='users', PARTITIONS=2, VALUE_FORMAT='JSON');
"""
_INDENT = "    "
_HINT = "    => "


def blocks() -> Iterator[tuple[str, str]]:
    """Each statement with its answer, as they stand in the file."""
    for block in FILE.read_text(encoding="utf-8").strip().split("\n\n"):
        lines = block.split("\n")
        count = next(at for at, line in enumerate([*lines, _INDENT]) if line.startswith(_INDENT))
        yield "\n".join(lines[:count]), "\n".join(lines[count:])


def told(error: MillstreamError) -> str:
    """The message and the hint of an error, as they stand in the file."""
    lines = [line for line in error.message.split("\n") if not line.startswith("Statement: ")]
    message = [_INDENT + line for line in lines if line]
    return "\n".join([*message, *([_HINT + error.hint] if error.hint else [])])


def answer(database: millstream.Database, statement: str) -> str:
    """What a session of its own is answered; "" if the statement succeeds."""
    try:
        found = millstream.Database(database.engine, Session()).execute(statement)
    except MillstreamError as error:
        return told(error)
    close = getattr(found, "close", None)
    if close is not None:
        close()
    return ""


def main() -> int:
    """Rewrite the file."""
    with millstream.connect() as database:
        database.execute(SETUP)
        found = [f"{statement}\n{answer(database, statement)}" for statement, _ in blocks()]
    FILE.write_text("\n\n".join(found) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
