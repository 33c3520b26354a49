"""Joins, over all rows of both sides at once."""

from __future__ import annotations

from tests.differential.describe import Join, Side, Source
from tests.differential.oracle_text import guarded, table, where

_DAY_MS = 86_400_000


def joined(query: Join, sink: Source) -> list[str]:
    """The tables up to the result of a join."""
    left, right = query.sides
    made = [_seen(left, '"$left"', "l"), _seen(right, '"$right"', "r")]
    match query.kind:
        case "stream_table":
            return [*made, *_stream_table(query, sink)]
        case "stream_stream":
            return [*made, *_stream_stream(query, sink)]
        case "table_table":
            return [*made, *_table_table(query, sink)]
        case _:
            return [*made, *_foreign_key(query, sink)]


def _seen(side: Side, name: str, letter: str) -> str:
    """A side under the names that its columns have in a join."""
    return (
        f"CREATE OR REPLACE TABLE {name} AS SELECT "
        f'COLUMNS("{side.source}".* EXCLUDE ("$pos", "$part", "$ts", "$dead")) '
        f'AS "{side.alias}.\\0", "$pos" AS {letter}_pos, "$ts" AS {letter}_ts, '
        f'"$dead" AS {letter}_dead, "$part" AS {letter}_part FROM "{side.source}"'
    )


def _results(query: Join, sink: Source, source: str, key: str) -> str:
    """The rows of a relation that has the columns of both sides, `$at` and `$ts`."""
    values = ", ".join(guarded(item) for item in query.values)
    return table(
        sink.name,
        f'SELECT {key} AS "{query.key.name}", {values}, '
        f'row_number() OVER (ORDER BY "$at") AS "$pos", 0 AS "$part", "$ts", FALSE AS "$dead" '
        f"FROM ({source}) WHERE {where(query.where)}",
    )


def _on(query: Join) -> tuple[str, str]:
    left, right = query.sides
    return left.on.plain(), right.on.plain()


def _stream_table(query: Join, sink: Source) -> list[str]:
    """Each row of the stream with the row that the table has for its key just then."""
    left, right = _on(query)
    how = "LEFT JOIN" if query.how == "LEFT" else "JOIN"
    # Rows of the stream without a key can only be padded.
    keyed = "" if query.how == "LEFT" else f" AND {left} IS NOT NULL"
    source = (
        f'SELECT *, l_pos AS "$at", l_ts AS "$ts" FROM "$left" {how} "$right" ON {right} = {left} '
        f'AND NOT r_dead AND r_pos = (SELECT max(x.r_pos) FROM "$right" x '
        f"WHERE x.{right} = {left} AND x.r_pos < l_pos) "
        f"WHERE NOT l_dead{keyed}"
    )
    return [_results(query, sink, source, left)]


def _stream_stream(query: Join, sink: Source) -> list[str]:
    """Pairs near in time, at the later of the two. With GRACE PERIOD a side drops rows older than
    its newest row minus both bounds and the grace."""
    left, right = _on(query)
    timed = table(
        "$all",
        f"SELECT *, max(ts) OVER (PARTITION BY part ORDER BY pos) AS now, max(ts) OVER "
        f"(PARTITION BY part, side ORDER BY pos) AS newest FROM ("
        f"SELECT 'l' AS side, l_pos AS pos, l_ts AS ts, l_part AS part, {left} AS key "
        f'FROM "$left" WHERE NOT l_dead AND {left} IS NOT NULL UNION ALL '
        f"SELECT 'r', r_pos, r_ts, r_part, {right} "
        f'FROM "$right" WHERE NOT r_dead AND {right} IS NOT NULL)',
    )
    kept = _DAY_MS if query.grace is None else query.before + query.after + query.grace
    newest = (
        '(SELECT max(z.newest) FROM "$all" z WHERE z.side = {0}.side AND z.part = {0}.part '
        "AND z.pos < greatest(a.pos, b.pos))"
    )
    pairs = table(
        "$pairs",
        f"SELECT a.pos AS l_at, b.pos AS r_at, a.ts AS l_time, b.ts AS r_time "
        f"FROM \"$all\" a, \"$all\" b WHERE a.side = 'l' AND b.side = 'r' AND a.key = b.key "
        f"AND a.part = b.part AND b.ts BETWEEN a.ts - {query.before} AND a.ts + {query.after} "
        f"AND CASE WHEN a.pos > b.pos THEN b.ts >= {newest.format('b')} - {kept} "
        f"ELSE a.ts >= {newest.format('a')} - {kept} END",
    )
    met = (
        "SELECT l.*, r.*, (greatest(l_at, r_at), 1, CASE WHEN l_at > r_at THEN r_time ELSE l_time "
        'END, least(l_at, r_at)) AS "$at", greatest(l_ts, r_ts) AS "$ts" FROM "$pairs" '
        'JOIN "$left" l ON l_pos = l_at JOIN "$right" r ON r_pos = r_at'
    )
    lone = table("$lone", " UNION ALL ".join(_alone(query, side) for side in _outer(query)))
    alone = (
        'SELECT l.*, r.*, (due, turn, o.ts, pos) AS "$at", o.ts AS "$ts" FROM "$lone" o '
        "LEFT JOIN \"$left\" l ON o.side = 'l' AND l_pos = pos "
        "LEFT JOIN \"$right\" r ON o.side = 'r' AND r_pos = pos"
    )
    key = f"coalesce({left}, {right})"
    return [timed, pairs, lone, _results(query, sink, f"{met} UNION ALL {alone}", key)]


def _outer(query: Join) -> tuple[str, ...]:
    return {"LEFT": ("l",), "RIGHT": ("r",), "FULL": ("l", "r")}.get(query.how, ("",))


def _alone(query: Join, side: str) -> str:
    """Unmatched rows of an outer side: emitted on arrival, if no earlier row matches and no more
    matches can be in time (or without GRACE PERIOD); else when stream time has passed their last
    possible match and the grace, if nothing has matched by then."""
    reach = query.before if side == "r" else query.after
    number = "greatest(l_at, r_at)"
    at_once = "TRUE" if query.grace is None else f"x.ts + {reach} < x.now"
    closing = (
        '(SELECT min(z.pos) FROM "$all" z WHERE z.part = x.part AND z.pos > x.pos '
        f"AND z.now > x.ts + {reach} + {query.grace or 0})"
    )
    matched = (
        f'EXISTS (SELECT 1 FROM "$pairs" WHERE {side or "l"}_at = x.pos AND {number} <= {{0}})'
    )
    return (
        f"SELECT side, pos, ts, CASE WHEN {at_once} THEN pos ELSE {closing} END AS due, "
        f"CASE WHEN {at_once} THEN 2 ELSE 0 END AS turn FROM \"$all\" x WHERE side = '{side}' "
        f"AND NOT {matched.format('x.pos')} AND ({at_once} OR ({closing} IS NOT NULL "
        f"AND NOT {matched.format(closing + ' - 1')}))"
    )


def _versions(source: str, side: str, key: str) -> str:
    """Rows of a table with the position at which the next version of the key comes."""
    return (
        f"SELECT *, lead({side}_pos) OVER (PARTITION BY {key} ORDER BY {side}_pos) AS {side}_until "
        f"FROM {source}"
    )


def _table_table(query: Join, sink: Source) -> list[str]:
    """At each change of either side: the rows of both tables for the key just then."""
    left, right = _on(query)
    changes = table(
        "$changes",
        " UNION ALL ".join(
            f'SELECT {key} AS "$key", {side}_pos AS "$at", {side}_ts AS at_ts '
            f"FROM ({_effective(name, side, key)})"
            for side, name, key in (("l", "$left", left), ("r", "$right", right))
        ),
    )
    there = {"INNER": "{0} AND {1}", "LEFT": "{0}", "RIGHT": "{1}", "FULL": "({0} OR {1})"}
    lives = there[query.how].format("l_pos IS NOT NULL", "r_pos IS NOT NULL")
    state = table(
        "$state",
        f'SELECT * FROM "$changes" LEFT JOIN ({_versions(chr(34) + "$left" + chr(34), "l", left)}) '
        f'ON {left} = "$key" AND NOT l_dead AND l_pos <= "$at" '
        f'AND ("$at" < l_until OR l_until IS NULL) '
        f"LEFT JOIN ({_versions(chr(34) + '$right' + chr(34), 'r', right)}) "
        f'ON {right} = "$key" AND NOT r_dead AND r_pos <= "$at" '
        f'AND ("$at" < r_until OR r_until IS NULL)',
    )
    values = ", ".join(guarded(item) for item in query.values)
    passes = f"({lives}) AND {where(query.where)}"
    return [
        changes,
        state,
        table(
            sink.name,
            f'SELECT "$key" AS "{query.key.name}", {values}, "$at" AS "$pos", 0 AS "$part", '
            f'greatest(l_ts, r_ts, at_ts) AS "$ts", NOT "$in" AS "$dead" FROM (SELECT *, '
            f'coalesce(lag("$in") OVER (PARTITION BY "$key" ORDER BY "$at"), FALSE) AS "$was" '
            f'FROM (SELECT *, {passes} AS "$in" FROM "$state")) WHERE "$in" OR "$was"',
        ),
    ]


def _foreign_key(query: Join, sink: Source) -> list[str]:
    """The tables as they are in the end. The last change of a row came from the later of both
    sides, its time is that of the change and of what the other side had then."""
    left, right = _on(query)
    primary = f'"{query.key_text}"'
    padded = ", ".join(
        f"CASE WHEN NOT r_dead THEN {name} END AS {name}" for name in _columns(query, right)
    )
    changes = table("$effective", _effective("$right", "r", right))
    source = (
        f'SELECT * REPLACE ({padded}), l_pos AS "$at", CASE WHEN r_dead AND r_pos < l_pos '
        f'THEN l_ts ELSE greatest(l_ts, r_ts) END AS "$ts" FROM '
        f"(SELECT * FROM ({_versions(chr(34) + '$left' + chr(34), 'l', primary)}) "
        f"WHERE l_until IS NULL AND NOT l_dead) LEFT JOIN "
        f"(SELECT * FROM ({_versions(chr(34) + '$effective' + chr(34), 'r', right)}) "
        f"WHERE r_until IS NULL) ON {left} = {right}"
    )
    if query.how == "INNER":
        source = f"{source} WHERE NOT r_dead"
    return [changes, _results(query, sink, source, primary)]


def _columns(query: Join, key: str) -> list[str]:
    """The columns of the right side that are shown, and its key."""
    shown = {name for item in query.values for name in item.expression.columns()}
    shown |= set(query.where.columns()) if query.where is not None else set()
    alias = query.sides[1].alias
    return sorted({key, *(f'"{name}"' for name in shown if name.startswith(f"{alias}."))})


def _effective(source: str, side: str, key: str) -> str:
    """Without the deletions of absent rows."""
    return (
        f"SELECT * EXCLUDE (gone) FROM (SELECT *, coalesce(lag({side}_dead) OVER (PARTITION BY "
        f'{key} ORDER BY {side}_pos), TRUE) AS gone FROM "{source}") '
        f"WHERE NOT ({side}_dead AND gone)"
    )
