"""The process that is killed, on Kafka: a table that is made with back-fill and dropped, again and
again, over another program's records.

    python -m tests.crash.kafka_backfill_workload SERVERS SERVICE STATE [--make] [--finish]
        [--replace] [--backend duckdb|spark] [--instance NAME] [--protocol classic|consumer]
        [--standbys N]

It is one instance of the service; with --make it executes the statements. With --replace the table
is not dropped, but made anew by a query that writes a later version. Standard output: `ready` once;
`making maker`, `made maker`, `dropping maker` around the statements; around each step of a
transaction of the command topic's writer a mark as in kafka_workload.py, with the id `commands`,
and `refused ERROR` where a statement was. With --finish it makes the table where it is not there,
waits until all there is has been processed, and ends.
"""

from __future__ import annotations

import random
import threading
import time
from typing import NoReturn

import millstream
from millstream.model.settings import EngineSettings
from millstream.service.database import Database
from tests.crash.kafka_workload import Marking, connected, mark, options, say
from tests.spark.java import QUICK

SHORTEST, LONGEST = 0.2, 2.0
"""Seconds for which a table is there."""
AGAIN_SECONDS = 0.1


class CommandMarking(Marking):
    """Reports only the writer of the command topic."""

    @property
    def writers(self) -> tuple[str, ...]:
        """See `Marking`."""
        return ("commands",) if self.identity.endswith(".commands") else ()


def source(service: str) -> str:
    """The stream over the input."""
    return (
        "CREATE STREAM IF NOT EXISTS numbers (k STRING KEY, n BIGINT, g STRING, h STRING) "
        f"WITH (kafka_topic='{service}.numbers', value_format='JSON');"
    )


def filled(service: str, backend: str, *, replacing: bool) -> str:
    """A count behind a repartition; rows of one group come from one partition of the input."""
    begin = "CREATE OR REPLACE TABLE" if replacing else "CREATE TABLE IF NOT EXISTS"
    version = f", COUNT(*) * 0 + {time.time_ns() // 1_000_000} AS v" if replacing else ""
    return (
        f"{begin} counts WITH (kafka_topic='{service}.counts', "
        f"backfill='{backend}') AS SELECT CONCAT(k, h) AS kh, COUNT(*) AS c, SUM(n) AS s{version} "
        "FROM numbers GROUP BY CONCAT(k, h);"
    )


def execute(db: Database, sql: str) -> None:
    """Until it is carried out: others may be faster, and brokers away."""
    while True:
        try:
            db.execute(sql)
            return
        except (millstream.ConflictError, millstream.UnavailableError) as error:
            say(f"refused {error}")
            threading.Event().wait(AGAIN_SECONDS)


def make_and_drop(db: Database, service: str, backend: str, *, replacing: bool) -> NoReturn:
    """For ever."""
    while True:
        say("making maker")
        execute(db, filled(service, backend, replacing=replacing))
        say("made maker")
        threading.Event().wait(random.uniform(SHORTEST, LONGEST))
        if replacing:
            continue
        say("dropping maker")
        execute(db, "DROP TABLE IF EXISTS counts DELETE TOPIC;")


def finish(db: Database, service: str, backend: str, *, replacing: bool) -> None:
    """The table over all there is."""
    execute(db, filled(service, backend, replacing=replacing))
    db.wait()
    wrong = [status.error for status in db.engine.statuses() if status.error]
    db.close()
    if wrong:
        raise SystemExit(f"queries have failed: {wrong}")


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--make", action="store_true")
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--backend", default="duckdb", choices=("duckdb", "spark"))
    given = parser.parse_args()
    mark(CommandMarking)
    db = connected(given, EngineSettings(spark_master="local[2]", spark_options=QUICK))
    db.execute("SET 'cache.max.bytes.buffering' = '10000000';")
    if given.make:
        execute(db, source(given.service))
    say("ready")
    if given.finish:
        finish(db, given.service, given.backend, replacing=given.replace)
    elif given.make:
        make_and_drop(db, given.service, given.backend, replacing=given.replace)
    else:
        threading.Event().wait()


if __name__ == "__main__":
    main()
