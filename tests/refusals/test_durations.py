"""Lengths of time: refused by one rule in WINDOW_SIZE, WINDOW, WITHIN, GRACE PERIOD and TIMEOUT.

A window is longer than nothing (shared/reference, sql-statements 5: WINDOW_SIZE is `<n> <unit>`).
Event time is 64 bits of milliseconds. Moments go up to 2^62 and lengths stay below it, so that one
can be added to the other; ksqlDB has lengths up to 2^63 and fails where one does not fit.
"""

from __future__ import annotations

import pytest

from millstream.catalog.catalog import Catalog
from millstream.model.errors import StatementError
from millstream.scripts.text import parse_text
from tests.refusals.test_refusals import apply

BEFORE = """
CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 's', VALUE_FORMAT = 'JSON');
CREATE STREAM s2 (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 's2', VALUE_FORMAT = 'JSON');
"""
LAST = 53_375_995_583  # days that 62 bits of milliseconds hold
LONGER = f"is longer than {2**62 - 1} milliseconds."
ZERO = "The size must be greater than zero."
SIZES = [
    ("0 SECONDS", ZERO),
    ("000 DAYS", ZERO),
    ("-1 SECONDS", "Size must be numeric. Got '-1'"),
    ("+1 SECONDS", "Size must be numeric. Got '+1'"),
    ("1.5 SECONDS", "Size must be numeric. Got '1.5'"),
    ("1_0 SECONDS", "Size must be numeric. Got '1_0'"),
    ("² SECONDS", "Size must be numeric. Got '²'"),
    ("٣ SECONDS", "Size must be numeric. Got '٣'"),
    ("3 WEEKS", "Unknown time unit: 'WEEKS'"),
    ("1 YEAR", "Unknown time unit: 'YEAR'"),
    ("3", "Expected format is: '<number> <unit>', for example '10 SECONDS'."),
    ("1 2 SECONDS", "Expected format is: '<number> <unit>', for example '10 SECONDS'."),
    ("", "Expected format is: '<number> <unit>', for example '10 SECONDS'."),
    (f"{LAST + 1} DAYS", f"{LAST + 1} DAYS {LONGER}"),
    (f"{2**63} MILLISECONDS", f"{2**63} MILLISECONDS {LONGER}"),
    (f"{'9' * 5000} SECONDS", f"{'9' * 5000} SECONDS {LONGER}"),
]
CLAUSES = [
    ("WINDOW TUMBLING (SIZE 0 SECONDS)", "The size of a window must be greater than zero."),
    ("WINDOW SESSION (0 DAYS)", "The size of a window must be greater than zero."),
    ("WINDOW TUMBLING (SIZE -1 SECONDS)", "Syntax Error\nExpecting INTEGER_VALUE"),
    (f"WINDOW TUMBLING (SIZE {LAST + 1} DAYS)", f"{LAST + 1} DAYS {LONGER}"),
    (f"WINDOW SESSION ({LAST + 1} DAYS)", f"{LAST + 1} DAYS {LONGER}"),
    (f"WINDOW HOPPING (SIZE 1 DAY, ADVANCE BY {LAST + 1} DAYS)", f"{LAST + 1} DAYS {LONGER}"),
    (f"WINDOW TUMBLING (SIZE 1 DAY, RETENTION {LAST + 1} DAYS)", f"{LAST + 1} DAYS {LONGER}"),
    (f"WINDOW TUMBLING (SIZE 1 DAY, GRACE PERIOD {LAST + 1} DAYS)", f"{LAST + 1} DAYS {LONGER}"),
    (f"WINDOW TUMBLING (SIZE {2**63} MILLISECONDS)", f"Invalid numeric literal: {2**63}"),
    (
        f"WINDOW TUMBLING (SIZE {LAST} DAYS, GRACE PERIOD {LAST} DAYS)",
        f"The lengths of WINDOW are {2 * LAST * 86_400_000} milliseconds together",
    ),
]
WITHINS = [
    (f"{LAST + 1} DAYS", f"{LAST + 1} DAYS {LONGER}"),
    (f"({LAST} DAYS, {LAST} DAYS)", "The lengths of WITHIN are"),
    (f"(1 DAY, 0 DAYS) GRACE PERIOD {LAST} DAYS", "The lengths of WITHIN are"),
    ("-1 SECONDS", "Syntax Error"),
]


def planned(statement: str) -> Catalog:
    catalog = Catalog()
    for piece in parse_text(BEFORE + statement):
        catalog = apply(piece, catalog, {}, compiled=True)
    return catalog


def refusal(statement: str) -> str:
    with pytest.raises(StatementError) as caught:
        planned(statement)
    return str(caught.value)


def source(size: str) -> str:
    return (
        "CREATE STREAM w (k STRING KEY, v INT) WITH (KAFKA_TOPIC = 'w', VALUE_FORMAT = 'JSON',"
        f" WINDOW_TYPE = 'HOPPING', WINDOW_SIZE = '{size}');"
    )


@pytest.mark.parametrize(("size", "reason"), SIZES, ids=[size[:20] for size, _ in SIZES])
def test_sizes_that_no_window_has(size: str, reason: str) -> None:
    wanted = f"Configuration WINDOW_SIZE is invalid: Invalid duration: '{size}'. {reason}"
    assert wanted in refusal(source(size))


@pytest.mark.parametrize("size", ["1 millisecond", " 07\t DAYS ", f"{2**62 - 1} MILLISECONDS"])
def test_sizes_that_windows_have(size: str) -> None:
    assert planned(source(size)).sources["W"].window is not None


@pytest.mark.parametrize(("clause", "reason"), CLAUSES)
def test_windows_of_no_length_or_too_long_ones(clause: str, reason: str) -> None:
    statement = f"CREATE TABLE t AS SELECT k, COUNT(*) AS c FROM s {clause} GROUP BY k;"
    assert reason in refusal(statement)


@pytest.mark.parametrize(("within", "reason"), WITHINS)
def test_joins_that_reach_too_far(within: str, reason: str) -> None:
    statement = f"CREATE STREAM j AS SELECT s.k, s.v FROM s JOIN s2 WITHIN {within} ON s.k = s2.k;"
    assert reason in refusal(statement)


def test_a_timeout_that_is_too_long() -> None:
    assert f"{LAST + 1} DAYS {LONGER}" in refusal(f"ASSERT TOPIC t TIMEOUT {LAST + 1} DAYS;")


@pytest.mark.parametrize(
    "clause",
    [
        f"WINDOW TUMBLING (SIZE {LAST} DAYS, GRACE PERIOD 0 DAYS)",
        f"WINDOW SESSION ({2**62 - 1} MILLISECONDS, GRACE PERIOD 0 DAYS)",
        f"WINDOW TUMBLING (SIZE 1 DAY, RETENTION {LAST} DAYS, GRACE PERIOD {LAST - 2} DAYS)",
    ],
)
def test_the_longest_windows_are_planned(clause: str) -> None:
    assert planned(f"CREATE TABLE t AS SELECT k, COUNT(*) AS c FROM s {clause} GROUP BY k;")
