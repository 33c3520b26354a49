"""Headers that name schemas, among others."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from millstream.formats.schema_headers import with_prefixes, without_ids
from millstream.log.embedded import EmbeddedLog
from millstream.model.batch import HEADER_TYPE
from millstream.model.errors import UnavailableError
from millstream.model.schema import Role
from millstream.schemas.embedded import EmbeddedRegistry

OWN, OTHER = "__value_schema_id", "__key_schema_id"
BY_ID = b"\0\0\0\0\7"


def headers(*rows: list[tuple[str, bytes]] | None) -> pa.Array:
    """Headers of records, in an array that does not begin with the first."""
    made: list[Any] = [
        None if row is None else [{"key": key, "value": value} for key, value in row]
        for row in ([("before", b"")], *rows)
    ]
    return pa.array(made, HEADER_TYPE)[1:]


def test_only_those_that_name_schemas_are_left_out() -> None:
    given = headers(
        [("a", b"1"), (OWN, b"2"), ("a", b"3")], None, [], [(OTHER, b"")], [("b", b"4")]
    )
    found = without_ids(given)
    assert found.type == given.type and found.validate(full=True) is None
    assert [
        None if row is None else [one["value"] for one in row] for row in found.to_pylist()
    ] == [*([b"1", b"3"], None, [], [], [b"4"])]
    same = headers([("a", b"1")], None)
    assert without_ids(same) is same


def test_payloads_and_their_headers() -> None:
    schemas = EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)
    payload = pa.array([b"before", b"x", b"y", None, b"z", b"w", b"v"], pa.binary())[1:]
    given = headers(
        [(OWN, b"\5"), (OWN, BY_ID)], [(OTHER, BY_ID)], [(OWN, BY_ID)], [(OWN, b"\0")], None,
        [(OWN, b"\1" + bytes(15))],
    )  # fmt: skip
    found, bad = with_prefixes(payload, given, Role.VALUE, schemas)
    assert found.to_pylist()[:3] == [BY_ID + b"x", b"y", None], "of two the last one counts"
    assert found.to_pylist()[4] == b"w"
    assert sorted(bad) == [3, 5]
    keys, none = with_prefixes(payload, given, Role.KEY, schemas)
    assert keys.to_pylist() == [b"x", BY_ID + b"y", None, b"z", b"w", b"v"] and not none
    unknown = headers([(OWN, b"\1" + bytes(16))])
    with pytest.raises(UnavailableError, match="00000000-0000-0000-0000-000000000000 is not in"):
        with_prefixes(payload[:1], unknown, Role.VALUE, schemas)
