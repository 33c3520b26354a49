"""A processor over several streams: which rows it gets, from where, and in which order."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import millstream
from millstream import Database, EngineSettings, KeyValueStore, Processor, Record, StatementError
from tests.draws import draws

SQL = """
CREATE STREAM debits (account STRING KEY, amount INT)
  WITH (kafka_topic='debits', partitions={n}, value_format='JSON');
CREATE STREAM credits (amount DOUBLE, account STRING KEY, note STRING)
  WITH (kafka_topic='credits', partitions={n}, value_format='JSON');
CREATE STREAM balances AS SELECT * FROM PROCESS(debits, credits, 'Balance');
"""
BASE = 1_700_000_000_000


class Balance(Processor):
    """The balance of an account after each payment, with where it came from."""

    output = "account STRING KEY, balance DOUBLE, source STRING, value STRING, place STRING"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context
        self.balances = context.store("balances", KeyValueStore("STRING", "DOUBLE"))

    def process(self, record: Record) -> None:
        sign = 1 if record.source == "CREDITS" else -1
        balance = self.balances.get(record.key, 0.0) + sign * record.value["AMOUNT"]
        self.balances.put(record.key, balance)
        value = {"BALANCE": balance, "SOURCE": record.source, "VALUE": str(record.value)}
        value["PLACE"] = f"{record.topic} {record.partition} {record.offset}"
        self.context.forward(record.key, value)


def opened(batch: int = 1_000, partitions: int = 1) -> Database:
    db = millstream.connect(
        functions=[millstream.processor(Balance)],
        settings=EngineSettings(max_batch_records=batch),
        properties={"auto.offset.reset": "earliest"},
    )
    db.execute(SQL.format(n=partitions))
    return db


def rows(db: Database, sql: str) -> list[tuple[Any, ...]]:
    return list(db.execute(sql))  # type: ignore[arg-type]


def test_a_record_has_the_columns_of_its_stream() -> None:
    with opened() as db:
        db.insert("debits", [{"account": "a", "amount": 3, "ROWTIME": BASE}])
        db.insert(
            "credits", [{"account": "a", "amount": 5.5, "note": "thanks", "ROWTIME": BASE + 1}]
        )
        db.wait()
        found = rows(db, "SELECT * FROM balances")
    assert found == [
        ("a", -3.0, "DEBITS", "{'AMOUNT': 3}", "debits 0 0"),
        ("a", 2.5, "CREDITS", "{'AMOUNT': 5.5, 'NOTE': 'thanks'}", "credits 0 0"),
    ]


PAYMENTS = st.lists(
    st.tuples(st.sampled_from(["debits", "credits"]), st.sampled_from("abc"), st.integers(1, 9)),
    min_size=1,
    max_size=25,
)


@settings(max_examples=draws(15), deadline=None)
@given(PAYMENTS, st.integers(1, 4))
def test_they_are_in_the_order_of_time_whatever_the_batches(
    payments: list[tuple[str, str, int]], batch: int
) -> None:
    balances: dict[str, float] = {}
    expected = []
    with opened(batch) as db:
        db.execute("PAUSE ALL;")
        for stream in ("credits", "debits"):
            db.insert(
                stream,
                [
                    {"account": account, "amount": amount, "ROWTIME": BASE + at}
                    for at, (into, account, amount) in enumerate(payments)
                    if into == stream
                ],
            )
        db.execute("RESUME ALL;")
        db.wait()
        found = rows(db, "SELECT account, balance FROM balances")
    for stream, account, amount in payments:
        signed = amount if stream == "credits" else -amount
        balances[account] = balances.get(account, 0.0) + signed
        expected.append((account, balances[account]))
    assert found == expected


def test_the_streams_need_as_many_partitions() -> None:
    text = SQL.format(n=2).replace("partitions=2", "partitions=3", 1)
    with (
        millstream.connect(functions=[millstream.processor(Balance)]) as db,
        pytest.raises(StatementError, match="partitions"),
    ):
        db.execute(text)


def test_dropping_one_of_them_is_refused() -> None:
    with opened() as db, pytest.raises(millstream.MillstreamError, match="BALANCES"):
        db.execute("DROP STREAM credits;")


def test_the_statement_is_stored_as_it_was_given() -> None:
    with opened() as db:
        (text,) = [str(row[-1]) for row in rows(db, "SHOW QUERIES;")]
    assert "PROCESS(debits, credits, 'Balance')" in text
