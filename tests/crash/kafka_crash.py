"""Kill instances on Kafka at random instants, bounce brokers in between, and check what they left.

    python -m tests.crash.kafka_crash --kills 50 [--seed S] [--servers HOST:PORT]
        [--instances 3] [--protocol classic|consumer] [--standbys N] [--minutes M] [--pause S]

Without --servers it starts a cluster of three brokers of its own and bounces them. Exit status 1 on
a violation; 2 when the run proves nothing: too little was acknowledged, or no kill fell inside of a
commit. The marks of the workload show it: the last one before the kill was `commit`, which it
prints before it requests a commit, and no `done` followed.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.engine_process import CampaignError, EngineProcess
from tests.crash.kafka_input import PAUSE_SECONDS
from tests.crash.kafka_workload import AT_LEAST_ONCE, PARTITIONS, SESSION_MS
from tests.kafka.run import cluster, tool

ROOT = Path(__file__).resolve().parent.parent.parent
BROKERS = 3
MARKS = 12
"""The most marks to wait for before a kill."""
DELAYS = {"begin": 0.01, "commit": 0.005, "done": 0.25}
"""The most seconds between a mark and a kill; half of the kills follow at once."""
ZOMBIE_EVERY = 8
"""The interval, in kills, at which an instance is suspended and resumed after others have its
tasks."""
ALL_ODDS = 0.1
AWAY_SECONDS = 1.5 * SESSION_MS / 1000
"""How long a killed instance stays away at most: some are replaced by others, some are not."""
BOUNCE_ODDS = 0.25
BROKER_UP_SECONDS = "240"
TAKEN_OVER_SECONDS = 120.0
WIPE_ODDS = 0.1


@dataclass
class Slot:
    """A machine for an instance: a state file, and a name that is kept over restarts or none."""

    number: int
    state: Path
    name: str
    engine: EngineProcess | None = None


@dataclass
class Run:
    """One campaign and what happened so far."""

    servers: str
    service: str
    folder: Path
    seed: int
    slots: list[Slot]
    options: tuple[str, ...]
    brokers: dict[str, str] | None = None
    """The environment of kafka-local, when the brokers are ours to kill."""
    bounce: threading.Thread | None = None
    started: list[EngineProcess] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    began: float = field(default_factory=time.monotonic)
    minutes: float = math.inf
    """When to end, even with fewer kills."""
    rng: random.Random = field(init=False)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)

    @property
    def up(self) -> list[Slot]:
        """The slots with an instance."""
        return [slot for slot in self.slots if slot.engine is not None]

    @property
    def over(self) -> bool:
        """Whether its time is over."""
        return time.monotonic() - self.began >= 60 * self.minutes

    def told(self) -> str:
        """The observations, and the time so far."""
        seen = ", ".join(f"{count} {what}" for what, count in sorted(self.seen.items()))
        minutes, seconds = divmod(int(time.monotonic() - self.began), 60)
        return f"seed {self.seed}, {seen}, {minutes}:{seconds:02}"


def start(run: Run, slot: Slot, *more: str) -> EngineProcess:
    """An instance; now and then one whose state was lost."""
    if run.rng.random() < WIPE_ODDS:
        for file in run.folder.glob(f"{slot.state.name}*"):
            file.unlink()
        run.seen["states wiped"] += 1
    named = ("--instance", slot.name) if slot.name else ()
    arguments = (run.servers, run.service, str(slot.state), *run.options, *named, *more)
    slot.engine = EngineProcess(arguments, run.folder / f"engine{len(run.started)}.err")
    run.started.append(slot.engine)
    return slot.engine


def start_all(run: Run) -> None:
    """Start all missing instances."""
    for slot in run.slots:
        if slot.engine is None:
            start(run, slot)


def kill_some(run: Run) -> None:
    """Kill an instance, or all: while it opens, around the steps of a commit, or at any time."""
    kind = run.rng.choices(("opening", "begin", "commit", "any"), (2, 2, 4, 2))[0]
    victim = run.rng.choice(run.slots)
    engine = victim.engine or start(run, victim)
    if kind == "opening":
        time.sleep(run.rng.uniform(0.2, 3.0))
    else:
        engine.await_ready()
        mark = kind if kind in ("begin", "commit") else "done"
        engine.await_marks(mark, run.rng.randint(1, MARKS))
        time.sleep(run.rng.choice((0.0, run.rng.uniform(0.0, DELAYS[mark]))))
    victims = run.up if run.rng.random() < ALL_ODDS else [victim]
    for slot in victims:
        kill(run, slot)
    run.seen["all killed at once"] += len(victims) == len(run.slots)
    time.sleep(run.rng.choice((0.0, 0.0, run.rng.uniform(0.0, AWAY_SECONDS))))
    start_all(run)


def kill(run: Run, slot: Slot) -> None:
    """Kill the instance of a slot."""
    assert slot.engine is not None
    where = slot.engine.kill()
    slot.engine = None
    run.seen["kills"] += 1
    run.seen[f"kills {where}"] += 1


def stop_as_zombie(run: Run) -> None:
    """Suspend an instance at a step of a commit until the others hold all tasks of the queries that
    it was committing, then resume it: its pending writes must not be accepted (before that they may
    be: a task's new owner waits for the open transaction of the last one). It continues as a normal
    member."""
    for slot in run.up:
        assert slot.engine is not None
        slot.engine.await_ready()
    victim = run.rng.choice(run.up)
    zombie = victim.engine
    assert zombie is not None
    zombie.await_marks(run.rng.choice(("begin", "positions")), run.rng.randint(1, MARKS))
    halted = zombie.halt()
    others = [slot.engine for slot in run.up if slot.engine and slot.engine is not zombie]
    for query in halted:
        await_taken_over(query, others)
    for engine in others:
        engine.await_marks("done", run.rng.randint(1, MARKS))
    accepted = zombie.continue_as_zombie()
    run.seen["zombies"] += 1
    run.seen["transactions of zombies"] += len(halted)
    if accepted:
        raise CampaignError(f"a zombie's transaction was accepted: {accepted}")
    run.seen["kills"] += 1


def await_taken_over(query: str, others: Sequence[EngineProcess]) -> None:
    """Return when these instances have all tasks of a query open."""
    deadline = time.monotonic() + TAKEN_OVER_SECONDS
    while frozenset().union(*(engine.holds(query) for engine in others)) != set(range(PARTITIONS)):
        if time.monotonic() > deadline:
            held = [sorted(engine.holds(query)) for engine in others]
            raise CampaignError(f"the tasks of {query} are not taken over: {held}")
        time.sleep(0.2)


def bounce_broker(run: Run) -> None:
    """Kill a broker now and start it again in a while, unless one is away already."""
    if run.brokers is None or (run.bounce is not None and run.bounce.is_alive()):
        return
    environment, number = run.brokers, str(run.rng.randint(1, BROKERS))
    away = run.rng.uniform(0.5, 6.0)

    def bounce() -> None:
        tool(environment, "kill", number)
        time.sleep(away)
        tool(environment, "start-one", number, "--timeout", BROKER_UP_SECONDS)

    run.bounce = threading.Thread(target=bounce)
    run.bounce.start()
    run.seen["brokers bounced"] += 1


def settle_brokers(run: Run) -> None:
    if run.bounce is not None:
        run.bounce.join()


def work(run: Run, kills: int, *feeding_options: str) -> None:
    """Kill `kills` times, or until the time is over; then let one instance finish."""
    make_input_topic(run)
    start(run, run.slots[0], "--define").await_ready()
    start_all(run)
    with feeding(run, *feeding_options):
        while run.seen["kills"] < kills and not run.over:
            if run.seen["kills"] % ZOMBIE_EVERY == ZOMBIE_EVERY - 1:
                settle_brokers(run)
                stop_as_zombie(run)
                continue
            if run.rng.random() < BOUNCE_ODDS:
                bounce_broker(run)
            kill_some(run)
        settle_brokers(run)
    finish(run, start)


@contextmanager
def feeding(run: Run, *more: str) -> Iterator[None]:
    """A process writes the input meanwhile; in the end all of it is acknowledged. It does not
    outlive a campaign that fails."""
    command = [sys.executable, "-m", "tests.crash.kafka_input", run.servers]
    command += [f"{run.service}.numbers", str(run.folder / "acks"), *more]
    feeder = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    try:
        yield
        assert feeder.stdin is not None
        feeder.stdin.close()
        if feeder.wait():
            raise CampaignError(f"the producer of the input ended with {feeder.returncode}")
    except CampaignError as failure:
        raise CampaignError(f"{failure}\n{around(run, feeder)}") from failure
    finally:
        feeder.kill()
        feeder.wait()


def around(run: Run, feeder: subprocess.Popen[bytes]) -> str:
    """How everything else fared when one process failed."""
    ended = feeder.poll()
    acks = run.folder / "acks"
    silent = time.time() - acks.stat().st_mtime if acks.exists() else 0.0
    found = [
        run.told(),
        f"the producer of the input {'runs' if ended is None else f'ended with {ended}'},"
        f" its last record was acknowledged {silent:.0f} s ago",
    ]
    engines = ((slot.number, slot.engine) for slot in run.up)
    found += [f"-- instance {number}:\n{engine.report()}" for number, engine in engines if engine]
    return "\n".join(found)


def finish(run: Run, starting: Callable[[Run, Slot, str], EngineProcess]) -> None:
    """Kill all instances; after their sessions have ended, let one process the rest."""
    for slot in run.up:
        assert slot.engine is not None
        slot.engine.end()
    time.sleep(2 * SESSION_MS / 1000)
    starting(run, run.slots[0], "--finish").await_end()


def make_input_topic(run: Run) -> None:
    name = f"{run.service}.numbers"
    admin = AdminClient({"bootstrap.servers": run.servers, "log_level": 2})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result()


def check(run: Run) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.crash.kafka_checker", run.servers, run.service]
    command.append(str(run.folder / "acks"))
    if AT_LEAST_ONCE in run.options:
        command.append(AT_LEAST_ONCE)
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, f"{done.stdout}{done.stderr}".strip()


def campaign(
    servers: str,
    kills: int,
    seed: int,
    folder: Path,
    brokers: dict[str, str] | None = None,
    *,
    instances: int = 3,
    options: tuple[str, ...] = (),
    minutes: float = math.inf,
    pause: float = PAUSE_SECONDS,
) -> tuple[int, str]:
    """Kill `kills` times and check; returns the exit status and a report. Every other instance has
    a name."""
    service = f"crash-{seed}-{os.getpid()}"
    slots = [
        Slot(number, folder / f"state{number}.db", "" if number % 2 else f"instance{number}")
        for number in range(instances)
    ]
    run = Run(servers, service, folder, seed, slots, options, brokers, minutes=minutes)

    def steps() -> tuple[int, str]:
        try:
            work(run, kills, "--pause", str(pause))
            return check(run)
        finally:
            settle_brokers(run)

    status, found = ended(run, steps)
    report = f"kafka: {instances} instances, {run.told()}\n{found}"
    if status:
        return 1, report
    if not run.seen["kills in a commit"]:
        return 2, f"{report}\nINVALID: no kill fell inside of a commit"
    if AT_LEAST_ONCE in options:
        return 0, f"{report}\nnothing lost, and the newest rows are the last"
    return 0, f"{report}\nnothing lost, nothing twice, all in order"


def ended(run: Run, steps: Callable[[], tuple[int, str]]) -> tuple[int, str]:
    """Exit status and findings of a campaign, whose processes are gone then."""
    try:
        return steps()
    except CampaignError as failure:
        return 1, str(failure)
    finally:
        for engine in run.started:
            engine.end()


def reported(
    given: argparse.Namespace,
    campaign: Callable[[str, Path, dict[str, str] | None], tuple[int, str]],
    brokers: int = 1,
) -> int:
    """Run a campaign with servers, a folder and, for its own cluster, kafka-local's environment.
    Prints its report; returns the exit status. After a failure the brokers' data is kept in a named
    folder."""
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        servers, environment = given.servers, None
        if servers is None:
            servers, environment = stack.enter_context(cluster(brokers))
        status, report = campaign(servers, folder, environment)
        if status and environment is not None and given.folder is not None:
            # Some files go away meanwhile.
            with suppress(shutil.Error):
                shutil.copytree(environment["KAFKA_LOCAL_DATA"], folder / "brokers")
    sys.stdout.write(report + "\n")
    return status


def options_of(given: argparse.Namespace) -> tuple[str, ...]:
    """The arguments of a campaign's engines."""
    return "--protocol", given.protocol, "--standbys", str(given.standbys)


def campaign_arguments(description: str | None, *, standbys: int) -> argparse.ArgumentParser:
    """The options of every campaign on Kafka. `standbys`: the default number."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--servers", help="a cluster that is there; its brokers are left alone")
    parser.add_argument("--folder", type=Path, help="where states, logs and output are kept")
    parser.add_argument("--protocol", default="classic")
    parser.add_argument("--standbys", type=int, default=standbys)
    return parser


def main() -> int:
    parser = campaign_arguments(__doc__, standbys=1)
    parser.add_argument("--instances", type=int, default=3)
    parser.add_argument(AT_LEAST_ONCE, action="store_true", help="instead of exactly once")
    parser.add_argument("--more", type=int, default=0, help="further queries over the same input")
    parser.add_argument("--minutes", type=float, default=math.inf, help="at most so many")
    parser.add_argument(
        "--pause", type=float, default=PAUSE_SECONDS, help="seconds between 25 records of input"
    )
    given = parser.parse_args()
    return reported(
        given,
        lambda servers, folder, brokers: campaign(
            servers,
            given.kills,
            given.seed,
            folder,
            brokers,
            instances=given.instances,
            options=(
                *options_of(given),
                *(("--more", str(given.more)) if given.more else ()),
                *((AT_LEAST_ONCE,) if given.at_least_once else ()),
            ),
            minutes=given.minutes,
            pause=given.pause,
        ),
        BROKERS,
    )


if __name__ == "__main__":
    sys.exit(main())
