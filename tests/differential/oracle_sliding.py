"""Sliding windows, by their definition: from each row a window that ends there, and one that begins
behind it; a window is there once it has a row, if it is open then."""

from __future__ import annotations

from tests.differential.describe import Group, Source
from tests.differential.oracle_text import collected, group_results, names, same, table
from tests.differential.oracle_windows import BOUNDS, closed, grace_of, timed


def sliding(query: Group, sink: Source) -> list[str]:
    """Sliding windows."""
    window = query.window
    assert window is not None
    size, grace = window.size, grace_of(query, window)
    keys = names(query.keys)
    listed, chosen = ", ".join(keys), ", ".join(f"r.{key}" for key in keys)
    kept = table("$kept", f'SELECT * FROM "$rows" WHERE "$ts" + {size + 1 + grace} >= "$time"')
    starts = table(
        "$starts",
        f'SELECT {listed}, "WINDOWSTART", min("$pos") AS "$known" FROM (SELECT *, '
        f'unnest([greatest("$ts" - {size}, 0), "$ts" + 1]) AS "WINDOWSTART" FROM "$kept") '
        f'GROUP BY {listed}, "WINDOWSTART"',
    )
    inside = table(
        "$inside",
        f'SELECT r.*, "WINDOWSTART", greatest("$known", min(r."$pos") OVER '
        f'(PARTITION BY {chosen}, "WINDOWSTART")) AS "$made" FROM "$starts" s JOIN "$kept" r '
        f'ON {same("r", "s", keys)} AND r."$ts" BETWEEN "WINDOWSTART" AND "WINDOWSTART" + {size}',
    )
    changes = table(
        "$changes",
        f'SELECT {chosen}, r."WINDOWSTART", e."$pos" AS "$at", e."$part", e."$dead" '
        f'FROM (SELECT DISTINCT {listed}, "WINDOWSTART", greatest("$pos", "$made") AS "$pos" '
        f'FROM "$inside") r JOIN "$kept" e USING ("$pos") '
        f'WHERE "WINDOWSTART" + {size} >= e."$time" - {grace}',
    )
    lists = collected(query, 'list(r."{0}" ORDER BY r."$pos")')
    of_change = ", ".join(f"c.{key}" for key in keys)
    running = table(
        "$running",
        f'SELECT {of_change}, c."WINDOWSTART", c."WINDOWSTART" + {size} AS "WINDOWEND", {lists}, '
        f'c."$part", c."$dead", max(r."$ts") AS "$ts", '
        f'row_number() OVER (ORDER BY c."$at", c."WINDOWSTART") AS "$pos" '
        f'FROM "$changes" c JOIN "$inside" r ON {same("r", "c", keys)} '
        f'AND r."WINDOWSTART" = c."WINDOWSTART" AND r."$pos" <= c."$at" '
        f'GROUP BY {of_change}, c."WINDOWSTART", c."$at", c."$part", c."$dead"',
    )
    source = closed(listed, f'"WINDOWEND" + {grace}', "<") if query.final else '"$running"'
    made = group_results(query, sink, source, BOUNDS)
    return [timed(query), kept, starts, inside, changes, running, *made]
