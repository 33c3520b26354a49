"""Historical queries: the streaming runtime, run from one offset to another.

* `splits`: the input of a run. `ranges`, `within`: offsets and bounds of event time.
* `stage`, `task`, `bounded`, `workspace`: one task of a run, over a log with an end.
* `exchange`: rows between the tasks of two sub-topologies.
* `local`, `job`, `rounds`, `worker`: runs in this process, as a Spark job, stage by stage.
* `reading`, `from_kafka`, `sealed`, `inline`: sources of the records of splits.
* `session`, `master`, `failures`, `progress`, `folders`: Spark's session and errors.
* `data_source`, `shared`, `listed`, `latest`: the data source for other PySpark programs.
"""
