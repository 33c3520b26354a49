"""The computed and the actual partitions of the rows of a key."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database
from millstream.catalog.source import Source
from millstream.cluster.key_routing import partitions_of_keys
from millstream.cluster.scatter_gather import materialized_table

SCRIPT = """
CREATE STREAM plays (who STRING KEY, song BIGINT, mood STRING, loud DOUBLE)
  WITH (KAFKA_TOPIC='plays', PARTITIONS=5, FORMAT='JSON');
CREATE STREAM by_song AS SELECT song, who, mood FROM plays PARTITION BY song EMIT CHANGES;
CREATE TABLE songs AS SELECT song AS number, COUNT(*) AS n FROM plays GROUP BY song EMIT CHANGES;
CREATE TABLE moods AS SELECT UCASE(mood) AS mood, COUNT(*) AS n FROM plays GROUP BY UCASE(mood)
  HAVING COUNT(*) > 0 EMIT CHANGES;
CREATE TABLE pairs AS SELECT mood, song AS s, COUNT(*) AS n FROM plays GROUP BY song, mood
  EMIT CHANGES;
CREATE TABLE windows_ AS SELECT song, COUNT(*) AS n FROM plays WINDOW TUMBLING (SIZE 1 HOUR)
  GROUP BY song EMIT CHANGES;
CREATE TABLE again AS SELECT song, COUNT(*) AS n FROM by_song GROUP BY song EMIT CHANGES;
CREATE TABLE copied AS SELECT * FROM songs WHERE n > 0 EMIT CHANGES;
CREATE TABLE regrouped AS SELECT n, COUNT(*) AS songs FROM songs GROUP BY n EMIT CHANGES;
CREATE TABLE listeners AS SELECT who, COUNT(*) AS n FROM plays GROUP BY who EMIT CHANGES;
CREATE TABLE joined AS SELECT a.number AS number, b.n AS n FROM songs a
  JOIN again b ON a.number = b.song EMIT CHANGES;
"""


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as opened:
        opened.execute(SCRIPT)
        for i in range(30):
            values = f"'p{i % 7}', {i % 11 * 1_000_003}, 'mood{i % 13}', {i % 3}.5"
            opened.execute(f"INSERT INTO plays VALUES ({values});")
        opened.wait()
        yield opened


def placed(db: Database, name: str) -> tuple[list[tuple[int, set[int] | None]], int]:
    """For each row its actual and its computed partition, and the partition count."""
    engine = db.engine
    source = engine.catalog.source(name)
    table = materialized_table(source, engine.cluster)
    columns = [column.name for column in source.schema.key]
    listed = ", ".join(f'"{column}"' for column in columns)
    cursor = engine.store.cursor()
    rows = cursor.sql(f'SELECT "$part", {listed} FROM ({table.view.text})').fetchall()

    def own(read: Source) -> bool:
        return engine.catalog.source(read.name).query_id is not None

    found = [
        (part, partitions_of_keys(table.sub, columns, [tuple(key)], cursor, own))
        for part, *key in rows
    ]
    cursor.close()
    return [(part, None if said is None else set(said)) for part, said in found], len(rows)


@pytest.mark.parametrize(
    "name", ["SONGS", "MOODS", "PAIRS", "WINDOWS_", "AGAIN", "COPIED", "REGROUPED"]
)
def test_rows_lie_where_they_are_said_to(db: Database, name: str) -> None:
    found, count = placed(db, name)
    assert count > 1
    assert [said for _, said in found] == [{part} for part, _ in found]


@pytest.mark.parametrize("name", ["LISTENERS", "JOINED"])
def test_it_is_not_said_where_others_decide(db: Database, name: str) -> None:
    found, count = placed(db, name)
    assert count > 1
    assert {said for _, said in found} == {None}
