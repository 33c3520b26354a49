"""The state machine that moves batches through tasks and commits them.

* `ports`: the `Executor`, `Replica` and `Restorer` that the runtime drives besides the log.
* `runtime`, `scheduling`: all queries of an instance, and the choice of the next one.
* `query_runner`: one query: open, replay, run, commit, recover. `retry_state`: its errors.
* `subtopology_runner`, `subtopology_runners`: reading and running the tasks of sub-topologies.
* `tasks`, `assigned_tasks`, `task_ownership`: states, assignment and ownership of tasks.
* `record_collector`, `changelogs`: outputs and changelogs. `fetch_quota`: the size of reads.
* `channels`, `sender_buffer`, `watermark`, `remote_upstreams`: order and progress between
  sub-topologies.
* `restoration`, `following`: replaying changelogs for starting tasks and standbys.
* `alignment`: bringing several queries to the same offsets.
* `spec`, `status`, `durations`: specifications, states and metrics.
"""
