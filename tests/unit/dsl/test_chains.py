"""Chains: what runs, what lasts, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import (
    ConflictError,
    Database,
    Done,
    History,
    KStream,
    KTable,
    Rows,
    StatementError,
    col,
    fn,
    lit,
    tumbling,
)
from tests.unit.dsl.pairs import SOURCES


@pytest.fixture(scope="module")
def shared() -> Iterator[Database]:
    """The sources, for tests that create nothing."""
    with millstream.connect() as db:
        db.execute(SOURCES)
        yield db


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            "CREATE STREAM t (id INT KEY, b BOOLEAN, n INT, s STRING)"
            " WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');"
            "INSERT INTO t VALUES (1, NULL, NULL, '${x}');"
            "INSERT INTO t VALUES (2, TRUE, 5, 'y');"
            "INSERT INTO t VALUES (3, FALSE, 0, 'z');"
        )
        yield db


def ids(chain: KStream) -> list[int]:
    """The ids of what a chain has let pass so far."""
    return [row[0] for row in chain.pull().select("id")]


def anything(value: object) -> Any:
    """A value that type checkers do not look at."""
    return value


def test_a_record_is_in_one_part_of_a_split(db: Database) -> None:
    for conditions in ([col("b")], [col("n") > 1], [col("b"), col("n").is_null()]):
        parts = [ids(part) for part in db.stream("t").split(*conditions)]
        assert sorted(id_ for part in parts for id_ in part) == [1, 2, 3], conditions
        assert len(parts) == len(conditions) + 1
    assert ids(db.stream("t").filter_not(col("b"))) == [3]


def test_iteration_and_subscribe(db: Database) -> None:
    chain = db.stream("t").filter(col("n") >= 0).select("id", "n")
    for row in chain:
        assert row == (2, 5)
        break
    with chain.subscribe(limit=2) as rows:
        assert sorted(rows) == [(2, 5), (3, 0)]


def test_through_goes_on_with_its_result(db: Database) -> None:
    big = db.stream("t").filter(col("n") > 1).through("big", topic="large", partitions=3)
    assert isinstance(big, KStream) and db.engine.catalog.source("BIG").topic == "large"
    counts = big.group_by("s").count().through("counts")
    assert isinstance(counts, KTable)
    small = counts.filter(col("count") < 9).map_values(n=col("count") + 1).through("small")
    db.wait()
    assert small.fetchall() == [("y", 2)] == counts.map_values(n=col("count") + 1).fetchall()
    merged = big.merge(big.filter(lit(False))).sql
    assert "UNION ALL" in merged


def test_insert_into(db: Database) -> None:
    db.execute(
        "CREATE STREAM u (id INT KEY, n INT)"
        " WITH (KAFKA_TOPIC='u', PARTITIONS=1, VALUE_FORMAT='JSON')"
    )
    chain = db.stream("t").filter(col("n") > 1).select("id", "n")
    done = chain.insert_into("u", query_id="mine")
    assert isinstance(done, Done) and done.query_id == "mine".upper()
    db.wait()
    assert ids(db.stream("u")) == [2]


def test_the_statement_is_recorded_as_it_is_printed(tmp_path: Path) -> None:
    path = str(tmp_path / "a.db")
    with millstream.connect(path, properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(
            "CREATE STREAM t (id INT KEY, s STRING)"
            " WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON')"
        )
        chain = db.stream("t").filter(col("s") != "it's\n`x` ${y};")
        done = chain.to("kept", value_format="JSON")
        db.execute("INSERT INTO t VALUES (1, 'a')")
        text = db.engine.catalog.source("KEPT").statement
        assert chain.sql.splitlines()[2:] == text.splitlines()[2:]
        assert "'it''s\n`x` ${y};'" in text
    with millstream.connect(path) as db:
        assert done.query_id in db.engine.catalog.queries
        db.wait()
        assert [tuple(row) for row in db.stream("kept").pull()] == [(1, "a")]


def test_variables_are_not_substituted_in_values(db: Database) -> None:
    db.execute("DEFINE x = 'changed';")
    assert ids(db.stream("t").filter(col("s") == "${x}")) == [1]


def test_functions_of_the_user(db: Database) -> None:
    db.register(
        millstream.udf("twice", "INTEGER -> INTEGER", lambda n: n * 2),
        millstream.udf("dice", "INTEGER -> INTEGER", lambda n: n, deterministic=False),
    )
    doubled = db.stream("t").select("id", d=fn.call("twice", col("n"))).filter(col("d") > 1)
    assert [tuple(row) for row in doubled.pull()] == [(2, 10)]
    thrown = db.stream("t").select("id", d=fn.call("dice", col("n")))
    with pytest.raises(StatementError, match="DICE would be called again"):
        thrown.filter(col("d") > 1)


def test_errors_of_the_engine_point_at_the_printed_statement(db: Database) -> None:
    with pytest.raises(StatementError) as failure:
        db.stream("t").filter(col("nope") > 3).to("u")
    assert "column 'NOPE' cannot be resolved" in str(failure.value)
    assert failure.value.detail == "WHERE (NOPE > 3)\n       ^"
    with pytest.raises(StatementError, match="cannot be resolved"):
        db.stream("t").select("id", x=fn.ucase(col("nope"))).subscribe()
    with pytest.raises(StatementError, match="PARTITIONS"):
        db.stream("t").to("u", partitions=-5)


def refused(
    shared: Database, kind: type[Exception], message: str, make: Callable[[Database], object]
) -> None:
    with pytest.raises(kind) as failure:
        make(shared)
    assert message in str(failure.value)


def _with_select(db: Database) -> KStream:
    return db.stream("orders").select("id", a=col("amount"))


def _random(db: Database) -> KStream:
    return db.stream("orders").select("id", r=fn.random(), tag=fn.ucase(fn.uuid()))


def _join(db: Database, kind: str, **options: object) -> object:
    """A join of filtered streams and tables."""
    orders, customers = db.stream("orders"), db.table("customers")
    left = orders.filter(col("n") > 1) if options.get("left") else orders
    right = customers.filter(col("age") > 1) if options.get("right") else customers
    return getattr(left, kind)(right, on=orders["customer"] == customers["id"])


def _exploded(db: Database) -> KStream:
    return db.stream("orders").select("id", tag=fn.explode(col("tags")))


CHAINS: list[tuple[type[Exception], str, Callable[[Database], object]]] = [
    (StatementError, "ORDER does not exist", lambda db: db.stream("order")),
    (StatementError, "Did you mean ORDERS?", lambda db: db.stream("order")),
    (StatementError, "CUSTOMERS is a table", lambda db: db.stream("customers")),
    (StatementError, "Use db.stream('orders')", lambda db: db.table("orders")),
    (TypeError, "is a str", lambda db: db.stream(anything(1))),
    (ValueError, "has one part", lambda db: db.stream("a.b")),
    (TypeError, "filter takes an expression", lambda db: db.stream("orders").filter(anything("n"))),
    (TypeError, "has no name", lambda db: db.stream("orders").filter(anything(lambda r: r))),
    (TypeError, "at least one column", lambda db: db.stream("orders").select()),
    (TypeError, "lit(…) is a constant", lambda db: db.stream("orders").select(anything(1))),
    (TypeError, "Python function", lambda db: db.stream("orders").split(anything(len))),
    (TypeError, "at least one condition", lambda db: db.stream("orders").split()),
    (TypeError, "at least one other", lambda db: db.stream("orders").merge()),
    (
        TypeError,
        "merged with streams",
        lambda db: db.stream("orders").merge(anything(db.table("customers"))),
    ),
    (
        TypeError,
        "no option topik. Did you mean topic?",
        lambda db: db.stream("orders").to("x", **anything({"topik": "y"})),
    ),
    (
        TypeError,
        "cannot be '4'",
        lambda db: db.stream("orders").to("x", **anything({"if_not_exists": "4"})),
    ),
    (TypeError, "cannot be True", lambda db: db.stream("orders").to("x", partitions=True)),
    (TypeError, "give its name", lambda db: db.stream("orders").explain(partitions=1)),
    (ValueError, "stage is one of", lambda db: db.stream("orders").explain(stage=anything("X"))),
    (ValueError, "negative", lambda db: db.stream("orders").subscribe(limit=-1)),
    (TypeError, "limit is an int", lambda db: db.table("people").pull().limit(anything("1"))),
    (StatementError, "no such column", lambda db: _with_select(db).filter(col("amount") > 1)),
    (StatementError, "names are ID, A", lambda db: _with_select(db).filter(col("zzz") > 1)),
    (StatementError, "have no source", lambda db: _with_select(db).filter(col("orders.a") > 1)),
    (StatementError, "RANDOM would be called again", lambda db: _random(db).filter(col("r") > 1)),
    (StatementError, "UUID would be called again", lambda db: _random(db).select("id", "tag")),
    (StatementError, "through", lambda db: _exploded(db).filter(col("tag") == "a")),
    (StatementError, "makes rows by EXPLODE", lambda db: _exploded(db).select("id")),
    (StatementError, "makes rows by EXPLODE", lambda db: _exploded(db).group_by("id")),
    (
        StatementError,
        "parameter of a lambda",
        lambda db: (
            db.stream("orders")
            .select("*", m=col("n") + 1)
            .select("id", t=fn.transform(col("tags"), lambda n: fn.len(n) + col("m")))
        ),
    ),
    (
        StatementError,
        "map_values keeps the key",
        lambda db: db.stream("orders").select("amount").map_values("amount"),
    ),
    (StatementError, "group_by_key keeps", lambda db: _select_key(db).group_by_key()),
    (StatementError, "left join", lambda db: _join(db, "left_join", right=True)),
    (StatementError, "joined twice", lambda db: _self_join(db)),
    (TypeError, "needs within", lambda db: _streams(db, {})),
    (TypeError, "neither within", lambda db: _table_within(db)),
    (ValueError, "pair of them", lambda db: _streams(db, {"within": ("1 day",) * 3})),
    (TypeError, "on is a comparison", lambda db: _on(db, True)),
    (TypeError, "on takes an expression", lambda db: _on(db, "id")),
    (StatementError, "come behind a join", lambda db: _late_join(db)),
    (TypeError, "before anything else", lambda db: _with_select(db).alias("o")),
    (
        TypeError,
        "window takes",
        lambda db: db.stream("orders").group_by("n").window(anything("1 day")),
    ),
    (TypeError, "A table is joined with a table", lambda db: _table_with_stream(db)),
    (
        TypeError,
        "id of a query",
        lambda db: db.stream("orders").insert_into("returns", query_id=anything(1)),
    ),
    (StatementError, "leave out select_key", lambda db: db.stream("orders").select_key("n").pull()),
]


def _select_key(db: Database) -> KStream:
    return db.stream("orders").select_key(fn.ucase(col("customer")))


def _self_join(db: Database) -> object:
    orders = db.stream("orders")
    return orders.join(orders, on=orders["id"] == orders["id"], within="1 day")


def _streams(db: Database, options: dict[str, object]) -> object:
    orders, shipments = db.stream("orders"), db.stream("shipments")
    return orders.join(shipments, on=orders["id"] == shipments["order_id"], **anything(options))


def _table_within(db: Database) -> object:
    orders, customers = db.stream("orders"), db.table("customers")
    return orders.join(customers, on=orders["customer"] == customers["id"], within="1 day")


def _on(db: Database, on: object) -> object:
    return db.stream("orders").join(db.table("customers"), on=anything(on))


def _late_join(db: Database) -> object:
    return _with_select(db).join(db.table("customers"), on=col("a") == col("id"))


def _table_with_stream(db: Database) -> object:
    return db.table("customers").join(anything(db.stream("orders")), on=col("a") == col("b"))


@pytest.mark.parametrize(("kind", "message", "make"), CHAINS)
def test_wrong_chains_are_refused(
    shared: Database,
    kind: type[Exception],
    message: str,
    make: Callable[[Database], object],
) -> None:
    refused(shared, kind, message, make)


def test_filters_that_may_move_behind_a_join(shared: Database) -> None:
    for kind, options in (("join", {"left": 1, "right": 1}), ("left_join", {"left": 1})):
        assert isinstance(_join(shared, kind, **options), KStream)
    left = shared.table("customers").filter(col("age") > 1)
    right = shared.table("scores")
    with pytest.raises(StatementError, match="full outer join"):
        left.outer_join(right, on=left["id"] == right["id"])


def test_a_parameter_of_a_lambda_is_no_column(shared: Database) -> None:
    chain = shared.stream("orders").select("id", n=col("amount"), t=col("tags"))
    filtered = chain.filter(fn.array_length(fn.filter(col("t"), lambda n: n == "a")) > 0)
    assert "FILTER(TAGS, N => (N = 'a'))" in filtered.sql


def test_a_stream_without_a_key_maps_its_values(db: Database) -> None:
    db.execute(
        "CREATE STREAM keyless (n INT) WITH (KAFKA_TOPIC='k', PARTITIONS=1, VALUE_FORMAT='JSON')"
    )
    assert db.stream("keyless").map_values(m=col("n")).sql.startswith("SELECT N M\n")
    with pytest.raises(StatementError, match="group_by_key keeps the key, but there is none"):
        db.stream("keyless").group_by_key()


def test_windows_are_kept_with_their_group(shared: Database) -> None:
    grouped = shared.stream("orders").group_by("customer").window(tumbling("1 hour"))
    assert repr(grouped) == "<KGroupedStream of ORDERS>"
    assert "WINDOW TUMBLING (SIZE 1 HOURS)" in repr(grouped.count())


def test_results_are_of_their_kinds(shared: Database) -> None:
    assert isinstance(shared.stream("orders").explain(), Rows)
    assert isinstance(shared.table("people").pull().execute(), Rows | History)
    assert repr(shared.table("people").where(col("id") == 1)) == (
        "<PullQuery\nSELECT *\nFROM PEOPLE\nWHERE (ID = 1)>"
    )


class Doubled(millstream.Processor):
    """Twice the number of each row."""

    output = "id INT KEY, twice INT"

    def init(self, context: millstream.ProcessorContext) -> None:
        self.context = context

    def process(self, record: millstream.Record) -> None:
        if record.value["N"] is not None:
            self.context.forward(record.key, {"TWICE": 2 * record.value["N"]})


def test_a_stream_passes_a_processor(db: Database) -> None:
    db.register(millstream.processor(Doubled))
    chain = db.stream("t").process("doubled").filter(col("twice") > 1).map_values("twice")
    assert "FROM PROCESS(T, 'doubled')\nWHERE (TWICE > 1)" in chain.sql
    chain.to("large")
    db.wait()
    assert list(anything(db.execute("SELECT * FROM large"))) == [(2, 10)]
    counted = db.stream("t").process("Doubled").group_by_key().count()
    assert "GROUP BY ID" in counted.sql


def test_where_a_processor_cannot_be(db: Database) -> None:
    db.register(millstream.processor(Doubled))
    with pytest.raises(StatementError, match="There is no processor 'Double'"):
        db.stream("t").process("Double")
    with pytest.raises(StatementError, match="other steps before it"):
        db.stream("t").filter(col("b")).process("Doubled")
    with pytest.raises(StatementError, match="other steps before it"):
        db.stream("t").process("Doubled").process("Doubled")
    with pytest.raises(TypeError, match="the name of a processor"):
        db.stream("t").process(anything(Doubled))


def test_peek_shows_records_that_go_on_as_they_are(db: Database) -> None:
    shown: list[tuple[int, dict[str, Any]]] = []

    def note(key: int, value: dict[str, Any]) -> None:
        shown.append((key, dict(value)))
        value.clear()  # What goes on is another object.

    chain = db.stream("t").peek(anything(note)).filter(col("n") > 2)
    assert "FROM PROCESS(T, 'NOTE')" in chain.sql
    chain.to("large")
    db.stream("t").peek(anything(note)).to("again")  # The same function is the same processor.
    db.wait()
    records = sorted(db.execute("SELECT id, n FROM t"), key=str)  # type: ignore[arg-type, type-var]
    assert sorted((k, v["N"]) for k, v in shown) == sorted(2 * records)  # type: ignore[type-var]
    assert list(anything(db.execute("SELECT id, n FROM large"))) == [
        (key, n) for key, n in anything(records) if n is not None and n > 2
    ]


def test_foreach_makes_no_rows(db: Database) -> None:
    keys = []
    db.stream("t").foreach(lambda_named("note", lambda key, _: keys.append(key)), "noted")
    db.wait()
    assert sorted(keys) == sorted(key for (key,) in anything(db.execute("SELECT id FROM t")))
    assert list(anything(db.execute("SELECT * FROM noted"))) == []


def lambda_named(name: str, function: Any) -> Any:
    function.__name__ = name
    return function


def test_a_file_with_peek_is_opened_with_its_observer(tmp_path: Path) -> None:
    seen = []

    def note(key: Any, value: Any) -> None:
        seen.append((key, value["N"]))

    path = str(tmp_path / "m.db")
    with millstream.connect(path, properties={"auto.offset.reset": "earliest"}) as first:
        first.execute(
            "CREATE STREAM t (id INT KEY, n INT)"
            " WITH (KAFKA_TOPIC='t', PARTITIONS=1, VALUE_FORMAT='JSON');"
        )
        first.stream("t").peek(note).to("noted")
        first.insert("t", [(1, 10)])
        first.wait()
    known = [millstream.observer(note, "id INT KEY, n INT")]
    with millstream.connect(path, functions=known) as second:
        second.insert("t", [(2, 20)])
        second.wait()
        second.stream("t").foreach(lambda_named("other", lambda key, value: None), "others")
        with pytest.raises(ConflictError, match="another processor NOTE already"):
            second.stream("t").foreach(note, "elsewhere")
    assert seen == [(1, 10), (2, 20)]


def test_what_cannot_observe(db: Database) -> None:
    with pytest.raises(StatementError, match="'<lambda>' cannot be the name"):
        db.stream("t").peek(lambda key, value: None)
    with pytest.raises(StatementError, match="no function of the key and the value"):
        db.stream("t").peek(anything("note"))
    with pytest.raises(StatementError, match="other steps before it"):
        db.stream("t").filter(col("b")).peek(print)
    with pytest.raises(StatementError, match="cannot be registered"):
        millstream.observer(print, "id INT KEY, n NOTHING")
