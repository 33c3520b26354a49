"""The log on Apache Kafka: confluent-kafka behind the `Log` protocol.

* `log`: the `Log`. `client`: configuration and errors. `topics`, `groups`, `purges`: requests.
* `reader`, `partition_buffer`, `stable_offsets`: prefetching reads in a common order.
* `writer`, `batch_producer`, `calls`, `patience`: transactional writes and their deadlines.
* `member`, `member_writer`, `credentials`, `lag`: membership in a query's group.
* `intake`, `messages`: conversion of messages in Python; `compiled`, `library` and the C files:
  the same in C; `backend` selects one of them.
* `topic_metadata`: a cache of topics for callers that cannot block.
"""
