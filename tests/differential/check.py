"""One case: run by the engine, answered by DuckDB, compared; and made small when they differ."""

from __future__ import annotations

import functools
import traceback
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import duckdb
import pyarrow as pa

from tests.differential.compare import Row, differences, expected_rows
from tests.differential.data import place
from tests.differential.describe import Case, Column
from tests.differential.drive import output
from tests.differential.expressions import MACROS
from tests.differential.oracle import HISTORY, last_rows, preparations, query, statements
from tests.differential.rules import AMOUNT, INTS, MAP, STRINGS, STRUCT
from tests.differential.statements import script

_ARROW: dict[str, pa.DataType] = {
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BOOLEAN": pa.bool_(),
    "DATE": pa.int32(),
    "TIME": pa.int64(),
    "TIMESTAMP": pa.int64(),
    AMOUNT: pa.decimal128(8, 2),
    INTS: pa.list_(pa.int32()),
    STRINGS: pa.list_(pa.string()),
    MAP: pa.map_(pa.string(), pa.int32()),
    STRUCT: pa.struct([("A", pa.int32()), ("B", pa.string())]),
}
_READ = {
    "DATE": "DATE '1970-01-01' + {0}",
    "TIME": "TIME '00:00:00' + to_milliseconds({0})",
    "TIMESTAMP": "TIMESTAMP '1970-01-01' + to_milliseconds({0})",
}
"""How those types are made that are numbers in JSON."""
SHRINKS = 150


@dataclass(frozen=True, slots=True)
class Failure:
    """The errors of a case."""

    case: Case
    text: str


@functools.cache
def _connection() -> duckdb.DuckDBPyConnection:
    con = duckdb.connect(config={"threads": 1})
    # It would compute what TRY guards before TRY.
    # The other one drops what decides nothing, and the failure of it.
    con.execute("SET disabled_optimizers = 'common_subexpressions,statistics_propagation'")
    for macro in MACROS:
        con.execute(f"CREATE MACRO {macro}")
    return con


def answer(case: Case) -> list[Row]:
    """The expected contents of the last sink, by DuckDB."""
    con = _connection()
    _load(con, case)
    for text in statements(case):
        con.execute(text)
    return expected_rows(case, lambda text: con.execute(text).fetchall())


def settled(case: Case) -> list[Row] | None:
    """As `answer`, with every query reading tables in their final state: the result of a chain of
    cached queries, because a cache may hold back all but the last change of a key. None where the
    case has no such chain."""
    middle = [statement.sink for statement in case.statements[:-1]]
    if not case.running.cached or all(sink.kind != "TABLE" for sink in middle):
        return None
    con = _connection()
    _load(con, case)
    for text in (*preparations(case), *query(case, case.statements[0])):
        con.execute(text)
    for before, statement in pairwise(case.statements):
        con.execute(last_rows(before.sink))
        for text in query(case, statement):
            con.execute(text)
    return expected_rows(case, lambda text: con.execute(text).fetchall())


def _load(con: duckdb.DuckDBPyConnection, case: Case) -> None:
    history: list[tuple[int, ...]] = []
    rows: list[list[tuple[Any, ...]]] = [[] for _ in case.sources]
    ends: dict[tuple[int, int], int] = {}
    for number, record in enumerate(case.records):
        source = case.sources[record.source]
        spot = (record.source, place(case, number)[1])
        offset = ends.get(spot, 0)
        ends[spot] = offset + 1
        rank = 0 if source.kind == "TABLE" else 1
        history.append((*spot, offset, record.chunk, rank, record.time))
        key = record.key or (None,) * len(source.keys)
        value = record.value or (None,) * len(source.values)
        meta = (spot[1], offset, record.time, record.value is None)
        rows[record.source].append((*key, *value, *meta))
    _table(con, HISTORY, ("source", "part", "offset", "chunk", "rank", "time"), history)
    for source, own in zip(case.sources, rows, strict=True):
        columns = (
            *source.columns,
            *(Column(name, "BIGINT") for name in ("part", "offset", "ts")),
            Column("dead", "BOOLEAN"),
        )
        _typed_table(con, f"raw_{source.name}", columns, own)


def _table(
    con: duckdb.DuckDBPyConnection, name: str, columns: tuple[str, ...], rows: list[Any]
) -> None:
    _typed_table(con, name, tuple(Column(column, "BIGINT") for column in columns), rows)


def _typed_table(
    con: duckdb.DuckDBPyConnection, name: str, columns: tuple[Column, ...], rows: list[Any]
) -> None:
    arrays = []
    for index, column in enumerate(columns):
        values = [row[index] for row in rows]
        if column.type == MAP:
            values = [None if value is None else list(value.items()) for value in values]
        arrays.append(pa.array(values, _ARROW[column.type]))
    given = pa.Table.from_arrays(arrays, [column.name for column in columns])
    con.register("given", given)
    listed = ", ".join(
        f"{_READ.get(column.type, '{0}').format(chr(34) + column.name + chr(34))} "
        f'AS "{column.name}"'
        for column in columns
    )
    con.execute(f'CREATE OR REPLACE TABLE "{name}" AS SELECT {listed} FROM given')
    con.unregister("given")


def check(case: Case) -> str:
    """How engine and oracle differ; "" when they agree. An error of either counts."""
    try:
        written = output(case)
    except Exception as error:
        return f"ENGINE {type(error).__name__}: {error}\n{_where()}"
    try:
        return differences(case, answer(case), written, settled(case))
    except duckdb.Error as error:
        return f"ORACLE {type(error).__name__}: {error}"


def _where() -> str:
    return "".join(traceback.format_exc().splitlines(keepends=True)[-4:-1])


def shrunk(case: Case) -> Case:
    """The case with fewer records and plainer driving that still fails, found greedily."""
    kind = check(case)[:6]
    tries = 0

    def fails(smaller: Case) -> bool:
        nonlocal tries
        tries += 1
        found = check(smaller)
        return bool(found) and (found[:6] == kind or kind not in ("ENGINE", "ORACLE"))

    for running in (
        replace(case.running, restarts=()),
        replace(case.running, restarts=(), max_batch=200_000, commit_interval=0),
    ):
        if fails(plainer := replace(case, running=running)):
            case = plainer
    size = max(1, len(case.records) // 2)
    while size and tries < SHRINKS:
        start = 0
        while start < len(case.records) and tries < SHRINKS:
            kept = case.records[:start] + case.records[start + size :]
            if kept and fails(smaller := replace(case, records=kept)):
                case = smaller
            else:
                start += size
        size //= 2
    return case


def failure(case: Case, *, shrink: bool = True) -> Failure | None:
    """The errors of a case, on its smallest input."""
    if not check(case):
        return None
    small = shrunk(case) if shrink else case
    return Failure(small, check(small) or check(case))


def show(found: Failure) -> str:
    """Everything needed to analyse a failure."""
    case = found.case
    lines = [
        f"seed {case.seed} ({case.kind}): python -m tests.differential.run --seed {case.seed} "
        f"--queries 1 --kind {case.kind}",
        *script(case),
        str(case.running),
    ]
    for number, record in enumerate(case.records):
        topic, partition = place(case, number)
        lines.append(
            f"  {topic}/{partition} chunk {record.chunk} @{record.time} "
            f"key {record.key} value {record.value}"
        )
    return "\n".join([*lines, found.text])
