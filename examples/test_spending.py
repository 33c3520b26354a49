"""Tests of a small application with pytest: copy this file, and put your statements into it.

pytest examples/test_spending.py
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from millstream import StatementError
from millstream.testing import TopologyTestDriver, Window

if TYPE_CHECKING:
    from pytest_millstream import DriverFunction

SQL = """
CREATE STREAM orders (customer STRING KEY, amount DECIMAL(9, 2))
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
CREATE STREAM refused AS SELECT * FROM orders WHERE amount <= 0;
CREATE TABLE spending AS
  SELECT customer, COUNT(*) AS orders, SUM(amount) AS total
  FROM orders WINDOW TUMBLING (SIZE 1 HOUR, GRACE PERIOD 0 SECONDS)
  WHERE amount > 0 GROUP BY customer EMIT FINAL;
"""
NOON = datetime(2024, 2, 29, 12, tzinfo=UTC)


@pytest.fixture
def driver(ms_driver: DriverFunction) -> TopologyTestDriver:
    return ms_driver(SQL, properties={"idle.window.close.ms": 60_000}, start=NOON)


def test_an_hour_is_complete_when_the_next_one_begins(driver: TopologyTestDriver) -> None:
    orders = driver.input("orders", start=NOON, advance=timedelta(minutes=25))
    orders.pipe([{"amount": "12.50"}, {"amount": 7}, {"amount": 1}], key="ann")
    assert driver.read("spending") == []
    orders.pipe({"amount": 2}, key="bob")
    (record,) = driver.read("spending")
    assert record.key == "ann"
    assert record.row is not None and float(record.row["TOTAL"]) == 20.5
    start = int(NOON.timestamp() * 1000)
    assert record.window == Window(start, start + 3_600_000)


def test_an_hour_is_complete_after_a_minute_without_orders(driver: TopologyTestDriver) -> None:
    driver.pipe("orders", {"amount": 5}, key="ann")
    driver.advance_wall_clock(timedelta(seconds=59))
    assert driver.read("spending") == []
    driver.advance_wall_clock(timedelta(seconds=1))
    assert [record.key for record in driver.read("spending")] == ["ann"]


def test_orders_without_an_amount_are_refused(driver: TopologyTestDriver) -> None:
    driver.pipe("orders", {"amount": 0}, key="ann")
    assert driver.output("refused").read_key_value()[0] == "ann"
    with pytest.raises(StatementError, match="Expected type DECIMAL"):
        driver.pipe("orders", {"amount": True}, key="ann")


def test_a_record_that_is_no_json_is_logged(driver: TopologyTestDriver) -> None:
    driver.pipe("orders", b"no JSON", key=b"ann")
    assert {entry["kind"] for entry in driver.processing_log()} == {"DESERIALIZATION"}
    assert driver.read("refused") == []
