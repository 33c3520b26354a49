"""Statements are refused with the reason, before anything is created."""

from __future__ import annotations

import pytest

from millstream.catalog.source import Format
from millstream.formats.validate import check_formats
from millstream.model.errors import StatementError
from millstream.model.schema import Column, Role, Schema
from millstream.model.types import BOOLEAN, INTEGER, STRING, Array, Map, SqlType


def schema(key: SqlType | None, *values: SqlType) -> Schema:
    keys = [] if key is None else [Column("K", key, Role.KEY)]
    return Schema.of(keys + [Column(f"V{i}", value) for i, value in enumerate(values)])


KAFKA, JSON, DELIMITED, NONE = (Format(n) for n in ("KAFKA", "JSON", "DELIMITED", "NONE"))


@pytest.mark.parametrize(
    ("columns", "key", "value", "message"),
    [
        (schema(Array(INTEGER), STRING), DELIMITED, JSON, "Key format does not support schema.\n"),
        (schema(Array(INTEGER), STRING), DELIMITED, JSON, "features=[]}\nreason: The 'DELIMITED'"),
        (schema(STRING, BOOLEAN), KAFKA, KAFKA, "does not support type 'BOOLEAN', column: `V0`"),
        (schema(STRING, STRING, STRING), KAFKA, KAFKA, "single field. Got: [`V0` STRING, `V1` ST"),
        (schema(Array(Map(STRING, STRING)), STRING), JSON, JSON, "Column type: ARRAY<MAP<STRING,"),
        (schema(None, Map(INTEGER, STRING)), NONE, JSON, "JSON only supports MAP types with STRI"),
        (schema(None, Map(INTEGER, STRING)), NONE, Format("JSON_SR"), "JSON only supports MAP typ"),
        (schema(STRING, STRING), NONE, JSON, "no columns are defined. Got: [`K` STRING KEY]"),
        (schema(STRING, STRING, STRING), KAFKA, Format("JSON", True), "only valid for single-fiel"),
        (schema(None, STRING), NONE, Format("KAFKA", True), "'WRAP_SINGLE_VALUE' set to 'true'"),
        (schema(None, STRING), NONE, Format("JSON", None, {"delimiter": "|"}), "configs: [delim"),
        (
            schema(None, STRING),
            NONE,
            Format("DELIMITED", None, {"delimiter": "ab"}),
            "VALUE_DELIMITER is invalid: Invalid delimiter value: 'ab'",
        ),
        (
            schema(STRING, STRING),
            Format("DELIMITED", None, {"delimiter": " "}),
            JSON,
            "KEY_DELIMITER is invalid: Delimiter cannot be empty",
        ),
    ],
)
def test_refused(columns: Schema, key: Format, value: Format, message: str) -> None:
    with pytest.raises(StatementError) as refusal:
        check_formats(columns, key, value)
    assert message in str(refusal.value)


@pytest.mark.parametrize(
    ("columns", "key", "value"),
    [
        (schema(STRING, Map(STRING, Array(INTEGER))), KAFKA, JSON),
        (schema(None, STRING), NONE, Format("DELIMITED", False, {"delimiter": "TAB"})),
        (schema(Array(INTEGER), INTEGER), JSON, Format("KAFKA", False)),
    ],
)
def test_accepted(columns: Schema, key: Format, value: Format) -> None:
    check_formats(columns, key, value)
