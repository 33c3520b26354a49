"""The process that is killed, on Kafka: queries over another program's records.

    python -m tests.crash.kafka_workload SERVERS SERVICE STATE [--define] [--finish]
        [--instance NAME] [--protocol classic|consumer] [--standbys N] [--at-least-once] [--more N]

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
from collections.abc import Callable, Sequence
from typing import Any

import confluent_kafka

import millstream
from millstream import InstanceSettings
from millstream.log.kafka import batch_producer, compiled
from millstream.log.kafka.transactions import Entry, MemberCredential, Transactions
from millstream.log.log import Outcome
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
AT_LEAST_ONCE = "--at-least-once"
OPENING_SECONDS = 240.0
_LOOK_SECONDS = 0.5


def definitions(service: str, more: int = 0) -> tuple[str, ...]:
    """A stateless copy, a stream with another key, and a count by a third column that is behind two
    repartitions and a join that changes nothing. `more`: further queries, whose results nobody
    checks, which commit together with these."""

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
        *(
            f"CREATE TABLE {sink(f'more{number}')} AS SELECT k, COUNT(*) AS c FROM numbers "
            "GROUP BY k;"
            for number in range(more)
        ),
    )


def say(text: str) -> None:
    """One write, so that output before a kill has left the process."""
    os.write(1, f"{text}\n".encode())


class Marking(confluent_kafka.Producer):
    """The client's producer, saying what it does."""

    def __init__(self, config: dict[str, Any]) -> None:
        super().__init__(config)
        self.identity = str(config.get("transactional.id", ""))
        self.queries: tuple[str, ...] = ()
        """Those for which the transaction that is under way, or comes next, is carried out."""
        self._told = False

    @property
    def writers(self) -> tuple[str, ...]:
        """Their names in marks."""
        return self.queries

    def mark(self, mark: str) -> None:
        """Say what happens to the transaction."""
        for writer in self.writers:
            say(f"{mark} {writer}")

    def begin_transaction(self) -> None:
        self.mark("begin")
        self._told = False
        super().begin_transaction()

    def send_offsets_to_transaction(self, *given: Any) -> None:
        if not self._told:
            self.mark("positions")
            self._told = True
        super().send_offsets_to_transaction(*given)

    def commit_transaction(self, *given: Any) -> None:
        self.mark("commit")
        super().commit_transaction(*given)
        self.mark("done")

    def abort_transaction(self, *given: Any) -> None:
        try:
            super().abort_transaction(*given)
        finally:
            self.mark("aborted")


def telling_queries(attempt: Callable[..., Outcome]) -> Callable[..., Outcome]:
    """A producer carries out the transactions of many queries; tell it of which."""

    def told(
        transactions: Transactions,
        producer: confluent_kafka.Producer,
        entries: Sequence[Entry],
        credential: MemberCredential | None,
    ) -> Outcome:
        if not isinstance(producer, Marking):
            return attempt(transactions, producer, entries, credential)
        groups = (entry.group or "" for entry in entries)
        producer.queries = tuple(name for name in groups if name.startswith(("CSAS", "CTAS")))
        outcome = Outcome.UNKNOWN
        try:
            outcome = attempt(transactions, producer, entries, credential)
        finally:
            if outcome is Outcome.UNKNOWN:
                # A process that gets no tasks of the query any more begins no other one.
                producer.mark("unknown")
        return outcome

    return told


def define(db: Database, service: str, more: int) -> None:
    """Make what an earlier life, killed on the way, has not made."""
    for sql in definitions(service, more):
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
                properties=properties_of(given),
                sharing=sharing,
                settings=settings,
            )
        except millstream.UnavailableError:
            if time.monotonic() > deadline:
                raise


def properties_of(given: argparse.Namespace) -> dict[str, str]:
    """The properties of the statements of an instance."""
    return PROPERTIES | ({"processing.guarantee": "at_least_once"} if given.at_least_once else {})


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
    parser.add_argument(AT_LEAST_ONCE, action="store_true")
    parser.add_argument("--more", type=int, default=0)
    return parser


def mark(producer: type[Marking]) -> None:
    """Enable the debug output of this process's clients."""
    faulthandler.register(signal.SIGUSR1)
    vars(batch_producer)["Producer"] = vars(compiled)["Producer"] = producer
    Transactions._attempt = telling_queries(Transactions._attempt)  # type: ignore[method-assign]


def main() -> None:
    parser = options(__doc__)
    parser.add_argument("--define", action="store_true")
    given = parser.parse_args()
    mark(Marking)
    db = connected(given)
    if given.define:
        define(db, given.service, given.more)
    say("ready")
    if given.finish:
        db.wait()
        db.close()
    else:
        watch(db)


if __name__ == "__main__":
    main()
