"""Cards that are used in two countries within ten minutes, or that pay three times their average.

python examples/fraud.py
"""

from __future__ import annotations

import datetime as dt

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record

SQL = """
CREATE STREAM payments (card STRING KEY, amount DOUBLE, country STRING)
  WITH (KAFKA_TOPIC='payments', PARTITIONS=4, VALUE_FORMAT='JSON');
CREATE STREAM suspicions AS
  SELECT card, reason, amount FROM PROCESS(payments, 'Fraud') WHERE amount >= 10;
CREATE TABLE suspicious AS
  SELECT card, COUNT(*) AS times, COLLECT_SET(reason) AS reasons FROM suspicions GROUP BY card;
"""
PAYMENTS = [
    (0, "1111", 20.0, "FR"),
    (1, "2222", 30.0, "FR"),
    (2, "1111", 25.0, "FR"),
    (5, "2222", 45.0, "BR"),
    (6, "1111", 15.0, "FR"),
    (9, "1111", 300.0, "FR"),
    (60, "2222", 40.0, "FR"),
]
"""Minute, card, amount and country."""


class Fraud(Processor):
    """A row for each payment that does not look like the card's others."""

    output = "card STRING KEY, reason STRING, amount DOUBLE"

    def init(self, context: ProcessorContext) -> None:
        self._context = context
        kind = "STRUCT<n BIGINT, total DOUBLE, country STRING, last TIMESTAMP>"
        self._cards = context.store("cards", KeyValueStore("STRING", kind))

    def process(self, record: Record) -> None:
        amount, country = record.value["AMOUNT"], record.value["COUNTRY"]
        card = self._cards.get(record.key)
        if card is not None:
            near = record.timestamp - card["LAST"] < dt.timedelta(minutes=10)
            if near and country != card["COUNTRY"]:
                self._suspect(record, f"{card['COUNTRY']} and {country}")
            if card["N"] >= 3 and amount > 3 * card["TOTAL"] / card["N"]:
                self._suspect(record, "more than usual")
        before = card or {"N": 0, "TOTAL": 0.0}
        now = {"N": before["N"] + 1, "TOTAL": before["TOTAL"] + amount}
        self._cards.put(record.key, {**now, "COUNTRY": country, "LAST": record.timestamp})

    def _suspect(self, record: Record, reason: str) -> None:
        self._context.forward(record.key, {"REASON": reason, "AMOUNT": record.value["AMOUNT"]})


FUNCTIONS = [millstream.processor(Fraud)]


def run(database: millstream.Database) -> None:
    """Send the payments, and print the table of suspicious cards."""
    database.execute(SQL)
    columns = ["ROWTIME", "card", "amount", "country"]
    rows = [(minute * 60_000, *payment) for minute, *payment in PAYMENTS]
    database.insert("payments", rows, columns=columns)
    database.wait()
    print(*sorted(database.table("suspicious").fetchall()), sep="\n")


if __name__ == "__main__":
    with millstream.connect(functions=FUNCTIONS) as opened:
        run(opened)
