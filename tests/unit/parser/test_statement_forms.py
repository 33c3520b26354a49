"""Every form of statement: text -> value -> canonical text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millstream_parser import parse, parse_expression, parse_type, print_statement
from millstream_parser.statements import (
    AliasedSource,
    AlterSource,
    AssertSchema,
    AssertSource,
    AssertTopic,
    AssertValues,
    ColumnRole,
    ControlQuery,
    CopyFrom,
    CreateAs,
    CreateConnector,
    CreateSource,
    CreateType,
    DefineVariable,
    Describe,
    DropConnector,
    DropSource,
    DropType,
    Duration,
    Element,
    Explain,
    InsertInto,
    InsertValues,
    Join,
    Listing,
    Peek,
    PrintTopic,
    Query,
    RunScript,
    SelectItem,
    SelectStatement,
    SetProperty,
    Show,
    Spool,
    Statement,
    WindowClause,
    Within,
)

e = parse_expression
t = parse_type
STAR = SelectItem(e("f(*)").expressions[0])
ORDERS = AliasedSource("ORDERS")
ALL_ORDERS = Query((STAR,), ORDERS)
CHANGES = Query((STAR,), ORDERS, emit="CHANGES")
HOUR = Duration(1, "HOURS")
COUNT = SelectItem(e("COUNT(*)"), "N")
ID = Element("ID", t("BIGINT"), ColumnRole.KEY)
PRIMARY_ID = Element("ID", t("BIGINT"), ColumnRole.PRIMARY_KEY)
NOTE = Element("NOTE", t("STRING"))
TOPIC = (("KAFKA_TOPIC", "o"), ("PARTITIONS", 4))


def windowed(window: WindowClause) -> CreateAs:
    items = (SelectItem(e("id")), COUNT)
    query = Query(items, ORDERS, window=window, group_by=(e("id"),), emit="CHANGES")
    return CreateAs("TABLE", "T", query)


WINDOWED = "create table t as select id, count(*) n from orders window {} group by id"

TWO = replace(CHANGES, union=(Query((STAR,), AliasedSource("S", "UNION"), emit="CHANGES"),))
FORMS: list[tuple[int, str, Statement]] = [
    (1, "select * from orders emit changes", SelectStatement(CHANGES)),
    (2, "select * from orders", SelectStatement(ALL_ORDERS)),
    (
        3,
        "select id from orders where id = 1 limit 5",
        SelectStatement(Query((SelectItem(e("id")),), ORDERS, where=e("id = 1"), limit=5)),
    ),
    (
        4,
        "create stream orders (id bigint key, note varchar) with (kafka_topic='o', partitions=4)",
        CreateSource("STREAM", "ORDERS", (ID, NOTE), TOPIC),
    ),
    (
        5,
        "create or replace stream orders (id bigint key)",
        CreateSource("STREAM", "ORDERS", (ID,), or_replace=True),
    ),
    (
        6,
        "create source stream if not exists orders with ('kafka_topic'='o', \"partitions\"=4)",
        CreateSource("STREAM", "ORDERS", (), TOPIC, if_not_exists=True, read_only=True),
    ),
    (
        7,
        "create table orders (id bigint primary key, note string)",
        CreateSource("TABLE", "ORDERS", (PRIMARY_ID, NOTE)),
    ),
    (
        8,
        "create or replace table orders (id bigint primary key)",
        CreateSource("TABLE", "ORDERS", (PRIMARY_ID,), or_replace=True),
    ),
    (
        9,
        "create source table orders (id bigint primary key)",
        CreateSource("TABLE", "ORDERS", (PRIMARY_ID,), read_only=True),
    ),
    (10, "create stream s as select * from orders", CreateAs("STREAM", "S", CHANGES)),
    (
        1,
        "select * from orders union all select * from s union emit changes limit 2",
        SelectStatement(replace(TWO, limit=2)),
    ),
    (
        10,
        "create stream s as select * from orders union all select * from s as union",
        CreateAs("STREAM", "S", TWO),
    ),
    (
        11,
        "create or replace stream if not exists s with (partitions=4) as select * from orders",
        CreateAs("STREAM", "S", CHANGES, (("PARTITIONS", 4),), True, True),
    ),
    (12, "create table t as select * from orders emit changes", CreateAs("TABLE", "T", CHANGES)),
    (
        13,
        "create or replace table t as select * from orders",
        CreateAs("TABLE", "T", CHANGES, or_replace=True),
    ),
    (
        14,
        WINDOWED.format("tumbling (size 1 hour, retention 2 days, grace period 0 seconds)"),
        windowed(
            WindowClause(
                "TUMBLING", HOUR, None, retention=Duration(2, "DAYS"), grace=Duration(0, "SECONDS")
            )
        ),
    ),
    (
        14,
        WINDOWED.format("w hopping (size 1 hour, advance by 5 minutes)"),
        windowed(WindowClause("HOPPING", HOUR, Duration(5, "MINUTES"), name="W")),
    ),
    (14, WINDOWED.format("session (1 hours)"), windowed(WindowClause("SESSION", HOUR))),
    (15, "drop stream if exists s", DropSource("STREAM", "S", if_exists=True)),
    (16, "drop table `t`", DropSource("TABLE", "t")),
    (17, "drop stream s delete topic", DropSource("STREAM", "S", delete_topic=True)),
    (18, "alter stream s add column a int", AlterSource("STREAM", "S", (("A", t("INT")),))),
    (
        19,
        "alter table t add a int, add column column array<int>",
        AlterSource("TABLE", "T", (("A", t("INT")), ("COLUMN", t("ARRAY<INT>")))),
    ),
    (
        20,
        "create type if not exists address as struct<street string, zip int>",
        CreateType("ADDRESS", t("STRUCT<street STRING, zip INT>"), if_not_exists=True),
    ),
    (21, "drop type if exists address", DropType("ADDRESS", if_exists=True)),
    (
        22,
        "insert into orders (id, `note`) values (1, concat('a', 'b'))",
        InsertValues("ORDERS", ("ID", "note"), ((e("1"), e("concat('a', 'b')")),)),
    ),
    (22, "insert into orders values (-1)", InsertValues("ORDERS", (), ((e("-1"),),))),
    (
        22,
        "insert into orders (id) values (1), (concat('a', 'b')),(null)",
        InsertValues("ORDERS", ("ID",), ((e("1"),), (e("concat('a', 'b')"),), (e("null"),))),
    ),
    (
        23,
        "insert into s with (query_id='mine') select * from orders",
        InsertInto("S", CHANGES, (("QUERY_ID", "mine"),)),
    ),
    (24, "terminate ctas_t_0", ControlQuery("TERMINATE", "CTAS_T_0")),
    (25, "terminate all", ControlQuery("TERMINATE", None)),
    (26, "terminate `transient_T_12`", ControlQuery("TERMINATE", "transient_T_12")),
    (27, "pause ctas_t_0", ControlQuery("PAUSE", "CTAS_T_0")),
    (28, "pause all", ControlQuery("PAUSE", None)),
    (29, "resume ctas_t_0", ControlQuery("RESUME", "CTAS_T_0")),
    (30, "resume all", ControlQuery("RESUME", None)),
    (
        31,
        "set 'auto.offset.reset' = 'earliest'",
        SetProperty("auto.offset.reset", "earliest"),
    ),
    (32, "unset 'auto.offset.reset'", SetProperty("auto.offset.reset", None)),
    (33, "alter system 'a' = 'b'", SetProperty("a", "b", system=True)),
    (34, "define v = '''x'''", DefineVariable("V", "'x'")),
    (35, "undefine v", DefineVariable("V", None)),
    (
        36,
        "assert topic Orders with (partitions=4) timeout 5 seconds",
        AssertTopic("Orders", (("PARTITIONS", 4),), Duration(5, "SECONDS")),
    ),
    (37, "assert not exists topic 'a-b'", AssertTopic("a-b", exists=False)),
    (
        38,
        "assert schema subject 'o-value' id 3 timeout 1 minute",
        AssertSchema("o-value", 3, Duration(1, "MINUTES")),
    ),
    (39, "assert not exists schema id 3", AssertSchema(None, 3, exists=False)),
    (
        40,
        "create source connector if not exists c with (\"connector.class\"='x', 'Tasks'=1)",
        CreateConnector("SOURCE", "C", (("connector.class", "x"), ("Tasks", 1)), True),
    ),
    (41, "create sink connector 'my-c' with ()", CreateConnector("SINK", "my-c", ())),
    (42, "drop connector if exists c", DropConnector("C", if_exists=True)),
    (43, "describe connector 'my-c'", Describe("CONNECTOR", "my-c")),
    (44, "show connectors", Show(Listing.CONNECTORS)),
    (45, "list source connectors", Show(Listing.SOURCE_CONNECTORS)),
    (46, "show sink connectors", Show(Listing.SINK_CONNECTORS)),
    (47, "show connector plugins", Show(Listing.CONNECTOR_PLUGINS)),
    (48, "show properties", Show(Listing.PROPERTIES)),
    (49, "show topics", Show(Listing.TOPICS)),
    (50, "list all topics", Show(Listing.TOPICS, all=True)),
    (51, "show topics extended", Show(Listing.TOPICS, extended=True)),
    (52, "show all topics extended", Show(Listing.TOPICS, extended=True, all=True)),
    (53, "list streams", Show(Listing.STREAMS)),
    (54, "show streams extended", Show(Listing.STREAMS, extended=True)),
    (55, "show tables", Show(Listing.TABLES)),
    (56, "show tables extended", Show(Listing.TABLES, extended=True)),
    (57, "show functions", Show(Listing.FUNCTIONS)),
    (58, "show types", Show(Listing.TYPES)),
    (59, "show variables", Show(Listing.VARIABLES)),
    (60, "show queries", Show(Listing.QUERIES)),
    (61, "show queries extended", Show(Listing.QUERIES, extended=True)),
    (61, "list terminated queries", Show(Listing.TERMINATED_QUERIES)),
    (62, "describe orders", Describe("SOURCE", "ORDERS")),
    (62, "describe `TABLES`", Describe("SOURCE", "TABLES")),
    (63, "describe orders extended", Describe("SOURCE", "ORDERS", extended=True)),
    (64, "describe streams extended", Describe("STREAMS", "", extended=True)),
    (65, "describe tables", Describe("TABLES", "")),
    (66, "describe function substring", Describe("FUNCTION", "SUBSTRING")),
    (67, "explain ctas_t_0", Explain(None, "CTAS_T_0")),
    (68, "explain select * from orders", Explain(SelectStatement(ALL_ORDERS))),
    (
        68,
        "explain (topology) create stream s as select * from orders",
        Explain(CreateAs("STREAM", "S", CHANGES), stage="TOPOLOGY"),
    ),
    (68, "explain (plan) ctas_t_0", Explain(None, "CTAS_T_0", "PLAN")),
    (
        69,
        "print Orders from beginning interval 2 limit 3",
        PrintTopic("Orders", True, 2, 3),
    ),
    (69, "print 'a-b' sample 2", PrintTopic("a-b", interval=2)),
    (70, "run script 'a.sql'", RunScript("a.sql")),
    (71, "spool 'out.txt'", Spool("out.txt")),
    (71, "spool /tmp/out.txt", Spool("/tmp/out.txt")),
    (71, "spool off", Spool(None)),
    (
        72,
        "assert values s (id, rowtime) values (1, 10)",
        AssertValues("S", ("ID", "ROWTIME"), (e("1"), e("10"))),
    ),
    (73, "assert null values t (id) key (1)", AssertValues("T", ("ID",), (e("1"),), True)),
    (74, "assert stream s (id bigint key)", AssertSource("STREAM", "S", (ID,))),
    (
        75,
        "assert table t (id bigint primary key) with (kafka_topic='o', partitions=4)",
        AssertSource("TABLE", "T", (PRIMARY_ID,), TOPIC),
    ),
    (
        76,
        "copy orders from 'o.csv' with (format='csv')",
        CopyFrom("ORDERS", "o.csv", (("FORMAT", "csv"),)),
    ),
    (77, "peek csas_words_1 at split limit 3", Peek("CSAS_WORDS_1", "split", 3)),
    (77, "peek `q` at 'The Split'", Peek("q", "The Split")),
]


@pytest.mark.parametrize(("form", "text", "expected"), FORMS, ids=[f"{n}-{s}" for n, s, _ in FORMS])
def test_form(form: int, text: str, expected: Statement) -> None:
    assert parse(text) == (expected,)
    assert parse(print_statement(expected) + ";") == (expected,)


def test_no_form_is_left_out() -> None:
    """1 to 75 are the forms of the dialect, 76 is COPY, 77 is PEEK."""
    assert {form for form, _, _ in FORMS} == set(range(1, 78))


def test_joins() -> None:
    (statement,) = parse(
        "select a.*, b.x as y from a join b bb within 1 hour on a.k = bb.k"
        " full outer join c within (1 hour, 2 days) grace period 3 milliseconds on a.k = c.k"
        " left join d on a.k = d.k right outer join e on a.k = e.k emit changes"
    )
    assert isinstance(statement, SelectStatement)
    assert statement.query is not None
    assert statement.query.joins == (
        Join("INNER", AliasedSource("B", "BB"), e("a.k = bb.k"), Within(HOUR, HOUR)),
        Join(
            "FULL",
            AliasedSource("C"),
            e("a.k = c.k"),
            Within(HOUR, Duration(2, "DAYS"), Duration(3, "MILLISECONDS")),
        ),
        Join("LEFT", AliasedSource("D"), e("a.k = d.k")),
        Join("RIGHT", AliasedSource("E"), e("a.k = e.k")),
    )
    assert [item.alias for item in statement.query.items] == [None, "Y"]


@pytest.mark.parametrize(
    ("clause", "expected"),
    [
        ("a, b", ["a", "b"]),
        ("(a, b)", ["a", "b"]),
        ("(a)", ["a"]),
        ("(a), b", ["a", "b"]),
        ("(a + b) * c, d", ["(a + b) * c", "d"]),
        ("(a and b)", ["a and b"]),
        ("(not a), b", ["not a", "b"]),
    ],
)
def test_grouping(clause: str, expected: list[str]) -> None:
    for words in ("group by", "partition by"):
        (statement,) = parse(f"select a from s {words} {clause} emit changes")
        assert isinstance(statement, SelectStatement)
        assert statement.query is not None
        found = statement.query.group_by or statement.query.partition_by
        assert found == tuple(e(text) for text in expected)


def test_headers() -> None:
    (statement,) = parse("create stream s (h bytes header('k'), a array<bytes> headers)")
    assert isinstance(statement, CreateSource)
    assert [(x.role, x.header) for x in statement.elements] == [
        (ColumnRole.HEADER, "k"),
        (ColumnRole.HEADERS, None),
    ]


def test_property_values() -> None:
    (statement,) = parse(
        "create stream s with (a='x', b=1, c=-1, d=true, e=1e3, f=1.50, g=null, h=-1.5)"
    )
    assert isinstance(statement, CreateSource)
    assert statement.properties == (
        ("A", "x"),
        ("B", 1),
        ("C", -1),
        ("D", True),
        ("E", 1000.0),
        ("F", e("1.50")),
        ("G", e("null")),
        ("H", e("-1.5")),
    )
    assert parse(print_statement(statement)) == (statement,)


def test_scripts() -> None:
    text = "-- a comment; with a semicolon\n;; show streams; /* b; */ list tables -- c"
    assert parse(text) == (Show(Listing.STREAMS), Show(Listing.TABLES))
    assert parse("") == ()


def test_spans() -> None:
    text = "show streams;\n  select a + 1\n  from s emit changes;"
    first, second = parse(text)
    assert first.span is not None
    assert second.span is not None
    assert (second.span.line, second.span.column) == (2, 3)
    assert text[second.span.start : second.span.end] == text[16:-1]
    assert isinstance(second, SelectStatement)
    assert second.query is not None
    start, end = second.query.items[0].expression.meta["span"]
    assert text[start:end] == "a + 1"


def test_words_that_are_names_too() -> None:
    (statement,) = parse("select emit changes, partition, array, map, `from` from emit final")
    assert isinstance(statement, SelectStatement)
    assert statement.query is not None
    assert [item.alias for item in statement.query.items] == ["CHANGES", None, None, None, None]
    assert statement.query.source == AliasedSource("EMIT", "FINAL")


def test_an_alias_may_start_with_a_digit() -> None:
    (statement,) = parse("select a as 1st from s")
    assert isinstance(statement, SelectStatement)
    assert statement.query is not None
    assert statement.query.items[0].alias == "1ST"
    assert "`1ST`" in print_statement(statement)
