"""What may become of streams and tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from millstream.catalog.catalog import Catalog, QueryKind, QueryRecord
from millstream.catalog.rules import check_alter, check_replace, check_source, drop_source
from millstream.catalog.source import Format, Source, TimestampColumn
from millstream.model.errors import ConflictError, StatementError
from millstream.model.schema import Column, Role, Schema, SourceKind
from millstream.model.types import BIGINT, BYTES, INTEGER, STRING, Map

STREAM, TABLE = SourceKind.STREAM, SourceKind.TABLE
KEY = Column("K", STRING, Role.KEY)
VALUE = Column("V", INTEGER)


def source(name: str = "S", kind: SourceKind = STREAM, *columns: Column) -> Source:
    schema = Schema(columns or (KEY, VALUE))
    return Source(name, kind, schema, f"{name}_topic", Format("KAFKA"), Format("JSON"))


def query(name: str, reads: str, writes: str) -> QueryRecord:
    return QueryRecord(name, "…", QueryKind.CREATE_AS, (reads,), writes)


def test_an_unknown_source_is_named_with_a_hint_about_its_case() -> None:
    catalog = Catalog().with_source(source("orders")).with_source(source("USERS"))
    with pytest.raises(StatementError, match="ORDERS does not exist") as caught:
        catalog.source("ORDERS")
    assert 'Did you mean "orders"?' in str(caught.value)
    with pytest.raises(StatementError) as caught:
        catalog.source("users")
    assert "Did you mean USERS?" in str(caught.value)


def test_names_are_unique_over_streams_and_tables() -> None:
    catalog = Catalog().with_source(source())
    with pytest.raises(ConflictError, match="A stream with the same name already exists"):
        catalog.with_source(source("S", TABLE))


def test_a_catalog_is_a_snapshot() -> None:
    before = Catalog().with_source(source())
    after = before.without_source("S").with_type("T", STRING)
    assert "S" in before.sources and "S" not in after.sources
    assert after.types == {"T": STRING} and not before.types


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (source("S", TABLE, VALUE), "Tables require a PRIMARY KEY"),
        (source("a.b"), "Identifier names may only contain alphanumeric values, '_' or '-'."),
        (source("S", STREAM, KEY, replace(VALUE, name="ROWTIME")), "'ROWTIME' is a reserved"),
        (source("S", STREAM, KEY, replace(VALUE, name="K")), "Duplicate column names: K"),
        (
            source("S", STREAM, Column("K", Map(STRING, INTEGER), Role.KEY), VALUE),
            "Key column name: `K`. Column type: MAP<STRING, INTEGER>.",
        ),
        (
            source("S", STREAM, KEY, Column("H", BYTES, Role.HEADERS)),
            "Invalid type for HEADERS column: expected ARRAY<STRUCT<`KEY` STRING, `VALUE` BYTES>>",
        ),
        (
            source("S", STREAM, KEY, Column("H", STRING, Role.HEADERS, "a")),
            "Invalid type for HEADER('a') column: expected BYTES, got STRING",
        ),
        (replace(source(), timestamp=TimestampColumn("X")), "does not exist in the schema: 'X'"),
        (replace(source(), timestamp=TimestampColumn("V")), "`V`, should be LONG(INT64)"),
    ],
)
def test_sources_that_cannot_be(changed: Source, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        check_source(changed)
    assert message in str(caught.value)


def test_replacing_may_add_value_columns_only() -> None:
    old = source()
    check_replace(old, source("S", STREAM, KEY, VALUE, Column("W", BIGINT)), Catalog())
    for new, message in [
        (source("S", STREAM, KEY), "changed, missing or reordered: [`V` INTEGER]"),
        (
            source("S", STREAM, KEY, Column("V", BIGINT)),
            "changed, missing or reordered: [`V` INTEGER]",
        ),
        (
            replace(old, topic="other"),
            "DataSource 'S' has topic = S_topic which is not upgradeable to other",
        ),
        (source("S", STREAM, Column("A", INTEGER, Role.KEY), VALUE), "[`K` STRING KEY]"),
        (source("S", STREAM, KEY, Column("A", INTEGER, Role.KEY), VALUE), "[`K` STRING KEY, `V`"),
        (
            replace(old, value_format=Format("DELIMITED")),
            "has value format = JSON which is not upgradeable to DELIMITED",
        ),
        (replace(old, kind=TABLE), "has type = STREAM which is not upgradeable to TABLE"),
        (replace(old, read_only=True), "not supported on source streams"),
    ]:
        with pytest.raises(StatementError) as caught:
            check_replace(old, new, Catalog())
        assert message in str(caught.value)


@pytest.mark.parametrize(
    ("names", "changed"),
    [
        ("ABC", None),
        ("ABCD", None),
        ("BAC", "AB"),
        ("ACB", "BC"),
        ("BCA", "ABC"),
        ("DABC", "ABC"),
        ("AB", "C"),
        ("AC", "BC"),
        ("ABDC", "C"),
        ("", "ABC"),
    ],
)
def test_what_is_changed_missing_or_reordered(names: str, changed: str | None) -> None:
    """A value column is the same where its name, its type and its place are."""
    old, new = (
        source("S", STREAM, KEY, *(Column(name, INTEGER) for name in listed))
        for listed in ("ABC", names)
    )
    if changed is None:
        check_replace(old, new, Catalog())
        return
    with pytest.raises(StatementError) as caught:
        check_replace(old, new, Catalog())
    listed = ", ".join(f"`{name}` INTEGER" for name in changed)
    assert f"changed, missing or reordered: [{listed}]" in str(caught.value)


def test_altering() -> None:
    added = (Column("W", BIGINT),)
    assert check_alter(source(), STREAM, added).schema.names == ("K", "V", "W")
    for old, kind, columns in [
        (source(), TABLE, added),
        (replace(source(), read_only=True), STREAM, added),
        (replace(source(), query_id="CSAS_S_1"), STREAM, added),
        (source(), STREAM, (Column("V", BIGINT),)),
    ]:
        with pytest.raises(StatementError):
            check_alter(old, kind, columns)


def test_dropping_ends_the_own_query_and_is_refused_while_others_use_it() -> None:
    made = replace(source("O"), query_id="CSAS_O_2")
    catalog = (
        Catalog().with_source(source()).with_source(made).with_query(query("CSAS_O_2", "S", "O"))
    )
    with pytest.raises(ConflictError, match=r"read from this source: \[CSAS_O_2\]"):
        drop_source(catalog, STREAM, "S", if_exists=False, delete_topic=False)
    dropped = drop_source(catalog, STREAM, "O", if_exists=False, delete_topic=True)
    assert dropped.terminate == ("CSAS_O_2",) and dropped.delete_topic == "O_topic"
    assert not dropped.catalog.queries and set(dropped.catalog.sources) == {"S"}


def test_dropping_what_is_not_there() -> None:
    assert drop_source(Catalog(), STREAM, "X", if_exists=True, delete_topic=False).terminate == ()
    with pytest.raises(StatementError, match="Stream X does not exist"):
        drop_source(Catalog(), STREAM, "X", if_exists=False, delete_topic=False)
    with pytest.raises(StatementError, match="DROP TABLE"):
        catalog = Catalog().with_source(source())
        drop_source(catalog, TABLE, "S", if_exists=True, delete_topic=False)


def test_topics_that_are_not_deleted() -> None:
    read_only = Catalog().with_source(replace(source(), read_only=True))
    with pytest.raises(StatementError, match="Cannot delete topic for read-only source: S"):
        drop_source(read_only, STREAM, "S", if_exists=False, delete_topic=True)
    shared = Catalog().with_source(source()).with_source(replace(source("B"), topic="S_topic"))
    with pytest.raises(ConflictError, match="Found other data sources \\(B\\) using topic"):
        drop_source(shared, STREAM, "S", if_exists=False, delete_topic=True)
