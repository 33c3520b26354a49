"""GROUP BY without windows."""

from __future__ import annotations

from tests.differential.describe import Group, Source
from tests.differential.oracle_text import (
    argument_rows,
    collected,
    group_results,
    keyed,
    names,
    quoted,
    same,
    table,
)


def group_stream(query: Group, sink: Source, given: Source) -> list[str]:
    """Each row gives the aggregates over all rows of its group so far."""
    rows = table("$rows", argument_rows(query, given.name))
    keys = ", ".join(names(query.keys))
    lists = collected(query, 'list("{0}") OVER w')
    running = (
        f'(SELECT {keys}, {lists}, "$pos", "$part", max("$ts") OVER w AS "$ts", "$dead" '
        f'FROM "$rows" WINDOW w AS (PARTITION BY {keys} ORDER BY "$pos" ROWS UNBOUNDED PRECEDING))'
    )
    return [rows, *group_results(query, sink, running)]


def group_table(query: Group, sink: Source, given: Source) -> list[str]:
    """Each version of a row is in its group until the next one. Its begin and its end change the
    group, the old version's group first; where both are in one group, that changes once."""
    primary = ", ".join(quoted(given.keys))
    keys = names(query.keys)
    listed = ", ".join(keys)
    versions = table(
        "$versions",
        f'SELECT *, lead("$pos") OVER w AS "$until", lead("$ts") OVER w AS "$after" '
        f'FROM "{given.name}" WHERE {keyed(given)} '
        f'WINDOW w AS (PARTITION BY {primary} ORDER BY "$pos")',
    )
    rows = table("$rows", argument_rows(query, "$versions", ('"$until"', '"$after"')))
    ends = f'SELECT {listed}, "$until" AS "$at", "$after" AS "$ts", 0 AS side FROM "$rows"'
    begins = f'SELECT {listed}, "$pos" AS "$at", "$ts", 1 AS side FROM "$rows"'
    changes = table(
        "$changes",
        f'SELECT {listed}, "$at", max(side) AS side, max(max("$ts")) OVER '
        f'(PARTITION BY {listed} ORDER BY "$at") AS "$ts" '
        f'FROM ({begins} UNION ALL {ends} WHERE "$until" IS NOT NULL) GROUP BY {listed}, "$at"',
    )
    lists = collected(
        query, 'coalesce(list(r."{0}" ORDER BY r."$pos") FILTER (r."$pos" IS NOT NULL), [])'
    )
    chosen = ", ".join(f"c.{key}" for key in keys)
    members = (
        f'(SELECT {chosen}, {lists}, row_number() OVER (ORDER BY c."$at", c.side) AS "$pos", '
        f'0 AS "$part", any_value(c."$ts") AS "$ts", FALSE AS "$dead" FROM "$changes" c '
        f'LEFT JOIN "$rows" r ON {same("c", "r", keys)} AND r."$pos" <= c."$at" '
        f'AND (r."$until" IS NULL OR c."$at" < r."$until") '
        f'GROUP BY {chosen}, c."$at", c.side)'
    )
    return [versions, rows, changes, *group_results(query, sink, members)]
