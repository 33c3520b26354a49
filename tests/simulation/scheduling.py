"""One seed: the queries of one instance, several threads that take them from the ready queue, and
news that come at any point of a step.

Queries read the topics of others, so a commit of one makes others ready. A thread that runs while
another one is in the middle of a call is simulated by a turn inside that call. Nothing polls here:
a query that was not told of a record would never read it. Commits that are due are made in rounds,
in which single queries fail. The seed ends when the queue has nothing more to do: everything must
be processed and committed then, and each output must be that of its input.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from millstream.log.log import Appended, Fetched, Topic
from millstream.log.simulated import Fault, SimulatedLog
from millstream.log.watchers import News
from millstream.model.errors import UnavailableError
from millstream.runtime.query_runner import QueryRunner
from millstream.runtime.ready_queue import ReadyQueue
from millstream.runtime.runtime import Runtime
from millstream.runtime.scheduling import Candidate, choose
from millstream.runtime.spec import (
    ExecutorSpec,
    Guarantee,
    QuerySpec,
    QueryState,
    RuntimeSettings,
    Step,
)
from tests.simulation.pure import Disk, Job, PureExecutor
from tests.simulation.world import ROWS

PARTITIONS = 2
TURNS_MAX = 20_000
SLICE_STEPS = 3


class InterruptedLog(SimulatedLog[Any]):
    """Others may run between a read and what its caller does with it."""

    def read(self, topic: str, partition: int, offset: int, max_records: int) -> Fetched[Any]:
        fetched = super().read(topic, partition, offset, max_records)
        self._effect("read")
        return fetched


class SchedulingMutant:
    """A planted bug: the parts that are different. The plain one has none."""

    begins_late = False
    """Whether a step is noted to begin only when it has ended."""

    def queue(self) -> ReadyQueue:
        return ReadyQueue()

    def log(self, world: SchedulingWorld) -> SimulatedLog[Any]:
        return InterruptedLog(ROWS, effect=world.effect, fault=world.fault)

    def query(self) -> type[QueryRunner[Any]]:
        return QueryRunner


class FailingFlush(PureExecutor):
    """Cannot flush now and then, as where no memory is left."""

    world: SchedulingWorld

    def flush(self) -> tuple[Appended[Any], ...]:
        if self.world.depth and not self.world.calm and self.rnd.random() < self.world.failing:
            raise UnavailableError("Simulated: nothing was flushed.")
        return super().flush()


class SchedulingWorld:
    """The state of one seed."""

    def __init__(self, seed: int, mutant: SchedulingMutant | None = None) -> None:
        self.rnd = rnd = Random(seed)
        self.mutant = mutant or SchedulingMutant()
        self.now = 0
        self.calm = False
        self.depth = 0
        """How many threads are in the middle of a call."""
        self.turns = 0
        self.found: list[str] = []
        self.working: set[str] = set()
        self.draining = rnd.random() < 0.3
        self.lost = rnd.choice((0.0, 0.0, 0.05))
        self.failing = rnd.choice((0.0, 0.0, 0.1))
        """How often a query cannot flush what it has to commit."""
        self.busy = rnd.choice((0.02, 0.2))
        self.linger_ms = rnd.choice((0, 30, 200))
        self.left = rnd.randint(5, 40)
        """Records to send."""
        self.log = self.mutant.log(self)
        self.log.create_topic(Topic("in", PARTITIONS))
        self.producer = self.log.writer("producer")
        settings = RuntimeSettings(
            commit_interval_ms=rnd.choice((1, 50)), backoff_ms=5, max_backoff_ms=40
        )
        self.runtime: Runtime[Any] = Runtime(self.log, settings)
        self.queue = self.mutant.queue()
        self.topics = ["in"]
        self.jobs: dict[str, Job] = {}
        self.rounds: list[int] = []
        """The number of queries of each commit round."""
        self.queries = 0
        self.log.on_news(self.tell)
        for _ in range(rnd.randint(2, 5)):
            self.add()

    # ---- what the log asks and tells -----------------------------------------------------------

    def tell(self, news: News) -> None:
        """The appending thread notes news."""
        self.queue.tell(news)

    def effect(self, _name: str) -> None:
        """Another thread runs here, or a client appends."""
        if self.depth and self.depth < 3 and not self.calm and self.rnd.random() < self.busy:
            self.disturb()

    def fault(self, _name: str) -> Fault:
        """Requests of queries may be lost."""
        if self.calm or not self.depth or self.rnd.random() >= self.lost:
            return Fault.NONE
        return self.rnd.choice((Fault.REQUEST_LOST, Fault.RESPONSE_LOST))

    # ---- clients -------------------------------------------------------------------------------

    def add(self) -> None:
        """A query that reads what exists and writes a topic of its own."""
        self.queries += 1
        name, source = f"out{self.queries}", self.rnd.choice(self.topics)
        self.log.create_topic(Topic(name, PARTITIONS))
        self.topics.append(name)
        counting = self.rnd.random() < 0.5
        changelog = f"changes{self.queries}" if counting else None
        if changelog:
            self.log.create_topic(Topic(changelog, PARTITIONS))
        job = Job((source,), name, count=counting, changelog=changelog)
        executor = FailingFlush(job, PARTITIONS, Disk(), self.rnd, 0.0)
        executor.world = self
        sub_topology = ExecutorSpec(executor, (source,), PARTITIONS, changelog, (name,))
        query_id = f"Q{self.queries}"
        self.jobs[query_id] = job
        spec = QuerySpec(
            query_id,
            query_id,
            (sub_topology,),
            guarantee=self.rnd.choice((Guarantee.EXACTLY_ONCE, Guarantee.AT_LEAST_ONCE)),
            priority=self.rnd.choice((0, 0, 5)),
            users_functions=self.rnd.random() < 0.3,
        )
        self.runtime.add_query(spec)
        self.runtime._queries[query_id].__class__ = self.mutant.query()

    def disturb(self) -> None:
        """One thing happens in another thread."""
        if self.left and self.rnd.random() < 0.5:
            self.send()
        else:
            self.turn()

    def send(self) -> None:
        """A client appends a record."""
        depth, self.depth = self.depth, 0
        self.left -= 1
        row = ((self.rnd.randrange(9), self.left),)
        self.producer.append([Appended("in", self.rnd.randrange(PARTITIONS), row, 1)])
        self.depth = depth

    def statement(self) -> None:
        """A client creates, pauses or drops a query."""
        kind, ids = self.rnd.random(), [*self.runtime.query_ids()]
        query_id = self.rnd.choice(ids)
        if kind < 0.4:
            self.add()
        elif query_id in self.working:
            return
        elif kind < 0.6 and len(ids) > 2:
            self.runtime.remove_query(query_id, self.now)
        elif self.runtime.states()[query_id] is QueryState.PAUSED:
            self.resume(query_id)
        else:
            self.runtime.pause(query_id)
            self.queue.wake(query_id)

    def resume(self, query_id: str) -> None:
        """A client resumes a query."""
        self.runtime.resume(query_id)
        self.queue.wake(query_id)

    # ---- threads -------------------------------------------------------------------------------

    def synchronise(self) -> None:
        """Bring the queue up to date with the queries."""
        self.queue.synchronise(self.runtime.subscriptions(), self.now)

    def turn(self) -> bool:
        """A thread of one of the two kinds has a turn, or one of the other kind if there is nothing
        to do for it."""
        functions = self.rnd.random() < 0.5
        return self.turn_of(functions=functions) or self.turn_of(functions=not functions)

    def turn_of(self, *, functions: bool) -> bool:
        """A thread takes a query, if one is ready, and works on it for a while; or it commits those
        that are due, if it is not one for `functions`."""
        self.synchronise()
        self.queue.fire(self.now)
        waited = {
            query_id: self.now - self.queue.entries[query_id].free_since
            for query_id in self.queue.candidates(functions=functions)
        }
        candidates = self.runtime.candidates(waited, self.now)
        best = choose([one for one in candidates if not self.lingers(one)], 100)
        chosen = None if best is None else best.query_id
        together = [] if functions else self.queue.round(self.now, others=chosen is not None)
        if together:
            self.commit(together)
            return True
        if chosen is None:
            return False
        if self.runtime._queries[chosen].spec.users_functions is not functions:
            self.found.append(f"query {chosen} was taken by a thread of the other kind")
        if chosen in self.working:
            self.found.append(f"query {chosen} was taken twice")
            return False
        self.queue.take(chosen)
        self.working.add(chosen)
        step = self.work(chosen)
        self.working.discard(chosen)
        rest_ms = self.rnd.choice((0, 0, 0, 20))
        committed = self.draining and not step.due
        self.queue.release(chosen, self.now, step, committed=committed, rest_ms=rest_ms)
        self.turns += 1
        return True

    def lingers(self, one: Candidate) -> bool:
        """Whether a query lets more records come."""
        patient = self.linger_ms and one.may_linger and not self.draining
        if not patient or not self.queue.linger(one.query_id, self.now, self.linger_ms):
            return False
        query = self.runtime._queries[one.query_id]
        commits = query.dirty and self.now >= query.retry_state.retry_at
        times = [query.last_commit + query.settings.commit_interval_ms] if commits else []
        latest = min([self.queue.entries[one.query_id].free_since + self.linger_ms, *times])
        at = self.queue.next_at()
        if query.pause_wanted:
            self.found.append(f"{one.query_id} lingers although it was woken")
        if at is None or at > max(latest, self.now):
            self.found.append(f"{one.query_id} lingers until {at}, not {latest}")
        return True

    def commit(self, query_ids: list[str]) -> None:
        """A commit round."""
        if not self.working.isdisjoint(query_ids):
            self.found.append(f"one of {query_ids} is committed while a thread works on it")
        self.rounds.append(len(query_ids))
        self.queue.take_round(query_ids)
        self.working.update(query_ids)
        self.depth += 1
        self.runtime.commit_round(query_ids, self.now)
        self.depth -= 1
        self.working.difference_update(query_ids)
        self.queue.end_round()
        for query_id in query_ids:
            self.queue.release(query_id, self.now, Step(True, self.now), committed=False)
        self.turns += 1

    def work(self, query_id: str) -> Step:
        """Steps of one query until it has nothing to do, or its time is over."""
        step = Step(False, None)
        self.depth += 1
        for _ in range(SLICE_STEPS):
            if not self.mutant.begins_late:
                self.queue.begin(query_id)
            step = self.runtime.advance(query_id, self.now, commits=False)
            if self.draining and not step.progress and not step.due:
                step = self.runtime.commit_query(query_id, self.now, commits=False)
            if self.mutant.begins_late:
                self.queue.begin(query_id)
            if not step.progress:
                break
        self.depth -= 1
        return step

    # ---- the seed ------------------------------------------------------------------------------

    def run(self) -> Sequence[str]:
        """Play the seed; returns what was wrong."""
        while self.left and not self.found:
            self.now += self.rnd.randint(0, 5)
            if self.rnd.random() < 0.1:
                self.statement()
            self.disturb()
            self.check_settled()
        self.calm = True
        self.draining = False
        for query_id, state in self.runtime.states().items():
            if state is QueryState.PAUSED or self.runtime._queries[query_id].pause_wanted:
                self.resume(query_id)
        while not self.found and self.turns < TURNS_MAX:
            if self.turn():
                continue
            at = self.queue.next_at()
            if at is None:
                break
            self.now = max(self.now, at)
        self.found += [f"{query_id} is not done" for query_id in self.unfinished()]
        if not self.queue.settled:
            self.found.append("the queue is empty and not settled")
        for query_id in self.runtime.query_ids():
            self.check_output(query_id)
        return self.found

    def check_output(self, query_id: str) -> None:
        """Each record of the input is in the output; exactly once, in order, and counted from 1 on
        without a gap, unless the query repeats some."""
        job = self.jobs[query_id]
        spec = self.runtime._queries[query_id].spec
        for partition in range(PARTITIONS):
            read = self.rows(job.inputs[0], partition)
            written = self.rows(job.target, partition)
            if spec.guarantee is Guarantee.AT_LEAST_ONCE:
                plain = [(key, row[1]) for key, row in written] if job.count else written
                if set(read) - set(plain):
                    self.found.append(f"{query_id} has lost records")
            elif written != (counted(read) if job.count else read):
                self.found.append(f"{query_id} has written {written} for {read}")

    def rows(self, topic: str, partition: int) -> list[Any]:
        """All records of a partition."""
        start = self.log.start_offset(topic, partition)
        return [(key, row) for _, key, row in self.log.read(topic, partition, start, 10_000).batch]

    def check_settled(self) -> None:
        """Who waits for all queries relies on `settled`. Nobody waits for those that will retry."""
        self.synchronise()
        retrying = self.runtime.retrying()
        unfinished = [query_id for query_id in self.unfinished() if query_id not in retrying]
        if self.queue.settled and unfinished:
            self.found.append(f"settled, but {unfinished} are not done")

    def unfinished(self) -> list[str]:
        """The queries with records to read or a commit to make."""
        return [
            query_id
            for query_id, query in self.runtime._queries.items()
            if query.state is not QueryState.PAUSED
            and (query.dirty or any(self.runtime.query_status(query_id).lag.values()))
        ]


def counted(rows: Sequence[Any]) -> list[Any]:
    """The output of a counting query."""
    counts: Counter[int] = Counter()
    written = []
    for key, row in rows:
        counts[key] += 1
        written.append((key, (counts[key], row)))
    return written


def play_scheduling(seed: int, mutant: SchedulingMutant | None = None) -> Sequence[str]:
    """One seed, from nothing to what was wrong."""
    return SchedulingWorld(seed, mutant).run()
