"""A processor whose past is a job's: the rows are those of one that has met every record."""

from __future__ import annotations

import datetime as dt

import pytest

import millstream
from millstream import KeyValueStore, Processor, ProcessorContext, Record
from tests.unit.queries.test_backfilling import live_and_filled

QUERIES = {
    "stream": "CREATE STREAM o {} AS SELECT * FROM PROCESS(orders, 'Running');",
    "rows that move": "CREATE TABLE o {} AS SELECT n, COUNT(*) AS times, MAX(total) AS most"
    " FROM PROCESS(orders, 'Running') GROUP BY n;",
}


class Running(Processor):
    """Number and total of each customer's orders, and one row of all each five seconds."""

    output = "customer STRING KEY, n BIGINT, total DOUBLE"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.totals = context.store("totals", KeyValueStore("STRING", "ARRAY<DOUBLE>"))
        context.schedule(dt.timedelta(seconds=5), millstream.STREAM_TIME, self.report)

    def process(self, record: Record) -> None:
        amounts = [*self.totals.get(record.key, []), record.value["AMOUNT"]]
        self.totals.put(record.key, amounts)
        self.context.forward(record.key, {"N": len(amounts), "TOTAL": sum(amounts)})

    def report(self, time: dt.datetime) -> None:
        for customer, amounts in self.totals.range():
            if len(amounts) > 3:
                self.context.forward(customer, {"N": -1, "TOTAL": sum(amounts)})
                self.totals.delete(customer)


@pytest.mark.parametrize("query", QUERIES)
def test_it_goes_on_as_if_it_had_met_every_record(query: str) -> None:
    live, filled = live_and_filled(QUERIES[query], [millstream.processor(Running)])
    assert filled == live
    assert len(live) > 4
