"""Functions of Python in chains, and what their annotations say."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import pydantic
import pytest

import millstream
from millstream import (
    ConflictError,
    Database,
    History,
    MillstreamError,
    Rows,
    col,
    fn,
    reducer,
    udf,
    udtf,
)
from millstream.functions.annotations import annotated, shape_of

SOURCE = (
    "CREATE STREAM orders (id INT KEY, customer STRING, amount DOUBLE, tags ARRAY<STRING>,"
    " home STRUCT<town STRING, zip INT>)"
    " WITH (KAFKA_TOPIC='orders', PARTITIONS=2, VALUE_FORMAT='JSON');"
)
ROWS = [
    (1, "ann", 30.0, ["new"], {"TOWN": "Ulm", "ZIP": 89073}),
    (2, "bob", None, ["old", "big"], None),
    (3, "ann", 120.0, [], {"TOWN": "Bonn", "ZIP": None}),
]


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(SOURCE)
        db.insert("orders", ROWS)
        yield db


def large(amount: float) -> bool:
    return amount > 50


def label(customer: str, amount: float | None) -> str:
    return f"{customer}: {'?' if amount is None else round(amount)}"


def words(tags: list[str]) -> Iterator[str]:
    yield from tags
    yield "end"


def longer(left: str, right: str) -> str:
    return left if len(left) >= len(right) else right


@dataclass
class Home:
    town: str
    zip: int | None = None


class Place(NamedTuple):
    town: str
    zip: int | None


class Address(pydantic.BaseModel):
    town: str
    zip: int | None


class Site(TypedDict):
    town: str
    zip: int | None


def fetched(db: Database, sql: str) -> list[tuple[Any, ...]]:
    db.wait()
    result = db.execute(sql)
    assert isinstance(result, Rows | History)
    return sorted(result.fetchall(), key=repr)


def test_a_function_is_a_condition_and_a_column(db: Database) -> None:
    chain = db.stream("orders").filter(large).map_values(label, text=label)
    assert "WHERE LARGE(AMOUNT)" in chain.sql
    chain.to("marked")
    assert fetched(db, "SELECT * FROM marked;") == [(3, "ann: 120", "ann: 120")]
    rest = db.stream("orders").filter_not(large).select("id")
    assert rest.pull().fetchall() == [(1,)]
    first, others = db.stream("orders").select("id", "amount").split(large)
    assert sorted(row[0] for row in others.pull().fetchall()) == [1, 2]
    assert [row[0] for row in first.pull().fetchall()] == [3]


def test_a_parameter_that_may_be_none_gets_nulls_and_others_do_not(db: Database) -> None:
    db.stream("orders").map_values(text=label).to("texts")
    assert fetched(db, "SELECT text FROM texts;") == [("ann: 120",), ("ann: 30",), ("bob: ?",)]

    def twice(amount: float) -> float:
        return 2 * amount

    db.stream("orders").map_values(double=twice).to("doubled")
    assert fetched(db, "SELECT double FROM doubled;") == [(240.0,), (60.0,), (None,)]


def test_rows_of_a_generator(db: Database) -> None:
    db.stream("orders").select("id", word=words).to("words")
    assert [row[1] for row in fetched(db, "SELECT * FROM words WHERE id = 2;")] == [
        "big",
        "end",
        "old",
    ]


def test_groups_and_keys_by_functions(db: Database) -> None:
    def initial(customer: str) -> str:
        return customer[0]

    db.stream("orders").group_by(letter=initial).count().to("letters")
    assert fetched(db, "SELECT * FROM letters;") == [("a", 2), ("b", 1)]
    db.stream("orders").select("customer", first=initial).select_key("first").to("by_letter")
    assert fetched(db, "SELECT first FROM by_letter;") == [("a",), ("a",), ("b",)]


def test_reduce_combines_the_values_of_a_group(db: Database) -> None:
    db.stream("orders").group_by("amount").count()
    reduced = db.stream("orders").group_by("customer").reduce(longer, "customer", name="longest")
    assert "LONGER(CUSTOMER) LONGEST" in reduced.sql
    db.stream("orders").select("id", "customer", town=col("home").field("town")).to("towns")
    db.stream("towns").group_by("customer").reduce(longer, "town").to("longest")
    assert fetched(db, "SELECT * FROM longest;") == [("ann", "Bonn"), ("bob", None)]
    db.insert("towns", [(9, "ann", "Regensburg"), (10, "bob", "Ulm"), (11, "ann", None)])
    assert fetched(db, "SELECT * FROM longest;") == [("ann", "Regensburg"), ("bob", "Ulm")]
    with pytest.raises(MillstreamError, match="LONGER"):
        db.table("longest").group_by("reduced").reduce(longer, "reduced").to("never")
    with pytest.raises(TypeError, match="two values of one type"):
        db.stream("orders").group_by("customer").reduce(large, "amount")


@pytest.mark.parametrize("kind", [Home, Place, Address, Site])
def test_structs_are_rows_of_classes(db: Database, kind: type) -> None:
    def moved(home: Any) -> Any:
        assert home is None or type(home) is (dict if kind is Site else kind)
        town = home["town"] if kind is Site else home.town
        return kind(town=town.upper(), zip=1)

    moved.__annotations__ = {"home": kind, "return": kind}
    db.stream("orders").select("id", home=moved).to("moved")
    assert fetched(db, "SELECT id, home->town, home->zip FROM moved;") == [
        (1, "ULM", 1),
        (2, None, None),
        (3, "BONN", 1),
    ]


def test_lists_and_dicts_of_rows() -> None:
    shape = shape_of(dict[str, list[Home]])
    assert shape.text == "MAP<STRING, ARRAY<STRUCT<TOWN STRING, ZIP BIGINT>>>"
    assert shape.load is not None and shape.dump is not None
    loaded = shape.load({"a": [{"TOWN": "Ulm", "ZIP": 1}, None], "b": None})
    assert loaded == {"a": [Home("Ulm", 1), None], "b": None}
    assert shape.dump(loaded) == {"a": [{"TOWN": "Ulm", "ZIP": 1}, None], "b": None}


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (bool, "BOOLEAN"),
        (int, "BIGINT"),
        (float | None, "DOUBLE"),
        (bytes, "BYTES"),
        (date, "DATE"),
        (datetime, "TIMESTAMP"),
        (Annotated[Decimal, "DECIMAL(10, 2)"], "DECIMAL(10, 2)"),
        (Annotated[int, "INTEGER"], "INTEGER"),
        (Annotated[int, 5], "BIGINT"),
        (Annotated[int, pydantic.Field(gt=0)], "BIGINT"),
        (Annotated[str, {"unhashable": 1}], "STRING"),
        (tuple[int, ...] | None, None),
        (int | str, None),
        (Decimal, None),
        (object, None),
        (Annotated[int, "NUMBER("], None),
        (dict[Home, int], None),
        ("int", None),
    ],
)
def test_the_type_of_an_annotation(annotation: Any, text: str | None) -> None:
    if text is not None:
        assert shape_of(annotation).text == text
        return
    with pytest.raises(TypeError):
        shape_of(annotation)


@dataclass
class Tree:
    children: list[Tree]


def no_annotation(amount) -> int:  # type: ignore[no-untyped-def]
    return int(amount)


def no_result(amount: float):  # type: ignore[no-untyped-def]
    return amount


def any_number(*amounts: float) -> float:
    return sum(amounts)


def unknown(amount: Missing) -> float:  # type: ignore[name-defined]  # noqa: F821
    return float(amount)


def within_itself(tree: Tree) -> int:
    return len(tree.children)


async def waiting(amount: float) -> float:
    return amount


class Rates:
    def __init__(self, factor: float) -> None:
        self.factor = factor

    def rated(self, amount: float) -> float:
        return self.factor * amount


def test_a_method_is_called_with_its_object(db: Database) -> None:
    rates = Rates(2.0)
    for _ in range(2):
        chain = db.stream("orders").select("id", rated=rates.rated)
        assert sorted(chain.pull().fetchall(), key=repr) == [(1, 60.0), (2, None), (3, 240.0)]
    with pytest.raises(ConflictError, match="RATED"):
        db.stream("orders").select("id", rated=Rates(3.0).rated)


@pytest.mark.parametrize(
    ("function", "told"),
    [
        (no_annotation, "parameter amount of no_annotation has no annotation"),
        (no_result, "the result of no_result has no annotation"),
        (any_number, "amounts is no plain parameter"),
        (unknown, "an annotation cannot be found"),
        (within_itself, "Tree is within itself"),
        (lambda amount: amount > 1, "has no name that SQL could call"),
        (waiting, "waiting is async"),
    ],
)
def test_functions_without_types_are_refused(
    db: Database, function: Callable[..., Any], told: str
) -> None:
    with pytest.raises(TypeError, match=told):
        db.stream("orders").map_values(made=function)
    with pytest.raises(TypeError, match=told):
        udf(function)


def test_a_name_stands_for_one_function(db: Database) -> None:
    db.stream("orders").filter(large).filter(large)

    def other(amount: float) -> bool:
        return amount > 1

    other.__name__ = "large"
    with pytest.raises(ConflictError, match="LARGE"):
        db.stream("orders").filter(other)
    other.__name__ = "ucase"
    with pytest.raises(ConflictError, match="UCASE"):
        db.stream("orders").filter(other)
    assert db.stream("orders").filter(large).select("id").pull().fetchall() == [(3,)]


def test_what_udf_makes_is_used_as_it_is(db: Database) -> None:
    @udf
    def halved(amount: float) -> float:
        """Half of it."""
        return amount / 2

    assert (halved.name, halved.description) == ("HALVED", "Half of it.")
    assert halved.signatures == ("DOUBLE AMOUNT -> DOUBLE",)
    db.register(halved)
    assert db.stream("orders").select("id", half=halved).pull().where(
        col("half") > 20
    ).fetchall() == [(3, 60.0)]
    arrow = udf("THIRD", "DOUBLE amount -> DOUBLE", lambda values: values, arrow=True)
    assert "THIRD(AMOUNT)" in db.stream("orders").select("id", x=arrow).sql
    unnamed = udf("FOURTH", "DOUBLE -> DOUBLE", lambda value: value)
    with pytest.raises(TypeError, match=r"fn\.call\('FOURTH'"):
        db.stream("orders").select("id", x=unnamed)
    with pytest.raises(TypeError, match="Arrow"):
        udf("FIFTH", arrow=True)(large)
    assert udf("RENAMED")(large).name == "RENAMED"
    assert udtf(words).signatures == ("ARRAY<STRING> TAGS -> STRING",)
    assert annotated(label).nulls and not annotated(large).nulls


def test_explain_marks_functions_of_python(db: Database) -> None:
    chain = db.stream("orders").filter(large).select("id", upper=fn.ucase(col("customer")))
    plan = chain.explain(stage="PLAN").fetchone()
    assert plan is not None and "LARGE(AMOUNT) [Python]" in plan[1]
    assert "UCASE(CUSTOMER) [" not in plan[1]


def test_a_file_is_opened_with_the_functions_of_its_queries(tmp_path: Path) -> None:
    path = str(tmp_path / "orders.db")
    earliest = {"auto.offset.reset": "earliest"}
    with millstream.connect(path, properties=earliest) as db:
        db.execute(SOURCE)
        db.stream("orders").filter(large).select("id", "amount").to("marked")
        db.stream("orders").select("id", word=words).to("words")
        db.stream("orders").group_by("id").reduce(longer, "customer").to("longest")
    functions = [udf(large), udtf(words), reducer(longer)]
    with millstream.connect(path, functions=functions) as db:
        db.insert("orders", ROWS)
        assert fetched(db, "SELECT id FROM marked;") == [(3,)]
        assert db.stream("orders").filter(large).select("id").pull().fetchall() == [(3,)]
        assert len(fetched(db, "SELECT * FROM words;")) == 6
        assert fetched(db, "SELECT reduced FROM longest;") == [("ann",), ("ann",), ("bob",)]
        db.stream("orders").group_by("amount").reduce(longer, "customer").to("others")


def test_join_prior_takes_records_that_are_older(db: Database) -> None:
    db.execute(
        "CREATE STREAM seen (id INT KEY, what STRING)"
        " WITH (KAFKA_TOPIC='seen', PARTITIONS=2, VALUE_FORMAT='JSON');"
    )
    orders, seen = db.stream("orders"), db.stream("seen")
    chain = orders.join_prior(
        seen, on=orders["id"] == seen["id"], within="1 minute", grace="0 seconds"
    ).select(orders["id"], what=col("what"))
    assert "WITHIN (1 MINUTES, 0 SECONDS)" in chain.sql
    chain.to("pairs")
    for row in ((1000, 7, "before"), (2000, 7, "same"), (2001, 7, "after")):
        db.insert("seen", [row], columns=["ROWTIME", "id", "what"])
    db.insert("orders", [(2000, 7)], columns=["ROWTIME", "id"])
    assert fetched(db, "SELECT what FROM pairs;") == [("before",), ("same",)]
