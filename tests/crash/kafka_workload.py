"""The process that is killed, on Kafka: queries over what somebody else writes.

    python -m tests.crash.kafka_workload SERVERS SERVICE STATE [--finish]

Standard output: `ready` once; `state QUERY STATE TEXT` whenever a query is in another state; and
around each step of a transaction a mark, written before and after the client is called:
`begin ID`, `positions ID`, `commit ID`, `done ID` or `aborted ID`. ID is the identity of the
writer. With --finish it waits until all there is has been processed, and ends. SIGUSR1 has it tell
on standard error what its threads do.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import threading
from typing import Any

import confluent_kafka

import millstream
from millstream.log.kafka import writer
from millstream.service.database import Database

PROPERTIES = {
    "auto.offset.reset": "earliest",
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "100",
}
_LOOK_SECONDS = 0.5


def definitions(service: str) -> tuple[str, ...]:
    """A stateless copy, a stream with another key, and a count of that by a third column."""

    def sink(name: str) -> str:
        return f"{name} WITH (kafka_topic='{service}.{name}')"

    return (
        "CREATE STREAM numbers (k STRING KEY, n BIGINT, g STRING, h STRING) "
        f"WITH (kafka_topic='{service}.numbers', value_format='JSON');",
        f"CREATE STREAM {sink('copies')} AS SELECT k, n FROM numbers WHERE n % 3 <> 0;",
        f"CREATE STREAM {sink('moved')} AS SELECT g, k, n, h FROM numbers PARTITION BY g;",
        f"CREATE TABLE {sink('counts')} AS "
        "SELECT h, COUNT(*) AS c, SUM(n) AS s FROM moved GROUP BY h;",
    )


def say(text: str) -> None:
    """One write: what was said before a kill has left the process."""
    os.write(1, f"{text}\n".encode())


class Marking(confluent_kafka.Producer):
    """The client's producer, saying what it does."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._name = str(config["transactional.id"]).rpartition(".")[2]

    def begin_transaction(self) -> None:
        say(f"begin {self._name}")
        super().begin_transaction()

    def send_offsets_to_transaction(self, *given: Any) -> None:
        say(f"positions {self._name}")
        super().send_offsets_to_transaction(*given)

    def commit_transaction(self, *given: Any) -> None:
        say(f"commit {self._name}")
        super().commit_transaction(*given)
        say(f"done {self._name}")

    def abort_transaction(self, *given: Any) -> None:
        super().abort_transaction(*given)
        say(f"aborted {self._name}")


def define(db: Database, service: str) -> None:
    """Make what an earlier life, killed on the way, has not made."""
    for sql in definitions(service):
        try:
            db.execute(sql)
        except millstream.ConflictError:
            continue
        except millstream.StatementError as error:
            if "exists" not in str(error):
                raise


def watch(db: Database) -> None:
    """Say in what state the queries are, for ever."""
    told: dict[str, str] = {}
    while True:
        for status in db.engine.statuses():
            state = f"{status.state.value} {status.error}".strip()
            if told.get(status.query_id) != state:
                told[status.query_id] = state
                say(f"state {status.query_id} {' '.join(state.split())}")
        if db.engine.driver.failure is not None:
            raise SystemExit(f"the engine's thread died: {db.engine.driver.failure!r}")
        threading.Event().wait(_LOOK_SECONDS)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("servers")
    parser.add_argument("service")
    parser.add_argument("state")
    parser.add_argument("--finish", action="store_true")
    given = parser.parse_args()
    faulthandler.register(signal.SIGUSR1)
    vars(writer)["Producer"] = Marking
    db = millstream.connect(
        given.state, kafka=given.servers, service_id=given.service, properties=PROPERTIES
    )
    define(db, given.service)
    say("ready")
    if given.finish:
        db.wait()
        db.close()
    else:
        watch(db)


if __name__ == "__main__":
    main()
