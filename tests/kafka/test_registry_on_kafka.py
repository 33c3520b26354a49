"""Formats of a schema registry on Kafka, with a registry of the tests and with a real one."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pytest

import millstream
from millstream import Database, StatementError
from tests.other_registry import OtherRegistry, served

FORMS = ("AVRO", "PROTOBUF", "JSON_SR")
ROWS = [
    ("a", 1, Decimal("1.50"), ["x", "y"], {"TOWN": "Bern", "ZIP": 3000}),
    ("b", 2, Decimal("-7.00"), [], {"TOWN": "Graz", "ZIP": 8000}),
    ("a", 3, Decimal("0.00"), ["z"], {"TOWN": "", "ZIP": 0}),
]


@pytest.fixture(params=["of the tests", "Apicurio"])
def registry(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a registry."""
    if request.param == "Apicurio":
        url = os.environ.get("MILLSTREAM_REGISTRY")
        if not url:
            pytest.skip("no registry: run `make kafka`, or set MILLSTREAM_REGISTRY=url")
        yield url
    else:
        with served(OtherRegistry()) as url:
            yield url


def opened(servers: str, service: str, registry: str | None) -> Database:
    return millstream.connect(
        kafka=servers,
        service_id=service,
        schema_registry=registry,
        properties={"auto.offset.reset": "earliest"},
    )


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


@pytest.mark.parametrize("form", FORMS)
def test_streams_and_tables_in_each_format(servers: str, registry: str, form: str) -> None:
    name = f"registered{uuid.uuid4().hex[:8]}"
    names = ("id", "n", "price", "tags", "lives")
    data = [dict(zip(names, row, strict=True)) for row in ROWS]
    with opened(servers, name, registry) as db:
        db.execute(
            "CREATE STREAM orders (id STRING KEY, n INT, price DECIMAL(6, 2), tags ARRAY<STRING>,"
            f" lives STRUCT<town STRING, zip INT>) WITH (KAFKA_TOPIC='{name}', PARTITIONS=2,"
            f" VALUE_FORMAT='{form}');"
            f"CREATE TABLE counted WITH (KAFKA_TOPIC='{name}-counted') AS SELECT lives->town AS"
            " town, COUNT(*) AS times, SUM(n) AS total FROM orders GROUP BY lives->town;"
        )
        db.insert("orders", data[:2])
        db.wait()
    with opened(servers, name, registry) as db:
        db.insert("orders", data[2:])
        db.wait()
        assert sorted(rows(db, "SELECT * FROM counted")) == [
            ("", 1, 3),
            ("Bern", 1, 1),
            ("Graz", 1, 2),
        ]
    with opened(servers, f"{name}-other", registry) as db:
        db.execute(
            f"CREATE STREAM theirs (id STRING KEY) WITH (KAFKA_TOPIC='{name}',"
            f" VALUE_FORMAT='{form}');"
        )
        found = rows(db, "SELECT id, n, price, tags, lives->town, lives->zip FROM theirs")
        assert sorted(found, key=str) == sorted(
            ((*row[:4], row[4]["TOWN"], row[4]["ZIP"]) for row in ROWS), key=str
        )


def test_without_a_registry_they_are_refused(servers: str) -> None:
    with opened(servers, f"none{uuid.uuid4().hex[:8]}", None) as db:
        for form in FORMS:
            with pytest.raises(StatementError, match="Schema Registry, which is not configured"):
                db.execute(
                    f"CREATE STREAM s (n INT) WITH (KAFKA_TOPIC='s', PARTITIONS=1,"
                    f" VALUE_FORMAT='{form}');"
                )
