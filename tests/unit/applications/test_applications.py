"""Topologies of processors that run: their rows, state and edits, and what is refused."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import millstream
from millstream import (
    AsyncContext,
    AsyncProcessor,
    BatchContext,
    BatchProcessor,
    ConflictError,
    Database,
    EngineSettings,
    KeyValueStore,
    MillstreamError,
    Processor,
    ProcessorContext,
    Record,
    StatementError,
    Topology,
)
from millstream.runtime.spec import QueryState
from millstream.service.chain_connection import ChainConnection
from millstream.testing import TopologyTestDriver
from millstream_parser.statements import CreateAs

BASE = 1_700_000_000_000
CHECKED = {
    "count": "customer STRING KEY, amount DOUBLE",
    "alerts": "customer STRING KEY, amount DOUBLE, total DOUBLE",
}
Rows = list[tuple[Any, ...]]


class Check(Processor):
    """Orders of 100 and more are alerts; each order is counted for its customer."""

    output = CHECKED

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.totals = context.store("totals", KeyValueStore("STRING", "DOUBLE"))

    def process(self, record: Record) -> None:
        amount = record.value["AMOUNT"]
        total = self.totals.get(record.key, 0.0) + amount
        self.totals.put(record.key, total)
        self.context.forward(record.key, {"AMOUNT": amount}, to="count")
        if amount >= 100:
            self.context.forward(record.key, {"AMOUNT": amount, "TOTAL": total}, to="alerts")


class Rated(AsyncProcessor):
    """Each order with what a service says of it, and how many the customer has had."""

    output = "customer STRING KEY, amount DOUBLE, rate INT, n BIGINT"
    concurrency = 50

    async def init(self, context: AsyncContext) -> None:
        self.context = context
        self.counts = context.store("counts", KeyValueStore("STRING", "BIGINT"))

    async def process(self, record: Record) -> None:
        await asyncio.sleep(0)
        count = self.counts.get(record.key, 0) + 1
        self.counts.put(record.key, count)
        amount = record.value["AMOUNT"]
        self.context.forward(record.key, {"AMOUNT": amount, "RATE": int(amount) % 7, "N": count})


class Rounded(BatchProcessor):
    """The rows with whole amounts."""

    output = "customer STRING KEY, amount DOUBLE"

    def init(self, context: BatchContext) -> None:
        self.context = context

    def process(self, batch: pa.RecordBatch) -> None:
        amounts = pc.round(batch["AMOUNT"])
        self.context.forward({"CUSTOMER": batch["CUSTOMER"], "AMOUNT": amounts})


class Count(Processor):
    """The number of rows of each key."""

    output = "customer STRING KEY, n BIGINT"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.counts = context.store("counts", KeyValueStore("STRING", "BIGINT"))

    def process(self, record: Record) -> None:
        n = self.counts.get(record.key, 0) + 1
        self.counts.put(record.key, n)
        self.context.forward(record.key, {"N": n})


def spending() -> Topology:
    return (
        Topology()
        .add_source("orders", "orders", key="customer STRING", value="amount DOUBLE", partitions=2)
        .add_processor("check", Check, "orders")
        .add_processor("count", Count, "check")
        .add_sink("alerts", "alerts", "check")
        .add_sink("counts", "counts", "count")
    )


def opened(
    path: str = ":memory:", topology: Topology | None = None, batch: int = 1_000
) -> Database:
    return millstream.connect(
        path,
        functions=() if topology is None else topology.processors("spending"),
        settings=EngineSettings(max_batch_records=batch),
        properties={
            "auto.offset.reset": "earliest",
            "processing.guarantee": "exactly_once_v2",
        },
    )


def order(db: Database, *orders: tuple[str, float]) -> None:
    rows = [
        {"customer": customer, "amount": amount, "ROWTIME": BASE + at}
        for at, (customer, amount) in enumerate(orders)
    ]
    db.insert("orders", rows)
    db.wait()


def rows(db: Database, sql: str) -> Rows:
    return list(db.execute(sql))  # type: ignore[arg-type]


@pytest.mark.parametrize("batch", [1, 2, 1_000])
def test_rows_go_to_the_children_that_they_are_for(batch: int) -> None:
    with opened(batch=batch) as db:
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 50), ("bob", 120), ("ann", 200), ("ann", 1))
        alerts = sorted(rows(db, "SELECT * FROM alerts"))
        counts = sorted(rows(db, "SELECT * FROM counts"))
        held = [sorted(rows(db, f"SELECT * FROM {store}")) for store in application.stores]
        assert len(application.queries) == 3
    assert alerts == [("ann", 200.0, 250.0), ("bob", 120.0, 120.0)]
    assert counts == [("ann", 1), ("ann", 2), ("ann", 3), ("bob", 1)]
    assert held == [[("ann", 251.0), ("bob", 120.0)], [("ann", 3), ("bob", 1)]]


def test_one_sink_needs_no_stream_between() -> None:
    topology = (
        Topology()
        .add_source("orders", "orders", key="customer STRING", value="amount DOUBLE", partitions=1)
        .add_processor("count", Count, "orders")
        .add_sink("counts", "counts", "count", partitions=3)
    )
    with opened() as db:
        application = db.deploy(topology, "counting")
        assert application.streams == ("ORDERS", "COUNTS")
        order(db, ("ann", 1), ("ann", 1))
        assert rows(db, "SELECT * FROM counts") == [("ann", 1), ("ann", 2)]


class Slow(Processor):
    """Rows of a table made by SQL, and an alert by time."""

    output = "customer STRING KEY, seen TIMESTAMP"

    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.last = context.store("last")
        context.schedule(dt.timedelta(seconds=1), millstream.STREAM_TIME, self.look)

    def process(self, record: Record) -> None:
        raise AssertionError("it gets nothing")

    def look(self, time: dt.datetime) -> None:
        for customer, seen in self.last.range():
            self.context.forward(customer, {"SEEN": seen}, timestamp=seen)


class Last(Processor):
    output = "nothing INT"

    def init(self, context: ProcessorContext) -> None:
        self.last = context.store("last")

    def process(self, record: Record) -> None:
        assert record.source == "orders"
        self.last.put(record.key, record.timestamp)


def test_processors_can_share_a_store() -> None:
    topology = (
        Topology()
        .add_source("orders", "orders", key="customer STRING", value="amount DOUBLE", partitions=1)
        .add_source("nobody", "nobody", value="x INT", partitions=1)
        .add_processor("last", Last, "orders")
        .add_processor("slow", Slow, "nobody")
        .add_sink("seen", "seen", "slow")
        .add_store("last", KeyValueStore("STRING", "TIMESTAMP"), "last", "slow")
    )
    with opened() as db:
        application = db.deploy(topology, "sharing")
        assert len(application.queries) == 1, "the store connects them"
        db.insert(
            "orders",
            [
                {"customer": "a", "amount": 1, "ROWTIME": 1_000},
                {"customer": "b", "amount": 1, "ROWTIME": 1_500},
                {"customer": "c", "amount": 1, "ROWTIME": 2_400},
            ],
        )
        db.wait()
        at = [(c, str(t)[17:]) for c, t in rows(db, "SELECT customer, seen FROM seen")]
    assert at == [("a", "01"), ("b", "01.500000"), ("c", "02.400000")]


def test_a_source_can_read_the_topic_of_a_sink() -> None:
    topology = (
        spending()
        .add_source("moved", "counts")
        .add_processor("again", Count, "moved")
        .add_sink("again_out", "again", "again")
    )
    with opened() as db:
        application = db.deploy(topology, "spending")
        order(db, ("ann", 1), ("ann", 1))
        assert sorted(rows(db, "SELECT * FROM again_out")) == [("ann", 1), ("ann", 2)]
        assert len(application.queries) == 4


def test_it_reads_and_is_read_by_sql() -> None:
    topology = (
        Topology()
        .add_source("large", "large")
        .add_processor("count", Count, "large")
        .add_sink("counted", "counted", "count")
    )
    with opened() as db:
        db.execute(
            "CREATE STREAM orders (customer STRING KEY, amount DOUBLE)"
            " WITH (kafka_topic='orders', partitions=2, value_format='JSON');"
            "CREATE STREAM large AS SELECT * FROM orders WHERE amount > 10;"
        )
        db.deploy(topology, "reading")
        db.execute(
            "CREATE TABLE most AS SELECT customer, MAX(n) AS n FROM counted GROUP BY customer;"
        )
        order(db, ("ann", 11), ("ann", 1), ("ann", 12), ("bob", 13))
        assert sorted(rows(db, "SELECT * FROM most")) == [("ann", 2), ("bob", 1)]


def test_it_goes_on_when_the_database_is_opened_again(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with opened(path) as db:
        db.deploy(spending(), "spending")
        order(db, ("ann", 60), ("bob", 1))
    with opened(path, spending()) as db:
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 100))
        assert rows(db, "SELECT * FROM alerts") == [("ann", 100.0, 160.0)]
        assert len(application.queries) == 3


def test_another_topology_does_not_take_the_place_of_the_one_that_runs() -> None:
    other = spending().replace_processor("count", Check)
    with opened() as db:
        db.deploy(spending(), "spending")
        with pytest.raises(MillstreamError, match="count"):
            db.deploy(other, "spending")
        with pytest.raises(ConflictError, match="ALERTS already"):
            db.deploy(spending(), "twice")
        order(db, ("ann", 100))
        assert rows(db, "SELECT * FROM alerts") == [("ann", 100.0, 100.0)]


def test_what_fails_on_the_way_leaves_nothing() -> None:
    topology = spending().add_source("no", "no_such_stream").add_processor("x", Count, "no")
    with opened() as db:
        with pytest.raises(MillstreamError, match="NO_SUCH_STREAM"):
            db.deploy(topology, "spending")
        assert not db.engine.catalog.queries
        assert db.engine.catalog.find("ORDERS") is None
        db.deploy(spending(), "spending")


class Better(Check):
    """As Check, and from 50 on."""

    def process(self, record: Record) -> None:
        amount = record.value["AMOUNT"]
        total = self.totals.get(record.key, 0.0) + amount
        self.totals.put(record.key, total)
        if amount >= 50:
            self.context.forward(record.key, {"AMOUNT": amount, "TOTAL": total}, to="alerts")
        self.context.forward(record.key, {"AMOUNT": amount}, to="count")


class Remembering(Better):
    """With a further store."""

    def init(self, context: ProcessorContext) -> None:
        super().init(context)
        self.more = context.store("more", KeyValueStore("STRING", "BIGINT"))

    def process(self, record: Record) -> None:
        self.more.put(record.key, self.more.get(record.key, 0) + 1)
        super().process(record)


def test_an_edit_keeps_the_state(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with opened(path) as db:
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 60), ("bob", 60))
        application.edit(lambda t: t.replace_processor("check", Better))
        order(db, ("ann", 60))
        application.edit(lambda t: t.replace_processor("check", Remembering))
        order(db, ("ann", 60))
        edited = application.topology
        alerts = [("ann", 60.0, 120.0), ("ann", 60.0, 180.0)]
        assert rows(db, "SELECT * FROM alerts") == alerts
    with opened(path, edited) as db:
        db.deploy(edited, "spending")
        order(db, ("bob", 70))
        assert sorted(rows(db, "SELECT * FROM alerts")) == [*alerts, ("bob", 70.0, 130.0)]
        assert ("ann", 3) in rows(db, "SELECT * FROM counts")


def test_a_sink_is_added_while_it_runs(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with opened(path) as db:
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 60), ("bob", 60))
        application.edit(lambda t: t.add_sink("more", "more_topic", "count"))
        order(db, ("ann", 60))
        assert rows(db, "SELECT * FROM more") == [("ann", 2)]
        edited = application.topology
    with opened(path, edited) as db:
        application = db.deploy(edited, "spending")
        order(db, ("bob", 60))
        assert sorted(rows(db, "SELECT * FROM more")) == [("ann", 2), ("bob", 2)]
        assert len(rows(db, "SELECT * FROM counts")) == 4
        application.drop(delete_topics=True)
        assert "MORE" not in db.engine.catalog.sources


def test_a_sink_has_all_rows_whatever_the_session_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its query begins later than the one that writes the rows of all sinks."""
    with opened() as db:
        db.execute("SET 'auto.offset.reset' = 'latest';")
        execute = ChainConnection.execute

        def slowly(self: ChainConnection, statement: Any, **options: Any) -> Any:
            if isinstance(statement, CreateAs) and statement.name == "ALERTS":
                order(db, ("ann", 100))
            return execute(self, statement, **options)

        monkeypatch.setattr(ChainConnection, "execute", slowly)
        db.deploy(spending(), "spending")
        db.wait()
        assert rows(db, "SELECT * FROM alerts") == [("ann", 100.0, 100.0)]


def test_what_a_dropped_application_has_written_is_not_written_again() -> None:
    with opened() as db:
        db.execute("SET 'auto.offset.reset' = 'latest';")
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 100))
        application.drop()
        db.deploy(spending(), "spending")
        order(db, ("bob", 100))
        assert sorted(rows(db, "SELECT * FROM alerts")) == [
            *(("ann", 100.0, 100.0), ("bob", 100.0, 100.0)),
        ]


class Forgetting(Check):
    def init(self, context: ProcessorContext) -> None:
        self.context = context


class Retyped(Check):
    def init(self, context: ProcessorContext) -> None:
        self.context = context
        self.totals = context.store("totals", KeyValueStore("STRING", "BIGINT"))


class Wider(Count):
    output = "customer STRING KEY, n BIGINT, more INT"


EDITS = {
    "a store that vanishes": lambda t: t.replace_processor("check", Forgetting),
    "a store of another type": lambda t: t.replace_processor("check", Retyped),
    "other columns": lambda t: t.replace_processor("count", Wider),
    "a sink whose name is taken": lambda t: t.add_sink("spending_forwarded", "more", "count"),
    "a further source": lambda t: t.add_source("x", "orders").add_processor("y", Count, "x"),
}


@pytest.mark.parametrize("edit", EDITS)
def test_edits_that_are_refused_leave_it_running(edit: str) -> None:
    with opened() as db:
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 60))
        with pytest.raises(MillstreamError):
            application.edit(EDITS[edit])
        order(db, ("ann", 100))
        assert {status.state for status in db.engine.statuses()} == {QueryState.RUNNING}
        assert rows(db, "SELECT * FROM alerts") == [("ann", 100.0, 160.0)]
        assert application.topology.describe() == spending().describe()


def test_pause_and_resume() -> None:
    with opened() as db:
        application = db.deploy(spending(), "spending")
        application.pause()
        order(db, ("ann", 100))
        assert rows(db, "SELECT * FROM alerts") == []
        application.resume()
        db.wait()
        assert rows(db, "SELECT * FROM alerts") == [("ann", 100.0, 100.0)]


def test_the_last_rows_of_each_node() -> None:
    with opened() as db:
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 60), ("bob", 100), ("ann", 1))
        assert [(p.key, p.value) for p in application.peek("orders", 2)] == [
            ("bob", {"AMOUNT": 100.0}),
            ("ann", {"AMOUNT": 1.0}),
        ]
        assert [p.value for p in application.peek("counts")] == [{"N": 1}, {"N": 1}, {"N": 2}]
        assert [p.timestamp_ms for p in application.peek("alerts")] == [BASE + 1]
        with pytest.raises(StatementError, match="no node alert"):
            application.peek("alert")
        with pytest.raises(StatementError, match="positive"):
            application.peek("alerts", 0)


def test_peek_in_sql() -> None:
    with opened() as db:
        application = db.deploy(spending(), "spending")
        order(db, ("ann", 60), ("bob", 100), ("ann", 1))
        query, alerts, _ = application.queries
        found = db.execute(f"PEEK {query} AT orders LIMIT 2")
        assert isinstance(found, millstream.Rows)
        assert found.columns == ["ROWTIME", "PARTITION", "KEY", "VALUE"]
        assert [(time, key, json.loads(value)) for time, _, key, value in found] == [
            (BASE + 1, '"bob"', {"AMOUNT": 100.0}),
            (BASE + 2, '"ann"', {"AMOUNT": 1.0}),
        ]
        assert len(rows(db, f"PEEK {query} AT Counts")) == 3
        assert rows(db, f"PEEK {query} AT counts LIMIT 0") == []
        assert len(rows(db, f"PEEK {query} AT 'alerts'")) == 1
        with pytest.raises(StatementError, match="has no node alert\nDid you mean alerts"):
            db.execute(f"PEEK {query} AT alert")
        with pytest.raises(StatementError, match="no query NOWHERE"):
            db.execute("PEEK nowhere AT alerts")
        with pytest.raises(StatementError, match=f"no nodes to look at\nThese have: {query}"):
            db.execute(f"PEEK {alerts} AT alerts")


def test_drop_leaves_nothing_but_the_topics_of_sources() -> None:
    with opened() as db:
        db.deploy(spending(), "spending").drop(delete_topics=True)
        assert not db.engine.catalog.sources
        db.wait()
        assert {str(row[0]) for row in rows(db, "SHOW TOPICS;")} == {"orders"}
        db.deploy(spending().replace_processor("check", Better), "spending")
        order(db, ("ann", 50))
        assert rows(db, "SELECT * FROM alerts") == [("ann", 50.0, 50.0)]


class Failing(Count):
    def process(self, record: Record) -> None:
        if record.value["AMOUNT"] == 13:
            raise LookupError("thirteen")
        super().process(record)


def test_an_exception_names_the_node() -> None:
    with opened() as db:
        db.deploy(spending().replace_processor("count", Failing), "spending")
        order(db, ("ann", 13))
        (error,) = [str(s.error) for s in db.engine.statuses() if s.error]
    assert "LookupError: thirteen" in error
    assert "In node count of the topology" in error


class Both(Processor):
    output = "id STRING KEY, items ARRAY<INT>"

    def init(self, context: ProcessorContext) -> None:
        self.context = context

    def process(self, record: Record) -> None:
        record.value["ITEMS"].append(99)
        self.context.forward(record.key, record.value)


def test_what_a_child_changes_in_a_record_the_others_do_not_see() -> None:
    topology = (
        Topology()
        .add_source("lists", "lists", key="id STRING", value="items ARRAY<INT>", partitions=1)
        .add_processor("one", Both, "lists")
        .add_processor("other", Both, "lists")
        .add_processor("third", Both, "one")
        .add_sink("direct", "direct", "lists")
        .add_sink("out", "out", "one", "other", "third")
    )
    with opened() as db:
        db.deploy(topology, "copies")
        db.insert("lists", [{"id": "a", "items": [1]}])
        db.wait()
        assert rows(db, "SELECT * FROM direct") == [("a", [1])]
        assert sorted(rows(db, "SELECT items FROM out")) == [
            ([1, 99],),
            ([1, 99],),
            ([1, 99, 99],),
        ]


def test_the_driver_takes_a_topology() -> None:
    with TopologyTestDriver(spending()) as driver:
        driver.pipe("orders", {"AMOUNT": 120.0}, key="ann")
        (alert,) = driver.read("alerts")
        assert (alert.key, alert.value) == ("ann", {"AMOUNT": 120.0, "TOTAL": 120.0})
        assert [record.value for record in driver.read("counts")] == [{"N": 1}]
        with pytest.raises(MillstreamError, match="no stream"):
            driver.pipe("nothing", {})


class Closing(Count):
    closed: list[str] = []  # noqa: RUF012 - shared by all instances

    def close(self) -> None:
        self.closed.append("one")
        raise LookupError("it cannot be closed")


def test_all_processors_are_closed_even_if_one_fails() -> None:
    topology = (
        spending().replace_processor("count", Closing).add_processor("more", Closing, "count")
    )
    with opened() as db:
        db.deploy(topology, "closing")
        order(db, ("ann", 1))
        Closing.closed.clear()
    assert len(Closing.closed) == 2


def test_processors_that_take_many_records_stand_between_topics(tmp_path: Path) -> None:
    topology = (
        Topology()
        .add_source("orders", "orders", key="customer STRING", value="amount DOUBLE", partitions=2)
        .add_processor("rounded", Rounded, "orders")
        .add_sink("whole", "whole", "rounded")
        .add_source("again", "whole")
        .add_processor("rate", Rated, "again")
        .add_sink("rated", "rated", "rate")
        .add_source("last", "rated")
        .add_processor("count", Count, "last")
        .add_sink("counts", "counts", "count")
    )
    path = str(tmp_path / "shop.db")
    with millstream.connect(path) as db:
        application = db.deploy(topology, "shop")
        db.insert("orders", [("ann", 10.4), ("bob", 8.0), ("ann", 20.7)])
        db.wait()
        found = db.execute("SELECT * FROM rated;").fetchall()  # type: ignore[union-attr]
        assert sorted(found) == [("ann", 10.0, 3, 1), ("ann", 21.0, 0, 2), ("bob", 8.0, 1, 1)]
        assert sorted(db.execute("SELECT * FROM counts;").fetchall()) == [  # type: ignore[union-attr]
            ("ann", 1),
            ("ann", 2),
            ("bob", 1),
        ]
        assert [row.value for row in application.peek("count", 1)] != []
        with pytest.raises(StatementError, match="takes many records"):
            application.peek("rate")
    with millstream.connect(path, functions=topology.processors("shop")) as db:
        db.deploy(topology, "shop")
        db.insert("orders", [("ann", 1.0)])
        db.wait()
        assert ("ann", 1.0, 1, 3) in db.execute("SELECT * FROM rated;").fetchall()  # type: ignore[union-attr]


def test_a_processor_that_waits_gets_another_class() -> None:
    class Better(Rated):
        async def process(self, record: Record) -> None:
            self.context.forward(record.key, {"N": 100 + self.counts.get(record.key, 0)})

    topology = (
        Topology()
        .add_source("orders", "orders", key="customer STRING", value="amount DOUBLE", partitions=1)
        .add_processor("rate", Rated, "orders")
        .add_sink("rated", "rated", "rate")
    )
    with millstream.connect() as db:
        application = db.deploy(topology, "shop")
        db.insert("orders", [("ann", 1.0)])
        db.wait()
        application.edit(lambda t: t.replace_processor("rate", Better))
        db.insert("orders", [("ann", 1.0)])
        db.wait()
        found = db.execute("SELECT n FROM rated;").fetchall()  # type: ignore[union-attr]
        assert sorted(found) == [(1,), (101,)]
