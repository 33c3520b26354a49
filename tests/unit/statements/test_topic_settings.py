"""ALTER TOPIC, and what SHOW TOPICS EXTENDED tells of the records that are there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import millstream
from millstream import Database
from millstream.log import policy
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.model.errors import MillstreamError, StatementError
from millstream.model.settings import EngineSettings
from millstream.query.results import Done, Rows
from millstream_parser.printer import print_statement
from millstream_parser.script import parse

CREATE = (
    "CREATE STREAM visits (guest STRING KEY, n INT)"
    " WITH (KAFKA_TOPIC='visits', PARTITIONS=2, FORMAT='JSON');"
)


@pytest.fixture
def db() -> Iterator[Database]:
    with millstream.connect() as found:
        found.execute(CREATE)
        yield found


def settings(db: Database, topic: str = "visits") -> dict[str, str]:
    found = db.engine.log.topic(topic)
    assert found is not None
    return dict(found.config)


def usage(db: Database, topic: str = "visits") -> dict[str, Any]:
    found = db.execute("SHOW TOPICS EXTENDED;")
    assert isinstance(found, Rows)
    (row,) = (row for row in found.table.to_pylist() if row["Kafka Topic"] == topic)
    return row


def test_settings_are_changed_and_taken_back(db: Database) -> None:
    before = settings(db)
    done = db.execute("ALTER TOPIC visits SET ('retention.ms' = 86400000, 'segment.ms' = '7');")
    assert isinstance(done, Done) and done.message == "Topic visits altered"
    assert settings(db) == before | {"retention.ms": "86400000", "segment.ms": "7"}
    db.execute("ALTER TOPIC 'visits' RESET ('segment.ms', 'retention.bytes');")
    assert settings(db) == before | {"retention.ms": "86400000"}
    db.execute("ALTER TOPIC visits SET ('retention.ms' = -1);")
    assert settings(db) == before | {"retention.ms": "-1"}


def test_reset_goes_back_to_what_statements_give_new_topics() -> None:
    given = {"retention.ms": "5000", "segment.ms": "700"}
    with millstream.connect(settings=EngineSettings(topic_settings=given)) as db:
        db.execute(CREATE)
        before = settings(db)
        assert before.items() >= given.items()
        db.execute("ALTER TOPIC visits SET ('retention.ms' = 1, 'retention.bytes' = 2);")
        db.execute("ALTER TOPIC visits RESET ('retention.ms', 'retention.bytes', 'segment.ms');")
        assert settings(db) == before


def test_they_outlive_the_process(tmp_path: Any) -> None:
    with millstream.connect(tmp_path / "a.db") as db:
        db.execute(CREATE)
        db.execute("ALTER TOPIC visits SET ('retention.ms' = '60000');")
    with millstream.connect(tmp_path / "a.db") as db:
        assert settings(db)["retention.ms"] == "60000"


@pytest.mark.parametrize("name", policy.SETTINGS)
@pytest.mark.parametrize(
    "value", ["", "x", "-2", "1.5.1", "9" * 20, "1e3", "nan", "٣", "delete,", "1 2", "0x1"]
)
def test_values_that_mean_nothing_are_refused(db: Database, name: str, value: str) -> None:
    before = settings(db)
    with pytest.raises(StatementError, match=r"is no|no setting") as refused:
        db.execute(f"ALTER TOPIC visits SET ('retention.ms' = 5, '{name}' = '{value}');")
    assert policy.SETTINGS[name] in refused.value.message
    assert settings(db) == before, "all or none"


@pytest.mark.parametrize("name", policy.SETTINGS)
def test_every_setting_is_one_of_the_policy(db: Database, name: str) -> None:
    """None is accepted that does nothing."""
    value = {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.25"}.get(name, "4711")
    all_counts = {"cleanup.policy": "compact,delete", "retention.ms": "86400000"}
    db.execute(f"ALTER TOPIC visits SET ('{name}' = '{value}');")
    assert settings(db)[name] == value
    assert policy.policy_of(all_counts | {name: value}) != policy.policy_of(all_counts)


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("ALTER TOPIC nothing SET ('retention.ms' = 1);", "Kafka topic does not exist: nothing"),
        ("ALTER TOPIC VISITS SET ('retention.ms' = 1);", "Did you mean 'visits'"),
        ("ALTER TOPIC visits SET ('retention.mx' = 1);", "Did you mean retention.ms"),
        ("ALTER TOPIC _millstream_commands SET ('retention.ms' = 1);", "it is internal to the"),
        ("ALTER TOPIC visits SET ();", "Expecting STRING"),
        ("ALTER TOPIC visits RESET ('a' = 1);", "Syntax Error"),
        ("ALTER TOPIC visits SET ('retention.ms' = 1.5);", "Syntax Error"),
        ("ALTER TOPIC visits;", "Expecting {'SET', 'RESET'}"),
    ],
)
def test_what_is_wrong_is_told(db: Database, statement: str, message: str) -> None:
    before = settings(db)
    with pytest.raises(MillstreamError) as refused:
        db.execute(statement)
    assert message in str(refused.value)
    assert settings(db) == before


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TOPIC visits SET ('retention.ms' = '1', 'a''b' = '-1')",
        "ALTER TOPIC 'odd topic' RESET ('retention.ms', 'b')",
    ],
)
def test_it_is_printed_as_it_is_read(text: str) -> None:
    (read,) = parse(text)
    assert print_statement(read) == text


def test_extended_topics_tell_what_is_there(db: Database) -> None:
    assert usage(db)["Records"] == "0" and usage(db)["Oldest Record"] is None
    first = raw_batch([(b"a", b"x" * 100, 1_700_000_000_000), (b"b", b"y", 1_700_000_000_500)])
    db.engine.log.send([Appended("visits", 1, first, 2)])
    found = usage(db)
    assert (found["First Offsets"], found["End Offsets"]) == ("0, 0", "0, 2")
    assert (found["Records"], found["Oldest Record"]) == ("2", "2023-11-14T22:13:20.000")
    assert 103 <= int(found["Bytes"]) < 200 and found["To Compact"] is None
    db.execute("ALTER TOPIC visits SET ('cleanup.policy' = 'compact');")
    assert usage(db)["To Compact"] == "0", "the last segment is never compacted"
    db.execute("ALTER TOPIC visits SET ('segment.bytes' = '1');")
    db.engine.log.send([Appended("visits", 1, first, 2)])
    assert usage(db)["To Compact"] == found["Bytes"]
