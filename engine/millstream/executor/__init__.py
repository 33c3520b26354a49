"""Runs programs in DuckDB behind the runtime's Executor port.

* `executor`: the executor of a sub-topology. `replica`: replaying changelogs into its state.
* `decode`, `exchange_read`, `order`, `sender_order`: from fetched records to ordered input
  relations. `sender_labels`: which tasks have sent a record.
* `execution`: running the steps of a program on a session.
* `sink`, `exchange_write`: from the output relation to records.
* `changelog`, `compaction`, `upkeep`: changelog records, snapshots on them, expired state.
* `channel_watermarks`: the progress in each input and exchange channel, as state.
* `sql_script`: a program as a script for the `duckdb` shell, for EXPLAIN.
* `problems`: entries of the processing log, and the error that stops a query.
"""
