"""Queries of an instance decode the records of a topic on Kafka once."""

from __future__ import annotations

import uuid

import millstream
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from tests.patience import until

COUNT, QUERIES = 2_000, 4


def test_queries_share_what_was_decoded(servers: str) -> None:
    name = f"decoding-{uuid.uuid4().hex[:8]}"
    with millstream.connect(kafka=servers, service_id=name) as database:
        database.execute(
            f"CREATE STREAM s (A BIGINT) WITH (KAFKA_TOPIC='{name}-t', PARTITIONS=2,"
            " VALUE_FORMAT='JSON');"
        )
        for number in range(QUERIES):
            database.execute(
                f"CREATE STREAM q{number} WITH (KAFKA_TOPIC='{name}-{number}') AS"
                f" SELECT A FROM s WHERE A % {QUERIES} = {number} EMIT CHANGES;"
            )
        for start in range(0, COUNT, 500):
            rows = raw_batch([(None, b'{"A":%d}' % n, 1000 + n) for n in range(start, start + 500)])
            for partition in range(2):
                database.engine.writer.append([Appended(f"{name}-t", partition, rows, 500)])

        def read() -> bool:
            database.wait()
            inputs = [query.traffic.records_in for query in database.metrics().queries]
            return len(inputs) == QUERIES and min(inputs) == 2 * COUNT

        until(read)
        outputs = [query.traffic.records_out for query in database.metrics().queries]
        assert outputs == [2 * COUNT // QUERIES] * QUERIES
        instance = database.metrics().instance
        # Each record is decoded at least once, and less often than there are queries. A record of a
        # partition that is ahead of the other one is held back, and reused when it is read again.
        assert 2 * COUNT <= instance.decoded < QUERIES * 2 * COUNT
        assert instance.decoded + instance.reused >= QUERIES * 2 * COUNT
