"""What each statement that changes the catalog comes to, and for what it is refused."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from millstream.catalog.catalog import TERMINATED_MAX
from millstream.ddl.effects import (
    BackfillQuery,
    CreateTopic,
    DeleteTopic,
    Effect,
    EndQuery,
    PauseQuery,
    ReplacedTable,
    ReplaceQuery,
    ResumeQuery,
    StartQuery,
)
from millstream.ddl.snapshot import CatalogSnapshot
from millstream.ddl.topics import PlannedTopics
from millstream.log.log import AS_THE_CLUSTER, Topic
from millstream.model.errors import ConflictError, StatementError
from tests.unit.ddl.folding import CREATED, Existing, Fold, differences, folded


def compact(name: str, partitions: int, replicas: int = AS_THE_CLUSTER) -> CreateTopic:
    return CreateTopic(Topic(name, partitions, replicas, {"cleanup.policy": "compact"}))


def plain(name: str, partitions: int, replicas: int = AS_THE_CLUSTER) -> CreateTopic:
    return CreateTopic(Topic(name, partitions, replicas, {"cleanup.policy": "delete"}))


@dataclass(frozen=True)
class Accepted:
    sql: str
    message: str
    changed: str
    """What differs in the catalog, in the words of `differences`."""
    effects: tuple[Effect, ...] = ()
    query_id: str | None = None


SPENDING = "CREATE OR REPLACE TABLE spending {}AS SELECT customer, SUM(total) AS total FROM orders {}GROUP BY customer;"  # noqa: E501
ENDED = EndQuery("CTAS_SPENDING_5", CREATED["CTAS_SPENDING_5"])
ACCEPTED = (
    Accepted(
        "CREATE STREAM new (v INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');",
        "Stream created",
        "+source NEW",
    ),
    Accepted(
        "CREATE TABLE new (k INT PRIMARY KEY, v INT)"
        " WITH (KAFKA_TOPIC='new', PARTITIONS=4, REPLICAS=2, VALUE_FORMAT='JSON');",
        "Table created",
        "+source NEW",
        (compact("new", 4, 2),),
    ),
    Accepted(
        "CREATE SOURCE TABLE new (k INT PRIMARY KEY, v INT)"
        " WITH (KAFKA_TOPIC='new', PARTITIONS=4, VALUE_FORMAT='JSON');",
        "Table created",
        "+source NEW, +query CST_NEW_9, +plan CST_NEW_9",
        (compact("new", 4), StartQuery("CST_NEW_9")),
    ),
    Accepted(
        "CREATE SOURCE STREAM new (v INT) WITH (KAFKA_TOPIC='orders', VALUE_FORMAT='JSON');",
        "Stream created",
        "+source NEW",
    ),
    Accepted(
        "CREATE OR REPLACE STREAM odd (id INT KEY, v INT, w INT)"
        " WITH (KAFKA_TOPIC='odd', VALUE_FORMAT='JSON');",
        "Stream created",
        "~source ODD",
    ),
    Accepted(
        "CREATE STREAM new AS SELECT id, total AS v FROM orders;",
        "Created query with ID CSAS_NEW_9",
        "+source NEW, +query CSAS_NEW_9, +plan CSAS_NEW_9",
        (plain("NEW", 2, 3), StartQuery("CSAS_NEW_9")),
        "CSAS_NEW_9",
    ),
    Accepted(
        "CREATE TABLE new WITH (KAFKA_TOPIC='orders') AS"
        " SELECT id, COUNT(*) AS n FROM odd GROUP BY id;",
        "Created query with ID CTAS_NEW_9",
        "+source NEW, +query CTAS_NEW_9, +plan CTAS_NEW_9",
        (StartQuery("CTAS_NEW_9"),),
        "CTAS_NEW_9",
    ),
    Accepted(
        "CREATE TABLE new WITH (BACKFILL='duckdb', PARTITIONS=5) AS"
        " SELECT id, COUNT(*) AS n FROM odd GROUP BY id;",
        "Created query with ID CTAS_NEW_9",
        "+source NEW, +query CTAS_NEW_9, +plan CTAS_NEW_9",
        (compact("NEW", 5, 1), BackfillQuery("CTAS_NEW_9")),
        "CTAS_NEW_9",
    ),
    Accepted(
        SPENDING.format("", "WHERE total > 5 "),
        "Created query with ID CTAS_SPENDING_5",
        "~source SPENDING, ~query CTAS_SPENDING_5, ~plan CTAS_SPENDING_5",
        (ReplaceQuery("CTAS_SPENDING_5"),),
        "CTAS_SPENDING_5",
    ),
    Accepted(
        SPENDING.format("WITH (BACKFILL='duckdb') ", ""),
        "Created query with ID CTAS_SPENDING_9",
        "~source SPENDING, -query CTAS_SPENDING_5, +query CTAS_SPENDING_9,"
        " -plan CTAS_SPENDING_5, +plan CTAS_SPENDING_9, -topics CTAS_SPENDING_5",
        (
            ENDED,
            BackfillQuery(
                "CTAS_SPENDING_9", ReplacedTable("SPENDING", "CTAS_SPENDING_5", "CTAS_SPENDING_5")
            ),
        ),
        "CTAS_SPENDING_9",
    ),
    Accepted(
        "INSERT INTO events SELECT id, total AS v FROM orders;",
        "Created query with ID INSERTQUERY_9",
        "+query INSERTQUERY_9, +plan INSERTQUERY_9",
        (StartQuery("INSERTQUERY_9"),),
        "INSERTQUERY_9",
    ),
    Accepted(
        "INSERT INTO events WITH (QUERY_ID='more') SELECT id, total AS v FROM orders;",
        "Created query with ID MORE",
        "+query MORE, +plan MORE",
        (StartQuery("MORE"),),
        "MORE",
    ),
    Accepted(
        "DROP TABLE spending;",
        "Source SPENDING (topic: SPENDING) was dropped.",
        "-source SPENDING, -query CTAS_SPENDING_5, -plan CTAS_SPENDING_5, -topics CTAS_SPENDING_5",
        (ENDED,),
    ),
    Accepted(
        "DROP STREAM larger DELETE TOPIC;",
        "Source LARGER (topic: LARGER) was dropped.",
        "-source LARGER, -query CSAS_LARGER_7, -plan CSAS_LARGER_7",
        (EndQuery("CSAS_LARGER_7"), DeleteTopic("LARGER", "")),
    ),
    Accepted(
        "DROP TABLE prices;",
        "Source PRICES (topic: prices) was dropped.",
        "-source PRICES, -query CST_PRICES_4, -plan CST_PRICES_4",
        (EndQuery("CST_PRICES_4"),),
    ),
    Accepted("ALTER STREAM odd ADD COLUMN w INT;", "Stream altered", "~source ODD"),
    Accepted(
        "CREATE TYPE name AS STRING;",
        "Registered custom type with name 'NAME' and SQL type STRING",
        "+type NAME",
    ),
    Accepted("DROP TYPE money;", "Dropped type 'MONEY'", "-type MONEY"),
    Accepted(
        "TERMINATE CTAS_SPENDING_5;",
        "Query terminated: CTAS_SPENDING_5",
        "-query CTAS_SPENDING_5, -plan CTAS_SPENDING_5, -topics CTAS_SPENDING_5",
        (ENDED,),
    ),
    Accepted(
        "TERMINATE ALL;",
        "Query terminated: CTAS_SPENDING_5, CSAS_LARGE_6, CSAS_LARGER_7, INSERTQUERY_8",
        "-query CSAS_LARGER_7, -query CSAS_LARGE_6, -query CTAS_SPENDING_5, -query INSERTQUERY_8,"
        " -plan CSAS_LARGER_7, -plan CSAS_LARGE_6, -plan CTAS_SPENDING_5, -plan INSERTQUERY_8,"
        " -topics CTAS_SPENDING_5",
        (ENDED, *map(EndQuery, ("CSAS_LARGE_6", "CSAS_LARGER_7", "INSERTQUERY_8"))),
    ),
    Accepted(
        "PAUSE CSAS_LARGE_6;",
        "Query paused: CSAS_LARGE_6",
        "+paused CSAS_LARGE_6",
        (PauseQuery("CSAS_LARGE_6"),),
    ),
    Accepted(
        "RESUME CSAS_LARGE_6;",
        "Query resumed: CSAS_LARGE_6",
        "",
        (ResumeQuery("CSAS_LARGE_6"),),
    ),
)
NOTHING_TO_DO = (
    ("CREATE STREAM IF NOT EXISTS odd (v INT) WITH (KAFKA_TOPIC='x', FORMAT='JSON');",
     "Stream ODD already exists; nothing was changed"),
    ("CREATE TABLE IF NOT EXISTS odd AS SELECT id, COUNT(*) FROM odd GROUP BY id;",
     "Table ODD already exists; nothing was changed"),
    ("CREATE TYPE IF NOT EXISTS money AS INT;", "Type MONEY already exists; nothing was changed"),
    ("DROP STREAM IF EXISTS nothing;", "Source NOTHING does not exist."),
    ("DROP TYPE IF EXISTS nothing;", "Type 'NOTHING' does not exist"),
)  # fmt: skip
BY_TOPICS = (
    ("CREATE STREAM new (v INT) WITH (KAFKA_TOPIC='none', FORMAT='JSON');",
     "Kafka topic does not exist: none"),
    ("CREATE STREAM new (v INT) WITH (KAFKA_TOPIC='odd', PARTITIONS=2, FORMAT='JSON');",
     "it has 3 partitions, the statement says 2"),
    ("CREATE STREAM new (v INT)"
     " WITH (KAFKA_TOPIC='_millstream_y', PARTITIONS=1, FORMAT='JSON');",
     "Cannot create topic '_millstream_y'"),
    ("CREATE STREAM new WITH (KAFKA_TOPIC='odd', PARTITIONS=2) AS SELECT * FROM odd;",
     "it has 3 partitions, the statement says 2"),
    ("CREATE STREAM new WITH (KAFKA_TOPIC='_millstream_x') AS SELECT * FROM odd;",
     "Cannot write to topic '_millstream_x'"),
    ("CREATE STREAM new AS SELECT a.id, v FROM orders a JOIN odd b WITHIN 1 HOUR ON a.id = b.id;",
     "don't match"),
    ("CREATE OR REPLACE STREAM larger WITH (BACKFILL='duckdb') AS SELECT * FROM orders;",
     "The past of stream LARGER cannot be recomputed"),
)  # fmt: skip
"""Refused for what there is when the statement is given, but not when it is replayed."""
REFUSED = (
    ("CREATE STREAM odd (v INT) WITH (KAFKA_TOPIC='odd', FORMAT='JSON');", "already exists"),
    ("CREATE STREAM new (v INT) WITH (FORMAT='JSON');", "KAFKA_TOPIC"),
    ("CREATE STREAM new (v INT) WITH (KAFKA_TOPIC='odd', FORMAT='KAFKA', KEY_FORMAT='JSON');",
     "FORMAT"),
    ("CREATE OR REPLACE STREAM odd (id INT KEY) WITH (KAFKA_TOPIC='odd', VALUE_FORMAT='JSON');",
     "missing or reordered: [`V` INTEGER]"),
    ("CREATE STREAM new AS SELECT nothing FROM odd;", "NOTHING"),
    ("CREATE STREAM odd AS SELECT * FROM orders;", "already exists"),
    ("CREATE OR REPLACE STREAM odd AS SELECT * FROM orders;", "it was created without a query"),
    ("CREATE STREAM new WITH (VALUE_FORMAT='KAFKA') AS SELECT * FROM orders;", "KAFKA"),
    (SPENDING.replace("SUM", "MAX").format("", ""), "aggregation or window changes"),
    ("INSERT INTO nothing SELECT * FROM odd;", "NOTHING"),
    ("INSERT INTO events SELECT id FROM odd;", ""),
    ("INSERT INTO events WITH (QUERY_ID='INSERTQUERY_8') SELECT id, v FROM odd;",
     "reserved prefix"),
    ("DROP STREAM large;", "CSAS_LARGER_7"),
    ("DROP TABLE odd;", "Incompatible data source type is STREAM"),
    ("DROP STREAM nothing;", "NOTHING does not exist"),
    ("ALTER STREAM odd ADD COLUMN v INT;", "V"),
    ("ALTER STREAM large ADD COLUMN w INT;", "CSAS_LARGE_6"),
    ("CREATE TYPE money AS INT;", "already registered"),
    ("DROP TYPE nothing;", "NOTHING"),
    ("TERMINATE nothing;", "Unknown queryId: NOTHING"),
    ("PAUSE CST_PRICES_4;", "CST_PRICES_4 belongs to a SOURCE TABLE"),
)  # fmt: skip


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.sql[:60])
def test_an_accepted_statement_gives_catalog_effects_and_message(case: Accepted) -> None:
    fold = folded()
    change = fold.plan(case.sql)
    assert change.message == case.message
    assert ", ".join(differences(fold.snapshot, change.after)) == case.changed
    assert change.effects == case.effects
    assert (change.query_id, change.changed) == (case.query_id, True)


@pytest.mark.parametrize(("sql", "message"), NOTHING_TO_DO)
def test_where_there_is_nothing_to_do_nothing_changes(sql: str, message: str) -> None:
    fold = folded()
    change = fold.plan(sql)
    assert (change.message, change.changed, change.effects) == (message, False, ())
    assert change.after is fold.snapshot


@pytest.mark.parametrize(("sql", "message"), (*REFUSED, *BY_TOPICS))
def test_a_refused_statement_says_why(sql: str, message: str) -> None:
    with pytest.raises((StatementError, ConflictError)) as raised:
        folded().plan(sql)
    assert message in str(raised.value)


@pytest.mark.parametrize("case", ACCEPTED, ids=lambda case: case.sql[:60])
def test_a_replayed_statement_gives_the_same_catalog(case: Accepted) -> None:
    """Whatever topics there are today, none is made or deleted for it."""
    fold = folded(replaying=True)
    change = fold.plan(case.sql)
    assert change.after == folded().plan(case.sql).after
    wanted = tuple(e for e in case.effects if not isinstance(e, CreateTopic | DeleteTopic))
    assert change.effects == wanted


@pytest.mark.parametrize(("sql", "message"), BY_TOPICS)
def test_a_replayed_statement_is_not_checked_against_topics(sql: str, message: str) -> None:
    assert folded(replaying=True).plan(sql).changed, message


def test_a_dropped_topic_can_be_made_anew_by_the_next_statement() -> None:
    fold = folded()
    fold.apply("DROP STREAM larger DELETE TOPIC;")
    made = "CREATE STREAM larger (v INT) WITH (KAFKA_TOPIC='LARGER', PARTITIONS=9, FORMAT='JSON');"
    assert fold.apply(made).effects == (plain("LARGER", 9),)
    known = fold.topics.topic("LARGER")
    assert known is not None and known.partitions == 9
    assert known in fold.topics.topics()


def test_a_resumed_query_is_not_paused_any_more() -> None:
    fold = folded()
    fold.apply("PAUSE ALL;")
    assert len(fold.snapshot.paused) == 4
    fold.apply("TERMINATE CSAS_LARGER_7;")
    fold.apply("RESUME CSAS_LARGE_6;")
    assert fold.snapshot.paused == {"CTAS_SPENDING_5", "INSERTQUERY_8"}
    assert fold.apply("RESUME ALL;").after.paused == frozenset()


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE OR REPLACE STREAM odd (id INT KEY, v INT)"
        " WITH (KAFKA_TOPIC='odd', VALUE_FORMAT='JSON');",
        SPENDING.format("", "WHERE total > 5 "),
    ],
)
def test_or_replace_can_be_switched_off(sql: str) -> None:
    with pytest.raises(StatementError, match="CREATE OR REPLACE is disabled"):
        folded().plan(sql, {"ksql.create.or.replace.enabled": "false"})


def test_a_table_is_not_computed_anew_out_of_itself() -> None:
    fold = folded()
    fold.apply("CREATE TABLE few AS SELECT * FROM spending WHERE total < 5;")
    fold.apply("CREATE TABLE fewer AS SELECT * FROM few WHERE total < 3;")
    with pytest.raises(StatementError, match="Table FEW cannot be recomputed from itself"):
        fold.plan(
            "CREATE OR REPLACE TABLE few WITH (BACKFILL='duckdb') AS"
            " SELECT * FROM fewer WHERE total < 5;"
        )


def test_a_statement_that_defines_nothing_is_a_fault_of_the_caller() -> None:
    with pytest.raises(TypeError, match="Show is no definition"):
        folded().plan("SHOW STREAMS;")


def test_an_id_that_a_user_chose_is_taken_once() -> None:
    fold = folded()
    sql = "INSERT INTO events WITH (QUERY_ID='more') SELECT id, v FROM odd;"
    fold.apply(sql)
    with pytest.raises(ConflictError, match="MORE"):
        fold.plan(sql)


def test_the_queries_of_an_engine_keep_the_properties_of_their_session() -> None:
    properties = {"auto.offset.reset": "earliest"}
    change = Fold(folded().snapshot, number=9, replaying=True).plan(
        "CREATE STREAM new AS SELECT * FROM odd;", properties
    )
    assert change.after.catalog.queries["CSAS_NEW_9"].properties == properties


def test_a_statement_asks_for_each_topic_once() -> None:
    asked = []

    class Asked(Existing):
        def topic(self, name: str) -> Topic | None:
            asked.append(name)
            return super().topic(name)

    fold = folded()
    fold.topics = PlannedTopics(Asked())
    fold.plan("CREATE TABLE new AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;")
    assert sorted(asked) == ["NEW", "orders"]


def ended(snapshot: CatalogSnapshot) -> list[tuple[str, int]]:
    return [(query.record.id, query.ended_at) for query in snapshot.catalog.terminated]


def test_terminated_queries_are_kept_newest_first() -> None:
    fold = folded()
    fold.apply("TERMINATE CSAS_LARGER_7;")
    fold.apply("DROP STREAM larger;")
    fold.apply("DROP TABLE spending;")
    fold.apply("DROP TABLE prices;")
    assert ended(fold.snapshot) == [
        ("CST_PRICES_4", 12_000),
        ("CTAS_SPENDING_5", 11_000),
        ("CSAS_LARGER_7", 9_000),
    ]
    after = fold.apply("TERMINATE ALL;").after
    assert ended(after)[:2] == [("CSAS_LARGE_6", 13_000), ("INSERTQUERY_8", 13_000)]


def test_a_replaced_query_is_not_terminated() -> None:
    fold = folded()
    fold.apply(SPENDING.format("", "WHERE total > 5 "))
    fold.apply(SPENDING.format("WITH (BACKFILL='duckdb') ", ""))
    assert "CTAS_SPENDING_5" not in fold.snapshot.catalog.queries
    assert ended(fold.snapshot) == []


def test_only_the_last_terminated_queries_are_kept() -> None:
    fold = folded()
    for number in range(TERMINATED_MAX + 5):
        fold.apply(f"INSERT INTO events WITH (QUERY_ID='q{number}') SELECT id, v FROM odd;")
        fold.apply(f"TERMINATE q{number};")
    kept = [name for name, _ in ended(fold.snapshot)]
    assert len(kept) == TERMINATED_MAX
    assert (kept[0], kept[-1]) == (f"Q{TERMINATED_MAX + 4}", "Q5")
