"""Which columns a star stands for, and in which order, in each kind of query.

The rule is that of ksqlDB's planner, described from outside in the reference (sql-statements §4,
§8, §10) and in RUNNER.md 11.1:

* A source gives its keys, then its window bounds, then its values as declared, then its header
  columns wherever they are declared (ksqlDB appends headers to the value that it has read), and no
  pseudo column. A persistent query over one windowed source leaves out the bounds, as its key
  carries them.
* A join gives the columns of its sources from left to right, each as `alias_column`, bounds
  included; the key of a join that no source has comes first in `*` and is not part of `alias.*`.
* After PARTITION BY come the new keys, then all that a record carries: values, headers, of joined
  sources the pseudo columns too, then the former keys; the made-up key of a join behind them.
* A key stands first in the schema of a persistent query; the rest keeps the order of selection.

`expected` implements this again, over a model of the sources, independently of the engine.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from itertools import product

import pytest

from millstream.catalog.catalog import Catalog
from millstream.functions.catalogue import builtin_catalogue
from millstream.model.errors import StatementError
from millstream.plan.build import plan_query
from millstream.plan.define import create_source
from millstream.plan.sinks import Client, NewSource, Target
from millstream_parser import parse, statements

PSEUDO = ("ROWTIME", "ROWPARTITION", "ROWOFFSET")
BOUNDS = ("WINDOWSTART", "WINDOWEND")


@dataclass(frozen=True)
class Model:
    """A source as the rule sees it. The first key is an INT, and so is FK."""

    name: str
    keys: tuple[str, ...]
    values: tuple[str, ...]
    headers: tuple[str, ...] = ()
    windowed: bool = False
    table: bool = False

    def star(self) -> tuple[str, ...]:
        bounds = BOUNDS if self.windowed else ()
        return (*self.keys, *bounds, *self.values, *self.headers)

    def record(self) -> tuple[str, ...]:
        return (*self.values, *self.headers, *PSEUDO, *self.keys)


MODELS = {
    model.name: model
    for model in (
        Model("S1", ("K",), ("FK", "V")),
        Model("S2", ("ID",), ("FK", "V"), headers=("H",)),
        Model("S3", ("K",), ("ROWKEY", "X")),
        Model("BARE", (), ("FK", "V")),
        Model("TWO", ("A", "B"), ("FK",)),
        Model("W1", ("K",), ("V",), windowed=True),
        Model("W2", ("K",), ("V",), headers=("H",), windowed=True),
        Model("T1", ("ID",), ("FK", "V"), table=True),
        Model("T2", ("ID",), ("NAME",), headers=("H",), table=True),
        Model("T3", ("NR",), ("V",), table=True),
    )
}
SOURCES = """
CREATE STREAM s1 (fk INT, k INT KEY, v INT) WITH (KAFKA_TOPIC='s1', FORMAT='JSON');
CREATE STREAM s2 (h BYTES HEADER('h'), fk INT, id INT KEY, v INT)
  WITH (KAFKA_TOPIC='s2', FORMAT='JSON');
CREATE STREAM s3 (k INT KEY, rowkey INT, x INT) WITH (KAFKA_TOPIC='s3', FORMAT='JSON');
CREATE STREAM bare (fk INT, v INT) WITH (KAFKA_TOPIC='bare', FORMAT='JSON');
CREATE STREAM two (a INT KEY, fk INT, b INT KEY) WITH (KAFKA_TOPIC='two', FORMAT='JSON');
CREATE STREAM w1 (k INT KEY, v INT)
  WITH (KAFKA_TOPIC='w1', FORMAT='JSON', WINDOW_TYPE='HOPPING', WINDOW_SIZE='4 SECONDS');
CREATE STREAM w2 (k INT KEY, h BYTES HEADER('h'), v INT)
  WITH (KAFKA_TOPIC='w2', FORMAT='JSON', WINDOW_TYPE='HOPPING', WINDOW_SIZE='4 SECONDS');
CREATE TABLE t1 (id INT PRIMARY KEY, fk INT, v INT) WITH (KAFKA_TOPIC='t1', FORMAT='JSON');
CREATE TABLE t2 (id INT PRIMARY KEY, h BYTES HEADER('h'), name STRING)
  WITH (KAFKA_TOPIC='t2', FORMAT='JSON');
CREATE TABLE t3 (nr INT PRIMARY KEY, v INT) WITH (KAFKA_TOPIC='t3', FORMAT='JSON');
"""


@cache
def catalog() -> Catalog:
    result = Catalog()
    for statement in parse(SOURCES):
        assert isinstance(statement, statements.CreateSource)
        result = result.with_source(create_source(statement, result, {}))
    return result


functions = cache(builtin_catalogue)


def names(query: str, kind: str) -> tuple[str, ...]:
    """The columns of the result; `kind` is STREAM, TABLE or PUSH."""
    sql = f"{query} EMIT CHANGES;" if kind == "PUSH" else f"CREATE {kind} o AS {query};"
    (statement,) = parse(sql)
    target: Target = Client()
    if isinstance(statement, statements.CreateAs):
        target, of = NewSource(statement.kind, statement.name, ()), statement.query
    else:
        assert isinstance(statement, statements.SelectStatement) and statement.query is not None
        of = statement.query
    found = plan_query(
        of, catalog(), target=target, properties={}, functions=functions(), script=sql
    )
    return (found.sink.schema if found.sink else found.node.schema).names


@dataclass(frozen=True)
class From:
    """A FROM clause: its sources, the key of its rows (`alias_column` in joins; None without one)
    and whether that key is made up."""

    text: str
    sources: tuple[Model, ...]
    key: str | None
    made_up: bool = False

    def expected(self, star: str, *, push: bool) -> tuple[str, ...]:
        """What `*` or `alias.*` stands for."""
        if len(self.sources) == 1:
            hidden = () if push else BOUNDS
            return tuple(name for name in self.sources[0].star() if name not in hidden)
        chosen = [s for s in self.sources if star in ("*", f"{s.name}.*")]
        found = tuple(f"{s.name}_{column}" for s in chosen for column in s.star())
        return (str(self.key), *found) if self.made_up and star == "*" else found


def key_first(selected: tuple[str, ...], key: tuple[str, ...]) -> tuple[str, ...]:
    return (*key, *(name for name in selected if name not in key))


def joins() -> Iterator[From]:
    """Joins of two and three sources: each kind, by keys, by values, by expressions."""
    streams = [MODELS[name] for name in ("S1", "S2", "S3", "BARE", "TWO")]
    tables = [MODELS[name] for name in ("T1", "T2", "T3")]
    windowed = [MODELS["W1"], MODELS["W2"]]
    pairs = [(a, b) for a, b in product(streams, streams) if a != b]
    pairs += [(a, b) for a, b in product(windowed, windowed) if a != b]
    for (a, b), kind in product(pairs, ("", "LEFT ", "RIGHT ", "FULL ")):
        for left, right in product(_sides(a), _sides(b)):
            yield _joined(a, b, kind, left, right, " WITHIN 1 HOUR")
    for (a, b), kind in product(product(streams, tables), ("", "LEFT ")):
        for left in _sides(a):
            yield _joined(a, b, kind, left, b.keys[0])
    for (a, b), kind in product(product(tables, tables), ("", "LEFT ", "RIGHT ", "FULL ")):
        if a != b:
            yield _joined(a, b, kind, a.keys[0], b.keys[0])
    for b, kind in product((MODELS["T2"], MODELS["T3"]), ("", "LEFT ")):
        made = _joined(MODELS["T1"], b, kind, "FK", b.keys[0])
        yield From(made.text, made.sources, "T1_ID")


def _sides(model: Model) -> tuple[str, ...]:
    """Expressions to join by: the key, a value, a computed value."""
    if model.windowed:
        return (model.keys[0],)
    value = "X" if model.name == "S3" else "FK"
    return (*model.keys[: len(model.keys) == 1], value, f"ABS({value})")


def _joined(a: Model, b: Model, kind: str, left: str, right: str, within: str = "") -> From:
    def qualified(model: Model, side: str) -> str:
        inner = f"{model.name}.{side.removeprefix('ABS(').removesuffix(')')}"
        return f"ABS({inner})" if side.startswith("ABS(") else inner

    condition = f"{qualified(a, left)} = {qualified(b, right)}"
    text = f"{a.name} {kind}JOIN {b.name}{within} ON {condition}"
    plain = [f"{m.name}_{s}" for m, s in ((a, left), (b, right)) if not s.startswith("ABS(")]
    if kind == "RIGHT ":
        plain.sort(key=lambda name: not name.startswith(f"{b.name}_"))
    if kind == "FULL " or not plain:
        taken = any("ROWKEY" in m.values for m in (a, b))
        return From(text, (a, b), "ROWKEY_1" if taken else "ROWKEY", made_up=True)
    return From(text, (a, b), plain[0])


JOINS = tuple(joins())


@pytest.mark.parametrize("part", range(8))
@pytest.mark.parametrize("push", [False, True], ids=["persistent", "push"])
def test_joins(part: int, push: bool) -> None:
    for of in JOINS[part::8]:
        table = all(source.table for source in of.sources)
        kind = "PUSH" if push else "TABLE" if table else "STREAM"
        assert of.key is not None
        star = of.expected("*", push=push)
        key = () if push else (of.key,)
        assert names(f"SELECT * FROM {of.text}", kind) == key_first(star, key), of.text
        for source in of.sources:
            mine = of.expected(f"{source.name}.*", push=push)
            listed = f"{source.name}.*"
            wanted = mine if push or of.key in mine else (of.key, *mine)
            if wanted != mine:  # the key of a persistent query must be selected, too
                listed += f", {of.key if of.made_up else of.key.replace('_', '.', 1)} AS {of.key}"
            assert names(f"SELECT {listed} FROM {of.text}", kind) == key_first(wanted, key), of.text


THREE = [
    (
        f"{of.text} {kind}JOIN {third}",
        (*of.sources, MODELS[third.split()[0]]),
        "FULL" in kind,
    )
    for of in JOINS
    if " WITHIN " in of.text and not of.sources[0].windowed and "V" in of.sources[0].values
    for kind, third in (
        ("", "T2 ON {}.V = T2.ID"),
        ("LEFT ", "T3 ON ABS({}.V) = T3.NR"),
        ("FULL ", "S3 WITHIN 1 HOUR ON {}.V = S3.K"),
    )
    if MODELS[third.split()[0]] not in of.sources
]


def test_three_sources() -> None:
    """The key that an earlier join makes up is a column of no star."""
    for text, sources, made_up in random.Random(3).sample(THREE, 80):
        star = tuple(f"{s.name}_{column}" for s in sources for column in s.star())
        key = ("ROWKEY_1",) if made_up else ()
        sql = f"SELECT * FROM {text.format(sources[0].name)}"
        assert names(sql, "PUSH") == (*key, *star), sql


@pytest.mark.parametrize("of", [o for o in JOINS if o.made_up][::7], ids=lambda of: of.text)
def test_a_made_up_key_is_in_the_star_of_all_sources_alone(of: From) -> None:
    both = ", ".join(f"{source.name}.*" for source in of.sources)
    kind = "TABLE" if all(source.table for source in of.sources) else "STREAM"
    with pytest.raises(StatementError, match=f"the join expression {of.key} in its projection"):
        names(f"SELECT {both} FROM {of.text}", kind)


@pytest.mark.parametrize("model", MODELS.values(), ids=lambda model: model.name)
def test_one_source(model: Model) -> None:
    kind = "TABLE" if model.table else "STREAM"
    for star in ("*", f"{model.name}.*"):
        assert names(f"SELECT {star} FROM {model.name}", "PUSH") == model.star()
        persistent = tuple(name for name in model.star() if name not in BOUNDS)
        assert names(f"SELECT {star} FROM {model.name}", kind) == persistent


def partitionings() -> Iterator[tuple[From, str, tuple[str, ...], tuple[str, ...]]]:
    """(FROM, the clause, the new keys in its order, the columns of the star in theirs)."""
    for model in MODELS.values():
        if model.table or model.windowed:
            continue
        alone = From(model.name, (model,), None)
        columns = tuple(name for name in model.record() if name not in PSEUDO)
        yield alone, "NULL", (), columns
        for chosen in [(name,) for name in columns] + [columns[:2], columns[1::-1]]:
            yield alone, ", ".join(chosen), chosen, key_first(columns, _in_order(columns, chosen))
        yield alone, "ABS(FK + 1)" if "FK" in columns else "ABS(X)", ("KSQL_COL_0",), (
            "KSQL_COL_0", *columns,
        )  # fmt: skip
    for of in random.Random(22).sample([o for o in JOINS if " WITHIN " in o.text], 60):
        if any(source.windowed for source in of.sources):
            continue
        columns = tuple(f"{s.name}_{name}" for s in of.sources for name in s.record())
        columns += (str(of.key),) if of.made_up else ()
        for source in of.sources:
            new = f"{source.name}_{source.values[-1]}"
            clause = new.replace("_", ".", 1)
            yield of, clause, (new,), key_first(columns, (new,))
        if of.made_up:
            assert of.key is not None
            yield of, of.key, (of.key,), key_first(columns, (of.key,))


def _in_order(columns: tuple[str, ...], chosen: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(name for name in columns if name in chosen)


@pytest.mark.parametrize("part", range(4))
def test_partition_by(part: int) -> None:
    for of, clause, keys, star in list(partitionings())[part::4]:
        sql = f"SELECT * FROM {of.text} PARTITION BY {clause}"
        assert names(sql, "PUSH") == star, sql
        if len(keys) < len(star):  # a record needs a value
            assert names(sql, "STREAM") == key_first(star, keys), sql


STRUCTS = [
    ("n->*", ("A", "B", "C")),
    ("s.n->*", ("A", "B", "C")),
    ("n->c->*", ("D", "E")),
    ("l[1]->*", ("X", "Y")),
    ("m['k']->*", ("X", "Y")),
    ("STRUCT(p := v, `q` := 1)->*", ("P", "q")),
    ("n->*, n->c->*", ("A", "B", "C", "D", "E")),
    ("n->a AS z, n->*", ("Z", "A", "B", "C")),
    ("n->*, v, l[1]->*", ("A", "B", "C", "V", "X", "Y")),
    ("key->*", ("KA", "KB")),
]
OF_STRUCTS = """
CREATE STREAM s (key STRUCT<ka INT, kb INT> KEY, v INT,
    n STRUCT<a INT, b STRING, c STRUCT<d INT, e INT>>,
    l ARRAY<STRUCT<x INT, y INT>>, m MAP<STRING, STRUCT<x INT, y INT>>)
  WITH (KAFKA_TOPIC='s', FORMAT='JSON');
"""


def of_struct(sql: str) -> tuple[str, ...]:
    made, statement = parse(OF_STRUCTS + sql)
    assert isinstance(made, statements.CreateSource)
    known = Catalog().with_source(create_source(made, Catalog(), {}))
    assert isinstance(statement, statements.SelectStatement) and statement.query is not None
    found = plan_query(
        statement.query, known, target=Client(), properties={}, functions=functions()
    )
    return found.node.schema.names


@pytest.mark.parametrize(("items", "columns"), STRUCTS, ids=[items for items, _ in STRUCTS])
def test_fields_of_a_struct(items: str, columns: tuple[str, ...]) -> None:
    assert of_struct(f"SELECT {items} FROM s EMIT CHANGES;") == columns
    behind = of_struct(f"SELECT s.v AS first, {items}, s.l AS last FROM s EMIT CHANGES;")
    assert behind == ("FIRST", *columns, "LAST")


@pytest.mark.parametrize(
    ("items", "message"),
    [
        ("v->*", "Cannot expand V->*: it is INTEGER, not a STRUCT."),
        ("l->*", "Cannot expand L->*: it is ARRAY<STRUCT<`X` INTEGER, `Y` INTEGER>>"),
        ("n->*, n->*", "Duplicate value columns found in schema: `A` INTEGER"),
        ("other.*", "'OTHER' is not a valid stream/table name or alias."),
        ("*, v", "Duplicate value columns found in schema: `V` INTEGER"),
        ("v AS rowtime", "`ROWTIME` is a reserved column name."),
    ],
)
def test_refused(items: str, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        of_struct(f"SELECT {items} FROM s EMIT CHANGES;")
    assert message in caught.value.message
