"""The process that is killed, on Kafka: queries over another program's records.

    python -m tests.crash.kafka_workload SERVERS SERVICE STATE [--define] [--finish]
        [--instance NAME] [--protocol classic|consumer] [--standbys N]

It is one instance of the service; with --define it makes the queries. Standard output: `ready`
once; `state QUERY STATE TEXT` whenever a query is in another state; `holds QUERY PARTITIONS`
whenever other tasks of it are open here (their positions have been read); around each step of a
transaction a mark, written before and after the client is called: `begin ID`, `positions ID`,
`commit ID`, `done ID` or `aborted ID`. ID is the query. With --finish it waits until all there is
has been processed, and ends. SIGUSR1 makes it print its threads' stacks on standard error.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import signal
import threading
import time
from typing import Any

import confluent_kafka

import millstream
from millstream import InstanceSettings
from millstream.log.kafka import batch_producer, compiled
from millstream.model.settings import EngineSettings
from millstream.service.database import Database
from tests.crash.kafka_input import GROUPS

PARTITIONS = 4
PROPERTIES = {
    "auto.offset.reset": "earliest",
    "processing.guarantee": "exactly_once_v2",
    "commit.interval.ms": "100",
}
SESSION_MS = 3000
OPENING_SECONDS = 240.0
_LOOK_SECONDS = 0.5


def definitions(service: str) -> tuple[str, ...]:
    """A stateless copy, a stream with another key, and a count by a third column that is behind two
    repartitions and a join that changes nothing."""

    def sink(name: str) -> str:
        return f"{name} WITH (kafka_topic='{service}.{name}')"

    return (
        "CREATE STREAM numbers (k STRING KEY, n BIGINT, g STRING, h STRING) "
        f"WITH (kafka_topic='{service}.numbers', value_format='JSON');",
        f"CREATE STREAM {sink('copies')} AS SELECT k, n FROM numbers WHERE n % 3 <> 0;",
        f"CREATE STREAM {sink('moved')} AS SELECT g, k, n, h FROM numbers PARTITION BY g;",
        "CREATE TABLE names (g STRING PRIMARY KEY, name STRING) "
        f"WITH (kafka_topic='{service}.names', value_format='JSON', partitions={PARTITIONS});",
        f"CREATE TABLE {sink('counts')} AS SELECT h, COUNT(*) AS c, SUM(n) AS s "
        "FROM numbers LEFT JOIN names ON numbers.g = names.g GROUP BY h;",
    )


def say(text: str) -> None:
    """One write, so that output before a kill has left the process."""
    os.write(1, f"{text}\n".encode())


class Marking(confluent_kafka.Producer):
    """The client's producer, saying what it does."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self._identity = str(config.get("transactional.id", ""))

    @property
    def writer(self) -> str:
        """Its name in marks: the query; nothing if it is not reported."""
        query = self._identity.partition("_millstream.")[2].partition(".")[2].partition(".")[0]
        return query if query.startswith(("CSAS", "CTAS")) else ""

    def _say(self, mark: str) -> None:
        if self.writer:
            say(f"{mark} {self.writer}")

    def begin_transaction(self) -> None:
        self._say("begin")
        super().begin_transaction()

    def send_offsets_to_transaction(self, *given: Any) -> None:
        self._say("positions")
        super().send_offsets_to_transaction(*given)

    def commit_transaction(self, *given: Any) -> None:
        self._say("commit")
        super().commit_transaction(*given)
        self._say("done")

    def abort_transaction(self, *given: Any) -> None:
        try:
            super().abort_transaction(*given)
        finally:
            self._say("aborted")


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
    for number in range(GROUPS):
        db.execute(f"INSERT INTO names VALUES ('g{number}', 'group {number}');")


def watch(db: Database) -> None:
    """Print the states of the queries and their tasks, for ever."""
    told: dict[str, str] = {}
    held: dict[str, frozenset[int]] = {}
    while True:
        for status in db.engine.statuses():
            state = f"{status.state.value} {status.error}".strip()
            if told.get(status.query_id) != state:
                told[status.query_id] = state
                say(f"state {status.query_id} {' '.join(state.split())}")
            parts = frozenset(task.id.partition for task in status.tasks)
            if held.get(status.query_id) != parts:
                held[status.query_id] = parts
                say(f"holds {status.query_id} {' '.join(map(str, sorted(parts)))}")
        if db.engine.driver.failure is not None:
            raise SystemExit(f"the engine's thread died: {db.engine.driver.failure!r}")
        threading.Event().wait(_LOOK_SECONDS)


def connected(given: argparse.Namespace, settings: EngineSettings | None = None) -> Database:
    """As a supervisor does that restarts a process while brokers are down."""
    sharing = InstanceSettings(
        given.instance, given.protocol, SESSION_MS, standby_replicas=given.standbys
    )
    deadline = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            return millstream.connect(
                given.state,
                kafka=given.servers,
                service_id=given.service,
                properties=PROPERTIES,
                sharing=sharing,
                settings=settings,
            )
        except millstream.UnavailableError:
            if time.monotonic() > deadline:
                raise


def options(description: str | None) -> argparse.ArgumentParser:
    """The options of an instance."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("servers")
    parser.add_argument("service")
    parser.add_argument("state")
    parser.add_argument("--finish", action="store_true")
    parser.add_argument("--instance", default="")
    parser.add_argument("--protocol", default="classic")
    parser.add_argument("--standbys", type=int, default=0)
    return parser


def mark(producer: type[Marking]) -> None:
    """Enable the debug output of this process's clients."""
    faulthandler.register(signal.SIGUSR1)
    vars(batch_producer)["Producer"] = vars(compiled)["Producer"] = producer


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--define", action="store_true")
    given = parser.parse_args()
    mark(Marking)
    db = connected(given)
    if given.define:
        define(db, given.service)
    say("ready")
    if given.finish:
        db.wait()
        db.close()
    else:
        watch(db)


if __name__ == "__main__":
    main()
