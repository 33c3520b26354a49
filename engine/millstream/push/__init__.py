"""Push queries and PRINT: rows that a client gets as they arrive.

* `push_queries`: those that run. `pushing`: how one is planned, started and ended.
* `shared_push`: one running query and its clients. `printing`: PRINT.
"""
