"""One file per operator: a logical node becomes DuckDB statements over batches and state.

* `compile`: from a sub-topology to its `program`. `relation`: the SELECT under construction.
* `read`, `filter`, `project`, `flatten`, `repartition`: stateless operators and leaves.
* `aggregate`, `windows`, `sessions`, `accumulators`, `folds`: aggregation.
* `join`, `stream_join`, `table_join`, `foreign_key`, `versions`: joins.
* `expressions`, `casts`, `arithmetic`, `scalar`, `guards`, `sql`: expressions as text.
* `layout`, `arrival_texts`: the text of programs for EXPLAIN.
* `view`: the contents of a table, for pull queries.
"""
