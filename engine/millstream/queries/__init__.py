"""The persistent queries of this process: they are made to match the catalog.

* `registry.py`: the catalog and the queries that run here.
* `reconcile.py`: effects of statements, and the difference between the catalog and what runs.
* `starting.py`, `teardown.py`: from a plan to executors in the runtime, and back.
* `backfill_result.py`, `replaced_table.py`: queries that begin with the result of a job.
* `statuses.py`: progress, and waiting until the queries have caught up.
* `processing_log.py`: the rows that they could not process.
* `orphans.py`: what a killed process left behind.
* `user_functions.py`: which queries call functions of users.
"""
