"""Rows that are inserted as objects of classes with fields."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pydantic
import pytest

import millstream
from millstream import Database, History, MillstreamError


@dataclass
class Home:
    town: str
    zip: int | None = None


class Address(pydantic.BaseModel):
    town: str
    zip: int | None


@dataclass
class Order:
    id: int
    customer: str
    amount: float | None = None
    home: Home | None = None


class Model(pydantic.BaseModel):
    id: int
    customer: str
    amount: float | None = None
    home: Address | None = None


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect() as db:
        db.execute(
            "CREATE STREAM orders (id INT KEY, customer STRING, amount DOUBLE,"
            " home STRUCT<town STRING, zip INT>)"
            " WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');"
        )
        yield db


def test_rows_are_inserted_as_objects(db: Database) -> None:
    db.insert("orders", [Order(10, "eve", 1.5, Home("Ulm", 5)), Order(11, "fay")])
    db.insert("orders", [Model(id=12, customer="gus", home=Address(town="Bonn", zip=None))])
    with db.append("orders") as appender:
        appender.add(Order(13, "hal"))
    found = db.execute("SELECT id, customer, amount, home->town FROM orders;")
    assert isinstance(found, History)
    assert sorted(found.fetchall()) == [
        (10, "eve", 1.5, "Ulm"),
        (11, "fay", None, None),
        (12, "gus", None, "Bonn"),
        (13, "hal", None, None),
    ]
    with pytest.raises(MillstreamError, match=r"dataclasses|tuples"):
        db.insert("orders", [object()])
    with pytest.raises(MillstreamError):
        db.insert("orders", [Order(14, "ida"), 7])  # type: ignore[list-item]
    with pytest.raises(MillstreamError):
        db.insert("orders", [Order(15, "jon"), (16, "kay")])
