"""The test driver: what it takes, returns and refuses."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import Any

import pytest

import millstream
from millstream import MillstreamError, StatementError
from millstream.model.errors import UnavailableError
from millstream.testing import OutputRecord, TopologyTestDriver, Window

ORDERS = """
CREATE STREAM orders (customer STRING KEY, amount DOUBLE, city STRING)
  WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');
"""
SPENDING = f"""{ORDERS}
CREATE TABLE spending AS SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer;
"""
WINDOWS = f"""{ORDERS}
CREATE TABLE counts AS SELECT customer, COUNT(*) AS n FROM orders
  WINDOW TUMBLING (SIZE 10 SECONDS, GRACE PERIOD 0 SECONDS) GROUP BY customer EMIT FINAL;
"""


def test_a_record_is_processed_when_pipe_returns() -> None:
    with TopologyTestDriver(SPENDING) as driver:
        driver.pipe("orders", {"amount": 12.5}, key="ann")
        (record,) = driver.read("spending")
        assert isinstance(record, OutputRecord)
        assert (record.key, record.value) == ("ann", {"TOTAL": 12.5})
        assert record.row == {"CUSTOMER": "ann", "TOTAL": 12.5}
        assert (record.topic, record.partition, record.offset) == ("SPENDING", 0, 0)
        assert not record.tombstone and record.window is None and record.error is None
        driver.pipe("orders", {"amount": 7}, key="ann")
        assert [each.value for each in driver.read("SPENDING")] == [{"TOTAL": 19.5}]
        assert driver.read("spending") == []
        assert len(driver.read_all("spending")) == 2 and driver.read("spending") == []


def test_state_is_read_by_pull_queries() -> None:
    with TopologyTestDriver(SPENDING) as driver:
        driver.pipe("orders", [{"customer": "ann", "amount": 1}, {"customer": "bob", "amount": 2}])
        assert driver.table("spending") == {"ann": {"TOTAL": 1.0}, "bob": {"TOTAL": 2.0}}
        rows = driver.query("SELECT total FROM spending WHERE customer = ?;", ["bob"])
        assert rows.fetchall() == [(2.0,)]
        assert rows.columns == ["TOTAL"]
        for refused, reason in (
            ("SELECT * FROM spending EMIT CHANGES;", "does not end"),
            ("DROP TABLE spending;", "takes one SELECT"),
            ("SELECT * FROM spending; SELECT * FROM spending;", "takes one SELECT"),
            ("SELECT * FROM speding;", "SPEDING does not exist"),
        ):
            with pytest.raises(StatementError, match=reason):
                driver.query(refused)
        with pytest.raises(StatementError, match="orders is no table"):
            driver.table("orders")


@pytest.mark.parametrize(
    ("value", "key"),
    [
        ({"amount": 1, "CITY": "Oslo"}, "ann"),
        ({"customer": "ann", "Amount": Decimal("1.0"), "city": "Oslo"}, None),
        (("ann", 1.0, "Oslo"), None),
        ((1, "Oslo"), "ann"),
        (b'{"AMOUNT":1.0,"CITY":"Oslo"}', b"ann"),
        (b'{"AMOUNT":1.0,"CITY":"Oslo"}', "ann"),
    ],
)
def test_rows_are_given_in_several_ways(value: Any, key: Any) -> None:
    with TopologyTestDriver(ORDERS) as driver:
        driver.pipe("orders", value, key=key, timestamp=5)
        (record,) = driver.read("orders")
        assert (record.key, record.value) == ("ann", {"AMOUNT": 1.0, "CITY": "Oslo"})
        assert record.timestamp == 5


def test_the_only_column_can_be_given_as_its_value() -> None:
    text = "CREATE STREAM words (word STRING) WITH (KAFKA_TOPIC='words', VALUE_FORMAT='KAFKA');"
    with TopologyTestDriver(text) as driver:
        driver.pipe("words", "a")
        driver.pipe("words", ["b", "c"])
        assert [each.value["WORD"] for each in driver.read("words")] == ["a", "b", "c"]


def test_times_headers_and_partitions() -> None:
    time = datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC)
    with TopologyTestDriver(ORDERS.replace("'JSON'", "'JSON', PARTITIONS=3")) as driver:
        driver.pipe("orders", {"amount": 1}, timestamp=time, headers={"a": "x", "b": None})
        driver.pipe("orders", {"amount": 2, "rowtime": 77}, partition=2, headers=[("a", b"y")])
        driver.pipe("orders", [{"amount": 3}, {"amount": 4}, {"amount": 5}])
        driver.pipe("orders", {"amount": 6}, key="ann")
        driver.pipe("orders", {"amount": 7}, key="ann")
        records = driver.read("orders")
        assert [each.value["AMOUNT"] for each in records] == [1, 2, 3, 4, 5, 6, 7]
        assert records[0].timestamp == round(time.timestamp() * 1000)
        assert records[0].headers == (("a", b"x"), ("b", None))
        assert (records[1].timestamp, records[1].partition) == (77, 2)
        assert [each.partition for each in records[:1] + records[2:5]] == [0, 1, 2, 0]
        assert records[5].partition == records[6].partition


def test_tombstones() -> None:
    text = """CREATE TABLE cities (id INT PRIMARY KEY, name STRING)
      WITH (KAFKA_TOPIC='cities', VALUE_FORMAT='JSON');
    CREATE TABLE upper AS SELECT id, UCASE(name) AS name FROM cities;"""
    with TopologyTestDriver(text) as driver:
        driver.pipe("cities", ("Oslo",), key=1)
        driver.pipe("cities", None, key=1)
        first, last = driver.read("upper")
        assert (first.key, first.value, first.tombstone) == (1, {"NAME": "OSLO"}, False)
        assert (last.key, last.value, last.tombstone) == (1, None, True)
        assert last.row == {"ID": 1, "NAME": None} and last.raw_value is None
        assert driver.table("upper") == {}


def test_values_of_all_types() -> None:
    text = """CREATE STREAM s (k1 INT KEY, k2 STRING KEY, b BOOLEAN, l BIGINT, d DECIMAL(6, 2),
      y BYTES, day DATE, t TIME, ts TIMESTAMP, a ARRAY<DOUBLE>, m MAP<STRING, INT>,
      st STRUCT<x INT, y ARRAY<DATE>>) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
      CREATE STREAM copied AS SELECT * FROM s;"""
    day, time = datetime.date(2024, 2, 29), datetime.time(1, 2, 3, 4_000)
    moment = datetime.datetime(2024, 2, 29, 1, 2, 3, 4_567, tzinfo=datetime.UTC)
    row: dict[str, Any] = {
        "b": True,
        "l": 2**40,
        "d": Decimal("12.5"),
        "y": b"\x00\xff",
        "day": day,
        "t": time,
        "ts": moment,
        "a": [1, 2.5, None],
        "m": {"x": 1, "y": None},
        "st": {"x": 1, "Y": ["2024-02-29", day]},
    }
    expected = {
        **{name.upper(): value for name, value in row.items()},
        "D": Decimal("12.50"),
        "TS": datetime.datetime(2024, 2, 29, 1, 2, 3, 4_000),
        "ST": {"X": 1, "Y": [day, day]},
    }
    with TopologyTestDriver(text) as driver:
        driver.pipe("s", row, key=(1, "a"))
        driver.pipe(
            "s", {**row, "day": "2024-02-29", "ts": "2024-02-29T01:02:03.004"}, key=(1, "a")
        )
        for record in driver.read("copied"):
            assert record.key == (1, "a") and record.value == expected
        assert driver.processing_log() == []


@pytest.mark.parametrize(
    ("target", "value", "key", "reason"),
    [
        ("ordres", {"amount": 1}, None, "(?s)no stream, table or topic ordres.*ORDERS"),
        ("orders", {"amuont": 1}, None, "(?s)no column amuont.*AMOUNT"),
        ("orders", {"amount": 1, "AMOUNT": 2}, None, "given twice"),
        ("orders", {"amount": 1, "customer": "a"}, "b", "CUSTOMER of ORDERS is given twice"),
        ("orders", {"amount": "x"}, None, "AMOUNT"),
        ("orders", {"amount": True}, None, "AMOUNT"),
        (
            "orders",
            {"amount": object()},
            None,
            "for field `AMOUNT` but got object",
        ),
        ("orders", {"amount": float("nan")}, None, "(?s)`AMOUNT` but got DOUBLE.*NaN"),
        ("orders", {"amount": Decimal("NaN")}, None, "(?s)`AMOUNT` but got DECIMAL.*NaN"),
        (
            "orders",
            {"city": datetime.date(2024, 1, 1)},
            None,
            "field `CITY` but got DATE",
        ),
        (
            "orders",
            {"amount": 1},
            2**70,
            "`CUSTOMER` but got NUMBER",
        ),
        ("orders", ("a", 1), None, "(?s)tuple of 2 values.*CUSTOMER, AMOUNT, CITY"),
        ("orders", 5, None, "is not a row of ORDERS"),
        ("keyless", {"a": 1}, "k", "KEYLESS has no key column"),
        ("pairs", {"v": 1}, 1, "(?s)has 2 columns.*tuple of A, B"),
        ("spending", ("a", 1), None, "(?s)CTAS_SPENDING_.* writes it"),
        ("_millstream_commands", b"", None, "internal"),
        ("counts", ("a", 1), None, "windowed"),
    ],
)
def test_wrong_rows_are_refused(target: str, value: Any, key: Any, reason: str) -> None:
    text = f"""{SPENDING}
    CREATE STREAM keyless (a INT) WITH (KAFKA_TOPIC='keyless', VALUE_FORMAT='JSON');
    CREATE STREAM pairs (a INT KEY, b INT KEY, v INT) WITH (KAFKA_TOPIC='p', FORMAT='JSON');
    CREATE TABLE counts (a STRING PRIMARY KEY, n INT)
      WITH (KAFKA_TOPIC='c', VALUE_FORMAT='JSON', WINDOW_TYPE='SESSION');"""
    with TopologyTestDriver(text) as driver:
        with pytest.raises(StatementError, match=reason):
            driver.pipe(target, value, key=key)
        assert all(driver.read(each) == [] for each in ("orders", "keyless", "p", "c"))


@pytest.mark.parametrize(
    ("arguments", "error", "reason"),
    [
        ({"timestamp": "now"}, TypeError, "neither a datetime nor an int"),
        ({"timestamp": True}, TypeError, "neither a datetime nor an int"),
        ({"timestamp": -1}, StatementError, "not between 0"),
        ({"partition": 1}, StatementError, "no partition 1 of orders"),
        ({"headers": {"a": 1}}, TypeError, "header 'a'"),
    ],
)
def test_wrong_arguments_are_refused(
    arguments: dict[str, Any], error: type[Exception], reason: str
) -> None:
    with TopologyTestDriver(ORDERS) as driver:
        with pytest.raises(error, match=reason):
            driver.pipe("orders", {"amount": 1}, **arguments)
        assert driver.read("orders") == []
        with pytest.raises(TypeError, match="by its name"):
            driver.pipe(5, {"amount": 1})  # type: ignore[arg-type]


def test_bad_records_are_in_the_processing_log() -> None:
    with TopologyTestDriver(SPENDING) as driver:
        driver.pipe("orders", b"no JSON", key=b"ann")
        driver.pipe("orders", {"amount": 1}, key="ann")
        (entry,) = driver.processing_log()
        assert (entry["query"], entry["kind"]) == ("CTAS_SPENDING_1", "DESERIALIZATION")
        assert (entry["topic"], entry["offset"], entry["raw_value"]) == ("orders", 0, b"no JSON")
        bad, good = driver.read("orders")
        assert bad.error is not None and "not JSON" in bad.error
        assert (bad.key, bad.value, bad.row) == (b"ann", b"no JSON", None)
        assert good.error is None
        assert [each.value for each in driver.read("spending")] == [{"TOTAL": 1.0}]


def test_topics_that_no_source_reads_have_bytes() -> None:
    text = f"{SPENDING} DROP TABLE spending;"
    with TopologyTestDriver(text) as driver:
        driver.pipe("SPENDING", b"value", key=b"key")
        (record,) = driver.read("SPENDING")
        assert (record.key, record.value, record.error) == (b"key", b"value", None)
        with pytest.raises(StatementError, match="No stream or table reads the topic SPENDING"):
            driver.pipe("SPENDING", {"total": 1})


def test_windows() -> None:
    with TopologyTestDriver(WINDOWS) as driver:
        for time in (1, 2, 10_001):
            driver.pipe("orders", {"amount": 1}, key="ann", timestamp=time)
        (record,) = driver.read("counts")
        assert (record.key, record.value, record.window) == ("ann", {"N": 2}, Window(0, 10_000))
        assert driver.table("counts") == {("ann", 0, 10_000): {"N": 2}}
        latest = driver.output("counts").read_latest()
        assert latest == {("ann", Window(0, 10_000)): {"N": 2}}


def test_keys_of_several_fields() -> None:
    text = """CREATE STREAM s (k STRUCT<a INT> KEY, v INT) WITH (KAFKA_TOPIC='s', FORMAT='JSON');
      CREATE TABLE t AS SELECT k, SUM(v) AS v FROM s GROUP BY k;"""
    with TopologyTestDriver(text) as driver:
        driver.pipe("s", [], key={"a": 1})
        assert driver.read("s") == []
        driver.pipe("s", {"v": 1}, key={"a": 1})
        assert driver.read("t")[0].key == {"A": 1}
        with pytest.raises(StatementError, match="cannot be found by their keys"):
            driver.table("t")


def test_the_wall_clock_moves_only_when_it_is_advanced() -> None:
    properties = {"idle.window.close.ms": 1000}
    start = datetime.datetime(2024, 1, 1)
    with TopologyTestDriver(WINDOWS, properties=properties, start=start) as driver:
        begin = driver.now_ms
        assert begin == 1_704_067_200_000
        driver.pipe("orders", {"amount": 1}, key="ann")
        assert driver.read("orders")[0].timestamp == begin
        driver.advance_wall_clock(999)
        assert driver.read("counts") == []
        driver.advance_wall_clock(datetime.timedelta(milliseconds=1))
        assert [each.value for each in driver.read("counts")] == [{"N": 1}]
        assert driver.now_ms == begin + 1000
        for wrong, error in ((-1, StatementError), (1.5, TypeError), (True, TypeError)):
            with pytest.raises(error, match="advance"):
                driver.advance_wall_clock(wrong)  # type: ignore[arg-type]


def test_a_join_waits_for_the_other_input_by_the_wall_clock() -> None:
    text = """
    CREATE STREAM a (k STRING KEY, x INT) WITH (KAFKA_TOPIC='a', VALUE_FORMAT='JSON');
    CREATE TABLE b (k STRING PRIMARY KEY, y INT) WITH (KAFKA_TOPIC='b', VALUE_FORMAT='JSON');
    CREATE STREAM joined AS SELECT a.k AS k, x, y FROM a LEFT JOIN b ON a.k = b.k;"""
    properties = {"max.task.idle.ms": 500, "millstream.input.order": "time"}
    with TopologyTestDriver(text, properties=properties) as driver:
        driver.pipe("a", {"x": 1}, key="k", timestamp=10)
        assert driver.read("joined") == []
        driver.pipe("b", {"y": 2}, key="k", timestamp=5)
        driver.advance_wall_clock(500)
        assert [each.value for each in driver.read("joined")] == [{"X": 1, "Y": 2}]


def test_errors_of_statements_have_their_position() -> None:
    with pytest.raises(StatementError, match="SELEC") as syntax:
        TopologyTestDriver(f"{ORDERS}\n  SELEC 1;")
    assert syntax.value.span is not None and syntax.value.span.line == 5
    with pytest.raises(StatementError, match="AMUONT") as unknown:
        TopologyTestDriver(f"{ORDERS}\nCREATE STREAM t AS SELECT amuont FROM orders;")
    assert unknown.value.span is not None
    assert (unknown.value.span.line, unknown.value.span.column) == (5, 27)
    with pytest.raises(StatementError, match="no statement"):
        TopologyTestDriver(" -- nothing\n")
    with pytest.raises(StatementError, match=r"unknown\.property"):
        TopologyTestDriver(ORDERS, properties={"unknown.property": 1})


def test_a_failing_query_is_raised_once() -> None:
    text = f"""{ORDERS}
    CREATE STREAM copied AS SELECT * FROM orders;"""
    properties = {"ksql.fail.on.deserialization.error": True}
    with TopologyTestDriver(text, properties=properties) as driver:
        driver.pipe("orders", {"amount": 1}, key="ann")
        with pytest.raises(MillstreamError, match=r"(?s)Query CSAS_COPIED_1 has stopped.*JSON"):
            driver.pipe("orders", b"no JSON")
        driver.pipe("orders", {"amount": 2}, key="ann")
        assert len(driver.read("orders")) == 3 and len(driver.read("copied")) == 1


def test_a_query_that_never_ends_is_an_error() -> None:
    text = f"""{ORDERS}
    INSERT INTO orders SELECT * FROM orders;"""
    with (
        TopologyTestDriver(text, timeout_seconds=0.2) as driver,
        pytest.raises(UnavailableError, match="do not become idle"),
    ):
        driver.pipe("orders", {"amount": 1}, key="ann")


def test_functions_variables_and_inserts_in_the_script() -> None:
    @millstream.udf("twice", "DOUBLE -> DOUBLE")
    def twice(x: float) -> float:
        return 2 * x

    text = f"""{ORDERS}
    DEFINE factor = '3';
    INSERT INTO orders VALUES ('ann', 1, 'Oslo');
    CREATE STREAM doubled AS SELECT customer, twice(amount) * ${{factor}} AS a FROM orders;"""
    with TopologyTestDriver(text, functions=[twice]) as driver:
        driver.pipe("orders", ("ann", 2, "Oslo"))
        assert [each.value for each in driver.read("doubled")] == [{"A": 6.0}, {"A": 12.0}]


def test_inputs_and_outputs_as_objects() -> None:
    with TopologyTestDriver(SPENDING) as driver:
        orders = driver.input("orders", start=100, advance=datetime.timedelta(seconds=1))
        spending, again = driver.output("spending"), driver.output("SPENDING")
        assert spending.empty and len(spending) == 0
        with pytest.raises(LookupError, match="no record in spending"):
            spending.read()
        orders.pipe([{"amount": 1}, {"amount": 2}], key="ann")
        orders.pipe({"amount": 3}, key="bob", timestamp=5)
        orders.advance_time(10)
        orders.pipe({"amount": 4}, key="bob")
        assert [each.timestamp for each in driver.read("orders")] == [100, 1100, 5, 2110]
        assert spending.read_key_value() == ("ann", {"TOTAL": 1.0})
        assert spending.read_value() == {"TOTAL": 3.0} and len(spending) == 2
        assert [each.key for each in spending] == ["bob", "bob"] and spending.empty
        assert len(again.read_all()) == 4
        assert driver.output("spending").read_latest() == {
            "ann": {"TOTAL": 3.0},
            "bob": {"TOTAL": 7.0},
        }
        assert driver.output("spending").read_values()[-1] == {"TOTAL": 7.0}
        with pytest.raises(ValueError, match="no time of its own"):
            driver.input("orders").advance_time(1)
        with pytest.raises(StatementError, match="no stream, table or topic nothing"):
            driver.input("nothing")


def test_after_close_everything_is_refused() -> None:
    driver = TopologyTestDriver(SPENDING)
    output = driver.output("spending")
    driver.close()
    driver.close()
    for call in (
        lambda: driver.pipe("orders", {"amount": 1}),
        lambda: driver.read("spending"),
        lambda: driver.read_all("spending"),
        lambda: driver.query("SELECT * FROM spending;"),
        lambda: driver.table("spending"),
        lambda: driver.processing_log(),
        lambda: driver.advance_wall_clock(1),
        output.read_all,
    ):
        with pytest.raises(StatementError, match="is closed"):
            call()


def test_processors_are_called() -> None:
    class Doubling(millstream.Processor):
        output = "k STRING KEY, v INT"

        def init(self, context: millstream.ProcessorContext) -> None:
            self.context = context

        def process(self, record: millstream.Record) -> None:
            for _ in range(2):
                self.context.forward(record.key, record.value)

    text = """CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');
        CREATE STREAM t AS SELECT * FROM PROCESS(s, 'Doubling');"""
    with TopologyTestDriver(text, functions=[millstream.processor(Doubling)]) as driver:
        driver.pipe("s", ("a", 1))
        assert [record.value for record in driver.read("t")] == [{"V": 1}, {"V": 1}]
