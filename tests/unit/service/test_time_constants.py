"""A text that is compared with a time in a pull query has to be one: else its answer is empty."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database, StatementError

MADE = """
CREATE TABLE p (id INT PRIMARY KEY, moment TIMESTAMP, d DATE, t TIME)
  WITH (kafka_topic='p', format='JSON', partitions=1);
CREATE TABLE q AS SELECT * FROM p;
INSERT INTO p VALUES (1, '2024-01-02T03:04:05', '2024-01-02', '03:04:05');
"""


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with millstream.connect() as database:
        database.execute(MADE)
        database.wait()
        yield database


@pytest.mark.parametrize(
    "where",
    [
        *("moment <= '2025-01-01'", "moment = '2024-01-02T03:04:05.000'", "d < '2024-01-03'"),
        *("t BETWEEN '03:04' AND '04:00'", "d IN ('2024-01-02', '2024-01-05')", "moment > d"),
        *("'2024-01-01' < moment", "d IS DISTINCT FROM '2020-01-01'"),
    ],
)
def test_what_is_a_time_is_compared(db: Database, where: str) -> None:
    assert db.execute(f"SELECT id FROM q WHERE {where};").fetchall() == [(1,)]


@pytest.mark.parametrize(
    ("where", "told"),
    [
        ("moment <= '2025-01-01 00:00:00'", "'2025-01-01 00:00:00' is no TIMESTAMP"),
        ("moment <= 'soon' OR id = 1", "'soon' is no TIMESTAMP"),
        ("d = '2024-02-30'", "'2024-02-30' is no DATE"),
        ("t BETWEEN '03:04' AND '25:00'", "'25:00' is no TIME"),
    ],
)
def test_what_is_none_is_refused(db: Database, where: str, told: str) -> None:
    for source in ("q", "q AS OF TIMESTAMP '2020-01-01'"):
        with pytest.raises(StatementError, match=told):
            db.execute(f"SELECT id FROM {source} WHERE {where};").fetchall()
