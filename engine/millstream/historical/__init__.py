"""Historical queries and back-fills: bounded runs over a range of the log.

* `historical`: what they run on. `planning`: from a query to a bounded run. `running`: its rows.
* `executing`, `relations`, `spool`: historical queries of the dialect, and extended ones.
* `backfilling`: CREATE … WITH (BACKFILL = …). `sealing`: streams for other programs.
* `on_spark`: the Spark session.
"""
