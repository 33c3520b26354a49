"""The log on Apache Kafka: confluent-kafka behind the `Log` protocol.

* `log`: the `Log`. `client`: configuration and errors. `topics`, `groups`, `purges`: requests.
* `reader`, `single_reads`: reads of what `fetcher` has fetched ahead. `fetchers`: all consumers of
  a log; `fetched_partitions`, `partition_buffer`: what one of them holds, and for which readers.
* `stable_offsets`, `shared_looks`: the common order of partitions that others write.
* `writer`, `batch_producer`, `calls`, `patience`: transactional writes and their deadlines.
* `member`, `member_writer`, `credentials`, `lag`: membership in a query's group.
* `intake`, `messages`: conversion of messages in Python; `compiled`, `library` and the C files:
  the same in C; `backend` selects one of them.
* `topic_metadata`: a cache of topics for callers that cannot block.
"""
