"""Records that cannot be read are no rows of history on Spark, as they are none live."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

import millstream
from millstream import Database, History
from millstream.history.session import available
from millstream.model.settings import EngineSettings
from tests.bad_records import STREAMS, TABLES, BadRecords
from tests.spark.java import QUICK

if not available() and not os.environ.get("MILLSTREAM_REQUIRE_SPARK"):
    pytest.skip("Spark needs PySpark and Java: see docs/history.md", allow_module_level=True)

TIMES = 12
AS_TABLES = [replace(source, name=f"{source.name}_table") for source in TABLES]


@pytest.fixture(scope="module")
def db() -> Iterator[Database]:
    settings = EngineSettings(spark_master="local[2]", spark_options=QUICK)
    properties = {"auto.offset.reset": "earliest"}
    with millstream.connect(settings=settings, properties=properties) as made:
        for kind, sources in (("STREAM", STREAMS), ("TABLE", AS_TABLES)):
            for source in sources:
                made.execute(source.create(kind))
                if source.key_format:
                    made.execute("UNSET 'ksql.persistence.default.format.key';")
                source.send(made, TIMES)
        yield made


def ask(db: Database, backend: str, sql: str) -> list[tuple[object, ...]]:
    db.execute(f"SET 'millstream.history.backend' = '{backend}';")
    found = db.execute(sql)
    assert isinstance(found, History)
    return sorted(found.fetchall(), key=repr)


@pytest.mark.parametrize("source", STREAMS, ids=lambda source: source.name)
def test_streams(db: Database, source: BadRecords) -> None:
    columns = [part.split()[0] for part in source.columns.split(", ")]
    usable = sorted(((at,) for at in source.usable(TIMES)), key=repr)
    assert ask(db, "spark", f"SELECT ROWTIME AS o FROM {source.name};") == usable
    counts = ", ".join(f"COUNT({column})" for column in columns)
    counted = f"SELECT COUNT(*) AS n, {counts} FROM {source.name};"
    found = ask(db, "spark", counted)
    assert found == ask(db, "duckdb", counted) and found[0][0] == len(usable)
    rows = f"SELECT * FROM {source.name};"
    assert ask(db, "spark", rows) == ask(db, "duckdb", rows)


@pytest.mark.parametrize("source", AS_TABLES, ids=lambda source: source.name)
def test_tables(db: Database, source: BadRecords) -> None:
    rows = f"SELECT * FROM {source.name} AS OF TIMESTAMP 100000;"
    found = ask(db, "spark", rows)
    assert found and found == ask(db, "duckdb", rows)
