"""The WITH clause."""

from __future__ import annotations

import pytest

from millstream.catalog.properties import Form, make_format, read_properties, wrapping
from millstream.model.errors import StatementError
from millstream.model.schema import WindowedKey, WindowKind


def test_everything_is_read() -> None:
    given = read_properties(
        (
            ("KAFKA_TOPIC", "Orders"),
            ("FORMAT", "delimited"),
            ("VALUE_DELIMITER", "TAB"),
            ("PARTITIONS", "6"),
            ("REPLICAS", -1),
            ("WRAP_SINGLE_VALUE", "false"),
            ("TIMESTAMP", "at"),
            ("TIMESTAMP_FORMAT", "yyyy"),
            ("WINDOW_TYPE", "hopping"),
            ("WINDOW_SIZE", "2 minutes"),
        ),
        Form.CREATE,
    )
    assert given.topic == "Orders"
    assert (given.key_format, given.value_format) == ("DELIMITED", "DELIMITED")
    assert given.value_settings == {"delimiter": "TAB"}
    assert given.key_settings == {}
    assert (given.partitions, given.replicas, given.wrap) == (6, -1, False)
    assert (given.timestamp, given.timestamp_format) == ("AT", "yyyy")
    assert given.window == WindowedKey(WindowKind.HOPPING, 120_000)


def test_names_of_a_few_things_are_read_in_any_case() -> None:
    name = "VALUE_PROTOBUF_NULLABLE_REPRESENTATION"
    given = read_properties(((name, "wrapper"), ("WINDOW_TYPE", "Session")), Form.CREATE)
    assert given.value_settings == {"nullableRepresentation": "WRAPPER"}
    assert given.window == WindowedKey(WindowKind.SESSION)


def test_a_quoted_timestamp_column_keeps_its_case() -> None:
    assert read_properties((("TIMESTAMP", "`at`"),), Form.CREATE).timestamp == "at"


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("COLOUR", "red", "Invalid config variable(s) in the WITH clause: COLOUR"),
        ("PARTITIONS", 0, "PARTITIONS is invalid"),
        ("PARTITIONS", "many", "Invalid value many for property PARTITIONS: Not a number of type"),
        (
            "PARTITIONS",
            "1.5",
            "Invalid value 1.5 for property PARTITIONS: Not a number of type INT",
        ),
        ("PARTITIONS", 2**31, "Invalid value 2147483648 for property PARTITIONS: Not a number of"),
        (
            "REPLICAS",
            2**15,
            "Invalid value 32768 for property REPLICAS: Not a number of type SHORT",
        ),
        (
            "RETENTION_MS",
            "1_0",
            "Invalid value 1_0 for property RETENTION_MS: Not a number of type",
        ),
        (
            "VALUE_SCHEMA_ID",
            "x",
            "Invalid value x for property VALUE_SCHEMA_ID: Not a number of ty",
        ),
        (
            "KAFKA_TOPIC",
            1,
            "Invalid value 1 for property KAFKA_TOPIC: Expected value to be a string",
        ),
        ("VALUE_FORMAT", "xml", "Unknown format: XML"),
        ("VALUE_DELIMITER", "::", "Delimiter must be a single character or TAB,SPACE"),
        ("KEY_DELIMITER", " ", "Delimiter cannot be empty"),
        (
            "WRAP_SINGLE_VALUE",
            "perhaps",
            "Invalid value perhaps for property WRAP_SINGLE_VALUE: Exp",
        ),
        ("TIMESTAMP_FORMAT", "yyyy", "needs the TIMESTAMP property"),
        (
            "WINDOW_TYPE",
            "ROLLING",
            "Invalid value ROLLING for property WINDOW_TYPE: String must be one of: SESSION, "
            "HOPPING, TUMBLING, null",
        ),
        (
            "KEY_PROTOBUF_NULLABLE_REPRESENTATION",
            "BOX",
            "Invalid value BOX for property KEY_PROTOBUF_NULLABLE_REPRESENTATION: String must be "
            "one of: OPTIONAL, WRAPPER, null",
        ),
        ("WINDOW_TYPE", "TUMBLING", "TUMBLING windows require 'WINDOW_SIZE' to be provided"),
        ("WINDOW_SIZE", "1 DAY", "needs 'WINDOW_TYPE'"),
        ("KAFKA_TOPIC", " ", "Configuration KAFKA_TOPIC is invalid"),
        ("PARTITIONS", True, "Invalid value true for property PARTITIONS: Not a"),
        ("QUERY_ID", "x", "Invalid config variable(s)"),
    ],
)
def test_refused(name: str, value: object, message: str) -> None:
    with pytest.raises(StatementError) as caught:
        read_properties(((name, value),), Form.CREATE)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ((("FORMAT", "JSON"), ("KEY_FORMAT", "JSON")), "'KEY_FORMAT' and 'FORMAT'"),
        ((("WINDOW_TYPE", "SESSION"), ("WINDOW_SIZE", "1 DAY")), "should not be set for SESSION"),
        (
            (("WINDOW_TYPE", "TUMBLING"), ("WINDOW_SIZE", "3 moons")),
            "Invalid duration: '3 moons'. Unknown time unit: 'MOONS'",
        ),
    ],
)
def test_refused_together(properties: tuple[tuple[str, object], ...], message: str) -> None:
    with pytest.raises(StatementError) as caught:
        read_properties(properties, Form.CREATE)
    assert message in str(caught.value)


def test_window_properties_are_for_sources_only() -> None:
    with pytest.raises(StatementError, match="WINDOW_TYPE"):
        read_properties((("WINDOW_TYPE", "SESSION"),), Form.CREATE_AS)


def test_query_ids() -> None:
    assert read_properties((("QUERY_ID", "mine_1"),), Form.INSERT).query_id == "MINE_1"
    for wrong in ("CSAS_X_1", "a-b"):
        with pytest.raises(StatementError):
            read_properties((("QUERY_ID", wrong),), Form.INSERT)


def test_settings_belong_to_their_format() -> None:
    assert make_format("DELIMITED", {"delimiter": ";"}).properties == {"delimiter": ";"}
    with pytest.raises(StatementError, match="JSON does not support the following configs"):
        make_format("JSON", {"delimiter": ";"})


def test_wrapping_of_a_single_value() -> None:
    default = {"ksql.persistence.wrap.single.values": "false"}
    assert wrapping(None, default, "JSON", 1) is False
    assert wrapping(None, default, "JSON", 2) is None
    assert wrapping(None, default, "KAFKA", 1) is None
    assert wrapping(True, default, "JSON", 1) is True
    with pytest.raises(StatementError, match="only valid for single-field"):
        wrapping(True, {}, "JSON", 2)
