"""The expected output of a case, as statements for a plain DuckDB over the whole input.

Every source and every query is a table with its columns, and

    "$pos"   the order in which its rows happen
    "$part"  the partition, for stream time
    "$ts"    event time
    "$dead"  a record without a value: a NULL row of a stream, a deletion of a table

so that a query reads the one before it as it reads a source. Windowed results have "WINDOWSTART"
and "WINDOWEND" too.

Records appended together happen in the documented order: by the running maximum of event time
in their partition, tables first, then by source, partition and offset.
"""

from __future__ import annotations

from tests.differential.describe import Case, Group, Item, Join, Project, Source, Statement, Window
from tests.differential.oracle_groups import group_stream, group_table
from tests.differential.oracle_joins import joined
from tests.differential.oracle_sliding import sliding
from tests.differential.oracle_text import META, guarded, keyed, quoted, table, where
from tests.differential.oracle_windows import sessions, windows

HISTORY = "$history"
"""All input records: source, part, offset, chunk, rank, time."""


def statements(case: Case) -> list[str]:
    """Everything to run; the last table is that of the last sink."""
    made = preparations(case)
    for statement in case.statements:
        made += query(case, statement)
    return made


def preparations(case: Case) -> list[str]:
    """The order of all records, and the sources as tables."""
    arrivals = [_arrival(source, number) for number, source in enumerate(case.sources)]
    return [_ordering(), *arrivals]


def last_rows(sink: Source) -> str:
    """A table without its history: the last row of each key that is there."""
    keys = ", ".join(quoted(sink.keys))
    return table(
        sink.name,
        f'SELECT * FROM (FROM "{sink.name}" QUALIFY row_number() OVER '
        f'(PARTITION BY {keys} ORDER BY "$pos" DESC) = 1) WHERE NOT "$dead"',
    )


def _ordering() -> str:
    return table(
        "$order",
        'SELECT source, part, "offset", row_number() OVER (ORDER BY chunk, m, rank, source, part, '
        '"offset") AS pos FROM (SELECT *, max("time") OVER (PARTITION BY source, part '
        f'ORDER BY "offset") AS m FROM "{HISTORY}")',
    )


def _arrival(source: Source, number: int) -> str:
    """A source from `raw_<name>` (its columns, part, offset, ts, dead)."""
    columns = ", ".join(f"r.{name}" for name in quoted(source.columns))
    return table(
        source.name,
        f'SELECT {columns}, o.pos AS "$pos", r.part AS "$part", r.ts AS "$ts", '
        f'r.dead AS "$dead" FROM "raw_{source.name}" r JOIN "$order" o '
        f'ON o.source = {number} AND o.part = r.part AND o."offset" = r."offset"',
    )


def query(case: Case, statement: Statement) -> list[str]:
    """What makes the table of a sink."""
    query, sink = statement.query, statement.sink
    if isinstance(query, Join):
        return joined(query, sink)
    given = case.source(query.source)
    match query:
        case Group(window=None):
            grouped = group_table if given.kind == "TABLE" else group_stream
            return grouped(query, sink, given)
        case Group(window=Window(kind="SESSION")):
            return sessions(query, sink)
        case Group(window=Window(kind="SLIDING")):
            return sliding(query, sink)
        case Group():
            return windows(query, sink)
        case Project():
            return [(_table if given.kind == "TABLE" else _stream)(query, sink, given)]


def _stream(query: Project, sink: Source, given: Source) -> str:
    """A row without a value goes through unless it is filtered."""
    values = {column.name for column in given.values}
    columns = [_key(item, values, rekeyed=query.rekeyed) for item in query.keys]
    columns += [guarded(item) for item in query.values]
    kept = "TRUE" if query.where is None else f'NOT "$dead" AND {where(query.where)}'
    if query.exploded:
        return _exploded(query, sink, f'FROM "{given.name}" WHERE {kept}', columns)
    listed = ", ".join([*columns, *META])
    return table(sink.name, f'SELECT {listed} FROM "{given.name}" WHERE {kept}')


def _key(item: Item, values: set[str], *, rekeyed: bool) -> str:
    """A new key made from the value is NULL where there is no value."""
    text = f"TRY({item.expression.plain()})"
    if rekeyed and values & set(item.expression.columns()):
        text = f'CASE WHEN NOT "$dead" THEN {text} END'
    return f'{text} AS "{item.name}"'


def _exploded(query: Project, sink: Source, source: str, columns: list[str]) -> str:
    """One row for each place of the longest array."""
    arrays = [item.expression.arguments[0].plain() for item in query.exploded]
    lists = [f'{array} AS "$x{number}"' for number, array in enumerate(arrays)]
    longest = ", ".join(f"coalesce(len({array}), 0)" for array in arrays)
    index = f'unnest(range(1, greatest({longest}) + 1)) AS "$i"'
    picked = [f'"$x{n}"["$i"] AS "{item.name}"' for n, item in enumerate(query.exploded)]
    shown = [f'"{item.name}"' for item in (*query.keys, *query.values)]
    inner = f'SELECT {", ".join([*columns, *META, *lists, index])} {source} AND NOT "$dead"'
    return table(
        sink.name,
        f'SELECT {", ".join([*shown, *picked])}, row_number() OVER (ORDER BY "$pos", "$i") '
        f'AS "$pos", "$part", "$ts", "$dead" FROM ({inner})',
    )


def _table(query: Project, sink: Source, given: Source) -> str:
    """Row for row, deletions too; what no longer passes the filter is deleted if it was there."""
    columns = ", ".join(guarded(item) for item in (*query.keys, *query.values))
    keys = ", ".join(quoted(given.keys))
    kept = "TRUE" if query.where is None else '"$in" OR "$was"'
    return table(
        sink.name,
        f'SELECT {columns}, "$pos", "$part", "$ts", NOT "$in" AS "$dead" FROM '
        f'(SELECT *, coalesce(lag("$in") OVER (PARTITION BY {keys} ORDER BY "$pos"), FALSE) '
        f'AS "$was" FROM (SELECT *, NOT "$dead" AND {where(query.where)} AS "$in" '
        f'FROM "{given.name}" WHERE {keyed(given)})) WHERE {kept}',
    )
