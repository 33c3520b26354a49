"""The log: topics, partitions, records, transactions.

* `log`: the protocols `Log`, `Reader`, `Writer`. `membership`: sharing tasks in a group.
* `embedded` and `embedded_writer` over `logfile`, `stored`, `tables`, `contents`, `tail`: a log in
  one DuckDB file.
* `simulated`, `simulated_group`, `simulated_records`, `faults`: a log that fails on purpose.
  `in_memory`: the same without failures, for the tests of users.
* `kafka`: a log on Apache Kafka.
* `arrival`: arrival numbers. `identity`: replaced topics. `reopening`, `settled`: waiting and
  retrying writers.
"""
