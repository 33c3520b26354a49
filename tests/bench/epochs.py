"""What an epoch of a pipeline costs when there is next to nothing to do: its overhead.

    python -m tests.bench.epochs [--master local[2]] [--epochs 20] [--records 20]
        [--kafka HOST:PORT]

A table that is grouped by another column than the key: two stages, with rows that move between
them, over a topic of four partitions, in a file or on Kafka. The first epochs start Spark and its
workers; they are reported separately.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import uuid
from pathlib import Path

from millstream.model.errors import MillstreamError
from millstream.pipeline.pipeline import Pipeline, open_pipeline
from millstream.query.session import Session
from millstream.service.database import Database
from tests.bench.meter import Cost, Meter

WARMING = 3
LIMIT_SECONDS = 0.6
SCRIPT = """
SET 'auto.offset.reset' = 'earliest';
CREATE STREAM orders (customer STRING KEY, item STRING, amount DOUBLE)
  WITH (KAFKA_TOPIC = '{0}.orders', PARTITIONS = 4, VALUE_FORMAT = 'JSON');
CREATE TABLE totals WITH (KAFKA_TOPIC = '{0}.totals') AS
  SELECT item, COUNT(*) AS n, SUM(amount) AS total FROM orders GROUP BY item;
"""


def failed(query_id: str, error: MillstreamError) -> None:
    """Nothing may."""
    raise error


def costs_of(pipeline: Pipeline, epochs: int, records: int) -> list[Cost]:
    """What each of some epochs costs, over so many new records."""
    db, meter, costs = Database(pipeline.engine, Session()), Meter(), list[Cost]()
    rows = "".join(
        f"INSERT INTO orders VALUES ('c{n % 50}', 'i{n % 7}', {n});" for n in range(records)
    )
    for _ in range(epochs):
        db.execute(rows)
        with meter.measured(costs):
            (done,) = pipeline.epoch()
        # On Kafka the end of each transaction counts.
        assert done.read >= records
    return costs


def main() -> int:
    """Run the command; 1 if an epoch exceeds its time limit."""
    parser = argparse.ArgumentParser(prog="epochs", description=__doc__)
    parser.add_argument("--master", default="local[2]", help="or none")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--records", type=int, default=20)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a cluster that is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-bench-") as folder:
        script = Path(folder) / "pipeline.sql"
        service = f"epochs-{uuid.uuid4().hex[:8]}"
        script.write_text(SCRIPT.format(service))
        master = None if options.master == "none" else options.master
        path = ":memory:" if options.kafka else str(Path(folder) / "shop.db")
        with open_pipeline(
            path, str(script), failed, master=master, kafka=options.kafka, service_id=service
        ) as pipeline:
            costs = costs_of(pipeline, WARMING + options.epochs, options.records)
    for name, some in (("first", costs[:1]), ("warm", costs[WARMING:])):
        wall, cpu = [cost.wall for cost in some], [cost.cpu for cost in some]
        print(
            f"{name:6} median {statistics.median(wall):.3f} s, {statistics.median(cpu):.2f} CPU-s;"
            f" {min(wall):.3f} to {max(wall):.3f} s"
        )
    return 0 if statistics.median(cost.wall for cost in costs[WARMING:]) <= LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
