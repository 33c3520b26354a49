"""What a tumbling count per key costs on Spark: CPU seconds of all processes, and seconds.

    python -m tests.bench.spark --records 5000000

The same program through Spark, without Spark, and the same question in native Spark SQL over the
same JSON (which drops nothing that is late: that is in its favour), in a session of its own whose
JVM compiles as Java does by itself. The cost of starting the session and of the first result is
reported separately. Of several runs of each, the lowest counts.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

from millstream.functions.catalogue import builtin_catalogue
from millstream.history.job import run_on_spark
from millstream.history.local import run_local
from millstream.history.sealed import FromSegments, Segment
from millstream.history.session import Spark, SparkSettings
from millstream.history.splits import Run, Split
from millstream.log.log import Appended
from tests.bench.meter import Cost, Meter
from tests.properties.pipeline import topology_of

PARTITIONS = 4
SEGMENTS = 5
TOPIC, SINK = "events", "counts"
SOURCE = f"""
CREATE STREAM events (user_id STRING KEY, page STRING, ts BIGINT, amount DOUBLE, ok BOOLEAN)
  WITH (KAFKA_TOPIC = '{TOPIC}', VALUE_FORMAT = 'JSON', TIMESTAMP = 'TS');
"""
QUERY = f"""
CREATE TABLE counts WITH (KAFKA_TOPIC = '{SINK}') AS SELECT user_id, COUNT(*) AS n
  FROM events WINDOW TUMBLING (SIZE 60 SECONDS, GRACE PERIOD 1 SECONDS)
  GROUP BY user_id EMIT CHANGES;
"""
RECORDS = """
COPY (
  SELECT i AS "offset", ts AS timestamp, encode(u) AS key,
    encode('{{"user_id":"' || u || '","page":"/page/' || (hash(i, 2) % 1000) || '","ts":' || ts
      || ',"amount":' || (hash(i, 3) % 100000) / 100.0 || ',"ok":true,"note":"abcdefghi"}}')
      AS value,
    NULL::STRUCT(key VARCHAR, value BLOB)[] AS headers
  FROM (SELECT i, 'user' || (hash(i, {partition}) % 2500 + 2500 * {partition}) AS u,
    1700000000000 + i * 2 - (hash(i, 1) % 50 = 0)::INT * (hash(i, 4) % 3000)::BIGINT AS ts
    FROM range({first}, {end}) t(i))
) TO '{path}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, ROW_GROUP_SIZE 51200)
"""


def segments(folder: Path, records: int) -> FromSegments:
    """Sealed segments of records that are as JSON, two in a hundred of them late."""
    each = records // PARTITIONS // SEGMENTS
    made = {}
    with duckdb.connect() as con:
        for partition in range(PARTITIONS):
            listed = []
            for number in range(SEGMENTS):
                first, end = number * each, (number + 1) * each
                path = str(folder / f"{partition}-{number}.parquet")
                con.execute(RECORDS.format(partition=partition, first=first, end=end, path=path))
                listed.append(Segment(first, end, path))
            made[TOPIC, partition] = tuple(listed)
    return FromSegments(made)


def run_over(source: FromSegments) -> Run:
    """The program over all of the segments."""
    widths = {TOPIC: PARTITIONS, SINK: PARTITIONS}
    topology = topology_of(SOURCE, QUERY, widths)
    splits = {place: Split(*place, 0, listed[-1].end) for place, listed in source.segments.items()}
    return Run(topology, splits, widths, cached=True)


def native(session: SparkSession, source: FromSegments) -> int:
    """Counts per key and minute by Spark SQL, lateness left aside: how many."""
    paths = [segment.path for listed in source.segments.values() for segment in listed]
    value = f.from_json(f.col("value").cast("string"), "user_id STRING, ts BIGINT")
    rows = session.read.parquet(*paths).select(value.alias("v"))
    start = f.col("v.ts") - f.col("v.ts") % 60_000
    return len(rows.groupBy("v.user_id", start.alias("start")).count().toArrow())


def counted(items: Iterator[object]) -> int:
    """Rows of the answer."""
    return sum(item.count for item in items if isinstance(item, Appended))


def best(meter: Meter, title: str, repeats: int, work: Callable[[], int]) -> Cost:
    """The cheapest of some runs; all are printed."""
    costs: list[Cost] = []
    for _ in range(repeats):
        with meter.measured(costs):
            rows = work()
        print(
            f"{title:28} {costs[-1].cpu:6.1f} CPU-s {costs[-1].wall:6.1f} s  {rows} rows",
            flush=True,
        )
    return min(costs, key=lambda cost: cost.cpu)


def best_native(meter: Meter, master: str, repeats: int, source: FromSegments) -> Cost:
    """The cheapest run of native Spark SQL."""
    usual = {"spark.driver.defaultJavaOptions": ""}
    spark = Spark(SparkSettings(master, "2g", options=usual))
    try:
        with spark.using() as session:
            return best(meter, "native Spark SQL", repeats, lambda: native(session, source))
    finally:
        spark.close()


def main() -> int:
    """Run the command; 1 when Spark costs more than it may."""
    parser = argparse.ArgumentParser(prog="spark", description=__doc__)
    parser.add_argument("--records", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--master", default="local[2]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        source = segments(Path(folder), options.records)
        run = run_over(source)
        functions = builtin_catalogue()
        meter = Meter()
        plain = best(
            meter,
            "without Spark",
            options.repeats,
            lambda: counted(run_local(run, source, functions)),
        )
        spark = Spark(SparkSettings(options.master, "2g"))
        try:
            costs: list[Cost] = []
            with meter.measured(costs), spark.using() as session:
                pass
            print(f"{'session':28} {costs[0].cpu:6.1f} CPU-s {costs[0].wall:6.1f} s")

            def through() -> int:
                return counted(run_on_spark(run, source, functions, session))

            best(meter, "first answer through Spark", 1, through)
            ours = best(meter, "through Spark, warm", options.repeats, through)
        finally:
            spark.close()
        theirs = best_native(meter, options.master, options.repeats, source)
    print(f"through Spark: {ours.cpu / plain.cpu:.2f} x without (at most 1.4)")
    print(f"through Spark: {ours.cpu / theirs.cpu:.2f} x native Spark SQL (at most 0.33)")
    return 0 if ours.cpu <= 1.4 * plain.cpu and ours.cpu <= theirs.cpu / 3 else 1


if __name__ == "__main__":
    sys.exit(main())
