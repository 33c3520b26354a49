"""Pull queries: checks, typing and DuckDB text.

* `pull`: queries of the dialect. `access`: key lookups, ranges and scans. `keyed`: prepared ones.
* `extended`, `allowed`, `growth`: queries beyond the dialect, by allow-lists.
* `session`: the properties of a client.
* `results`, `changes`, `rendered_rows`: what statements return.
* `conditions`: predicates to push down. `past`: queries over history as push queries.
"""
