"""Rows as JSON in the processing log."""

from __future__ import annotations

import datetime
import json
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from millstream.model.row_text import row_text

VALUES = [
    (pa.int64(), 2**62, str(2**62)),
    (pa.bool_(), True, "true"),
    (pa.string(), 'a"ü', '"a\\"ü"'),
    (pa.string(), None, "null"),
    (pa.float64(), 1.5, "1.5"),
    (pa.float64(), float("nan"), '"NaN"'),
    (pa.float64(), float("-inf"), '"-Infinity"'),
    (pa.decimal128(20, 3), Decimal("12345678901234567.890"), "12345678901234567.890"),
    (pa.binary(), b"\x00\xff", '"AP8="'),
    (pa.date32(), datetime.date(2024, 2, 29), '"2024-02-29"'),
    (pa.date32(), pa.scalar(3_000_000, pa.int32()).cast(pa.date32()), '"+10183-09-21"'),
    (pa.time32("ms"), datetime.time(1, 2, 3), '"01:02:03.000"'),
    (pa.timestamp("ms"), datetime.datetime(2024, 1, 2, 3, 4), '"2024-01-02T03:04:00.000"'),
    (pa.list_(pa.int32()), [1, None], "[1,null]"),
    (pa.map_(pa.string(), pa.int32()), [("a", 1)], '{"a":1}'),
    (pa.struct([("A", pa.int32())]), {"A": 1}, '{"A":1}'),
]


@pytest.mark.parametrize(("kind", "value", "text"), VALUES)
def test_a_value_of_each_type(kind: pa.DataType, value: Any, text: str) -> None:
    table = pa.table({"c0": pa.array([None, value], kind), "$seq": [1, 2]})
    shown = row_text(table, 1)
    assert shown == f"[{text}]"
    json.loads(shown)
