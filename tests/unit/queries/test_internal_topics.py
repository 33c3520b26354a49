"""Internal topics under any prefix: hidden, marked, and never changed by a statement."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import millstream
from millstream import Database, Rows, StatementError
from millstream.model.settings import EngineSettings
from millstream.topology.topology import owner_of
from tests.unit.conftest import EARLIEST, SPENDING, fill

NAMINGS = [
    EngineSettings(),
    EngineSettings(internal_prefix="_millstream.shop.", command_topic="_millstream.shop.commands"),
    EngineSettings(internal_prefix="zz-", command_topic="statements"),
]
COMMANDS = "CREATE STREAM c (v STRING) WITH (KAFKA_TOPIC='{}', VALUE_FORMAT='KAFKA');"


@pytest.fixture(params=NAMINGS, ids=lambda naming: naming.internal_prefix)
def named(request: pytest.FixtureRequest) -> Iterator[Database]:
    """A shop whose internal topics have the names of a service."""
    with millstream.connect(properties=EARLIEST, settings=request.param) as database:
        fill(database)
        database.execute(SPENDING)
        yield database


def listed(db: Database, sql: str) -> list[tuple[object, ...]]:
    found = db.execute(sql)
    assert isinstance(found, Rows)
    return found.fetchall()


def test_show_topics_hides_them_and_show_all_topics_marks_them(named: Database) -> None:
    settings = named.engine.settings
    assert [row[0] for row in listed(named, "SHOW TOPICS;")] == ["SPENDING", "orders"]
    assert [row[0] for row in listed(named, "SHOW TOPICS EXTENDED;")] == ["SPENDING", "orders"]
    every = named.execute("SHOW ALL TOPICS;")
    assert isinstance(every, Rows)
    assert every.columns == ["Kafka Topic", "Partitions", "Partition Replicas", "Internal"]
    marks = {row[0]: row[3] for row in every}
    assert marks.pop("SPENDING") == marks.pop("orders") == "false"
    assert settings.command_topic in marks and len(marks) > 1
    assert set(marks.values()) == {"true"}
    extended = listed(named, "SHOW ALL TOPICS EXTENDED;")
    assert {row[0]: row[3] for row in extended} == {**marks, "SPENDING": "false", "orders": "false"}


def test_statements_read_internal_topics_and_do_not_change_them(named: Database) -> None:
    settings = named.engine.settings
    named.execute(COMMANDS.format(settings.command_topic))
    read = named.execute("SELECT * FROM c EMIT CHANGES LIMIT 1;")
    assert len(list(read)) == 1
    before = named.engine.log.end_offset(settings.command_topic, 0)
    for sql in (
        "INSERT INTO c VALUES ('DROP STREAM orders;');",
        "INSERT INTO c SELECT * FROM c;",
        "DROP STREAM c DELETE TOPIC;",
        f"CREATE STREAM d WITH (KAFKA_TOPIC='{settings.internal_prefix}d') AS SELECT * FROM c;",
        f"CREATE STREAM e (v STRING) WITH (KAFKA_TOPIC='{settings.internal_prefix}e', "
        "PARTITIONS=1, VALUE_FORMAT='JSON');",
    ):
        with pytest.raises(StatementError, match="internal to the service"):
            named.execute(sql)
    assert named.engine.log.end_offset(settings.command_topic, 0) == before
    assert {"C"} == named.engine.catalog.sources.keys() - {"ORDERS", "SPENDING"}

    named.execute("DROP STREAM c;")


def test_a_query_s_internal_topics_go_with_it(named: Database) -> None:
    def owners() -> set[str]:
        prefix = named.engine.settings.internal_prefix
        found = {owner_of(topic.name, prefix) for topic in named.engine.log.topics()}
        return {query for query in found if query is not None}

    (query_id,) = named.engine.catalog.queries
    assert owners() == {query_id}
    named.execute("DROP TABLE spending;")
    assert owners() == set()


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        ("p.Q-0-repartition", "Q"),
        ("p.Q-1-changelog-2-subscription", "Q-1-changelog"),
        ("p.a-b-12-response", "a-b"),
        ("p.commands", None),
        ("p.-0-changelog", None),
        ("pxQ-0-changelog", None),
        ("Q-0-changelog", None),
        ("p.Q-x-changelog", None),
    ],
)
def test_the_owner_of_an_internal_topic(topic: str, owner: str | None) -> None:
    assert owner_of(topic, "p.") == owner
