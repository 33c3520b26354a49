"""Windows: which rows are late, which windows they are in, what closes.

Stream time at a row is the highest event time so far in its partition among the rows that reach
the aggregation. A window [start, start + size) is closed for a row when its end is not after
stream time less the grace; a session when its last row is before stream time less gap and grace.
"""

from __future__ import annotations

from tests.differential.describe import Group, Source, Window
from tests.differential.oracle_text import (
    DAY_MS,
    argument_rows,
    collected,
    group_results,
    names,
    same,
    table,
)

BOUNDS = ('"WINDOWSTART"', '"WINDOWEND"')
_TIME = 'max("$ts") OVER (PARTITION BY "$part" ORDER BY "$pos" ROWS UNBOUNDED PRECEDING)'


def grace_of(query: Group, window: Window) -> int:
    """A day in all where nothing is said; none with EMIT FINAL."""
    if window.grace is not None:
        return window.grace
    return 0 if query.final else max(DAY_MS - window.size, 0)


def timed(query: Group) -> str:
    """The rows with stream time at each of them."""
    return table(
        "$rows",
        f'SELECT *, {_TIME} AS "$time" FROM ({argument_rows(query, query.source)})',
    )


def windows(query: Group, sink: Source) -> list[str]:
    """Tumbling and hopping windows."""
    window = query.window
    assert window is not None
    grace = grace_of(query, window)
    keys = ", ".join(names(query.keys))
    # All multiples of the advance in (ts - size, ts], none of them below 0.
    first = f'greatest(("$ts" - {window.size}) // {window.advance} + 1, 0)'
    first = f'CASE WHEN "$ts" < {window.size} THEN 0 ELSE {first} END'
    starts = f'unnest(range({first}, "$ts" // {window.advance} + 1)) * {window.advance}'
    placed = table(
        "$placed",
        f'SELECT *, "WINDOWSTART" + {window.size} AS "WINDOWEND" FROM '
        f'(SELECT *, {starts} AS "WINDOWSTART" FROM "$rows") '
        f'WHERE "WINDOWSTART" + {window.size} > "$time" - {grace}',
    )
    lists = collected(query, 'list("{0}") OVER w')
    running = table(
        "$running",
        f'SELECT {keys}, {", ".join(BOUNDS)}, {lists}, "$part", "$dead", '
        f'row_number() OVER (ORDER BY "$pos", "WINDOWSTART") AS "$pos", '
        f'max("$ts") OVER w AS "$ts" FROM "$placed" WINDOW w AS '
        f'(PARTITION BY {keys}, "WINDOWSTART" ORDER BY "$pos" ROWS UNBOUNDED PRECEDING)',
    )
    source = closed(keys, f'"WINDOWEND" + {grace}') if query.final else '"$running"'
    made = group_results(query, sink, source, BOUNDS)
    return [timed(query), placed, running, *made]


def closed(keys: str, closing: str, comparison: str = "<=") -> str:
    """EMIT FINAL: the last row of each window that stream time has passed by in the end."""
    return (
        '(SELECT * FROM "$running" JOIN (SELECT "$part", max("$time") AS "$end" FROM "$rows" '
        f'GROUP BY "$part") USING ("$part") WHERE {closing} {comparison} "$end" '
        f'QUALIFY row_number() OVER (PARTITION BY {keys}, "WINDOWSTART", "WINDOWEND" '
        'ORDER BY "$pos" DESC) = 1)'
    )


def sessions(query: Group, sink: Source) -> list[str]:
    """Session windows, row by row for each key: `known` are all sessions after the row, `near`
    those that it joins."""
    window = query.window
    assert window is not None
    gap, grace = window.size, grace_of(query, window)
    keys = names(query.keys)
    listed = ", ".join(keys)
    numbered = table(
        "$numbered",
        f'SELECT *, row_number() OVER (PARTITION BY {listed} ORDER BY "$pos") AS "$i" FROM "$rows"',
    )
    folded = table("$folded", _fold(listed, same("f", "n", keys), gap, grace))
    lists = collected(query, 'list(r."{0}" ORDER BY r."$pos")')
    empty = collected(query, 'list(r."{0}") FILTER (FALSE)')
    chosen = ", ".join(f"f.{key}" for key in keys)
    after = (
        f'SELECT {chosen}, f.s AS "WINDOWSTART", f.e AS "WINDOWEND", {lists}, f."$pos" AS "$at", '
        f'f."$part", FALSE AS "$dead" FROM (SELECT *, unnest(members) AS member FROM "$folded" '
        f'WHERE NOT late) f JOIN "$rows" r ON r."$pos" = f.member '
        f'GROUP BY {chosen}, f.s, f.e, f."$pos", f."$part"'
    )
    before = (
        f'SELECT {chosen}, f.o.s AS "WINDOWSTART", f.o.e AS "WINDOWEND", {empty}, f."$pos" AS '
        f'"$at", f."$part", TRUE AS "$dead" FROM (SELECT *, unnest(near) AS o FROM "$folded" '
        f'WHERE NOT late AND NOT (s = "$ts" AND e = "$ts")) f JOIN "$rows" r ON r."$pos" = f."$pos"'
        f' GROUP BY {chosen}, f.o, f."$pos", f."$part"'
    )
    running = table(
        "$running",
        f'SELECT *, "WINDOWEND" AS "$ts", row_number() OVER (ORDER BY "$at", "$dead" DESC, '
        f'"WINDOWSTART") AS "$pos" FROM ({after} UNION ALL {before})',
    )
    source = '"$running"'
    if query.final:
        source = closed(listed, f'"WINDOWEND" + {gap + grace}', "<")
        source = f'(SELECT * FROM {source} WHERE NOT "$dead")'
    return [
        timed(query),
        numbered,
        folded,
        running,
        *group_results(query, sink, source, BOUNDS),
    ]


def _fold(listed: str, matching: str, gap: int, grace: int) -> str:
    """What each row does: the sessions near it become one with it."""
    state = "STRUCT(s BIGINT, e BIGINT, members BIGINT[])[]"
    chosen = ", ".join(f"n.{key}" for key in listed.split(", "))
    near = (
        f'list_filter(f.known, lambda o: o.s - {gap} <= n."$ts" AND n."$ts" <= o.e + {gap} '
        f'AND o.e >= n."$time" - {gap + grace})'
    )
    step = (
        f'SELECT {chosen}, n."$i", n."$pos", n."$part", n."$ts", f.known, {near} AS near, '
        f'n."$time" - {gap + grace} AS closing FROM folded f JOIN "$numbered" n '
        f'ON {matching} AND n."$i" = f."$i" + 1'
    )
    merged = (
        'SELECT *, least("$ts", list_min(list_transform(near, lambda o: o.s))) AS s, '
        'greatest("$ts", list_max(list_transform(near, lambda o: o.e))) AS e, '
        'list_append(flatten(list_transform(near, lambda o: o.members)), "$pos") AS members '
        f"FROM ({step})"
    )
    known = (
        "CASE WHEN e < closing THEN known ELSE list_append(list_filter(known, "
        "lambda o: NOT list_contains(near, o)), {'s': s, 'e': e, 'members': members}) END"
    )
    columns = f'{listed}, "$i", "$pos", "$part", "$ts"'
    return (
        f'WITH RECURSIVE folded AS (SELECT DISTINCT {listed}, 0::BIGINT AS "$i", '
        f'0::BIGINT AS "$pos", 0 AS "$part", 0::BIGINT AS "$ts", []::{state} AS known, '
        f"[]::{state} AS near, 0::BIGINT AS s, 0::BIGINT AS e, []::BIGINT[] AS members, "
        f'TRUE AS late FROM "$numbered" UNION ALL '
        f"SELECT {columns}, {known}, near, s, e, members, e < closing FROM ({merged})) "
        'SELECT * FROM folded WHERE "$i" > 0'
    )
