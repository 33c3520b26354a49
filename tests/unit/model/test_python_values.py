"""Arrow columns as values of Python."""

import datetime

import pyarrow as pa

from millstream.model.python_values import python_values, tuples

LATE, EARLY = 253_402_300_800_000_000, -62_135_596_800_001_000
NOON = datetime.datetime(2024, 2, 29, 12)
NOON_US = int((NOON - datetime.datetime(1970, 1, 1)).total_seconds() * 1e6)


def test_times_that_python_has_no_value_for_are_text() -> None:
    times = pa.array([LATE, EARLY, NOON_US, None], pa.timestamp("us"))
    texts = ["+10000-01-01T00:00:00.000", "0000-12-31T23:59:59.999"]
    assert python_values(times) == [*texts, NOON, None]
    days = pa.array([3_000_000, 19_782], pa.date32())
    assert python_values(days) == ["+10183-09-21", NOON.date()]


def test_so_are_those_within_others() -> None:
    pairs = pa.map_(pa.string(), pa.date32())
    kind = pa.struct([("a", pa.list_(pa.timestamp("us"))), ("m", pairs), ("n", pa.int32())])
    column = pa.chunked_array([pa.array(
        [{"a": [LATE, NOON_US, None], "m": [("x", 3_000_000)], "n": 7}, None], kind
    )])  # fmt: skip
    table = pa.table({"s": column, "k": [1, 2]})
    found = {
        "a": ["+10000-01-01T00:00:00.000", NOON, None],
        "m": [("x", "+10183-09-21")],
        "n": 7,
    }
    assert list(tuples(table)) == [(found, 1), (None, 2)]
