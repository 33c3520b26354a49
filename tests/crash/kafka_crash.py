"""Kill an engine on Kafka at random instants, bounce brokers in between, and check what it left.

    python -m tests.crash.kafka_crash --kills 50 [--seed S] [--servers HOST:PORT]

Without --servers it starts a cluster of three brokers of its own and bounces them. Exit status 1
on a violation; 2 when the run proves nothing: too little was acknowledged, or no kill fell inside
of a commit. That is told by the marks that the workload prints: the last one before the kill was
`commit`, which it prints before it asks for a commit, and no `done` followed.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka.admin import AdminClient, NewTopic

from tests.crash.engine_process import CampaignError, EngineProcess
from tests.kafka.run import cluster, tool

ROOT = Path(__file__).resolve().parent.parent.parent
PARTITIONS = 4
BROKERS = 3
MARKS = 12
"""At most so many marks are waited for before a kill."""
DELAYS = {"begin": 0.01, "commit": 0.005, "done": 0.25}
"""Seconds that a kill comes after a mark at most; half of the kills come at once."""
QUERIES = 3
ZOMBIE_EVERY = 8
"""Every so many kills one is of a zombie."""
BOUNCE_ODDS = 0.25
WIPE_ODDS = 0.1


@dataclass
class Run:
    """One campaign and what happened so far."""

    servers: str
    service: str
    folder: Path
    rng: random.Random
    brokers: dict[str, str] | None = None
    """The environment of kafka-local, when the brokers are ours to kill."""
    engine: EngineProcess | None = None
    bounce: threading.Thread | None = None
    started: list[EngineProcess] = field(default_factory=list)
    state: int = 0
    seen: Counter[str] = field(default_factory=Counter)


def start(run: Run, *more: str) -> EngineProcess:
    """An engine; now and then one whose state was lost."""
    state = run.folder / f"state{run.state}.db"
    if run.rng.random() < WIPE_ODDS:
        for file in run.folder.glob(f"{state.name}*"):
            file.unlink()
        run.seen["states wiped"] += 1
    arguments = (run.servers, run.service, str(state), *more)
    started = EngineProcess(arguments, run.folder / f"engine{len(run.started)}.err")
    run.started.append(started)
    return started


def kill_once(run: Run) -> None:
    """Kill the engine: while it opens, around the steps of a commit, or at any time."""
    kind = run.rng.choices(("opening", "begin", "commit", "any"), (2, 2, 4, 2))[0]
    if kind == "opening" and len(run.started) > 1:
        run.engine = run.engine or start(run)
        time.sleep(run.rng.uniform(0.2, 3.0))
    else:
        engine = run.engine = run.engine or start(run)
        engine.await_ready()
        mark = kind if kind in ("begin", "commit") else "done"
        engine.await_marks(mark, run.rng.randint(1, MARKS))
        time.sleep(run.rng.choice((0.0, run.rng.uniform(0.0, DELAYS[mark]))))
    where = run.engine.kill()
    run.engine = None
    run.seen["kills"] += 1
    run.seen[f"kills {where}"] += 1


def kill_zombie(run: Run) -> None:
    """Stop the engine at a step of a commit, let another one take over, let the first go on:
    it must stop and commit nothing."""
    zombie = run.engine or start(run)
    zombie.await_ready()
    zombie.await_marks(run.rng.choice(("begin", "positions", "commit")), run.rng.randint(1, MARKS))
    zombie.signal(signal.SIGSTOP)
    run.state = 1 - run.state
    run.engine = heir = start(run)
    heir.await_ready()
    heir.await_marks("done", QUERIES + run.rng.randint(0, MARKS))
    done = zombie.continue_as_zombie()
    stopped = zombie.await_stopped(QUERIES)
    late = zombie.late_commits(done)
    zombie.kill()
    if late:
        raise CampaignError(f"a zombie committed: {late}")
    run.seen["zombies"] += 1
    # One that finds its repartition topic consumed by the heir stops for that.
    run.seen.update({f"queries of zombies {state}": n for state, n in stopped.items()})
    run.seen["kills"] += 1


def bounce_broker(run: Run) -> None:
    """Kill a broker now and start it again in a while, unless one is away already."""
    if run.brokers is None or (run.bounce is not None and run.bounce.is_alive()):
        return
    environment, number = run.brokers, str(run.rng.randint(1, BROKERS))
    away = run.rng.uniform(0.5, 6.0)

    def bounce() -> None:
        tool(environment, "kill", number)
        time.sleep(away)
        tool(environment, "start-one", number)

    run.bounce = threading.Thread(target=bounce)
    run.bounce.start()
    run.seen["brokers bounced"] += 1


def settle_brokers(run: Run) -> None:
    if run.bounce is not None:
        run.bounce.join()


def work(run: Run, kills: int) -> None:
    """Kill `kills` times, then let one engine finish."""
    make_input_topic(run)
    with feeding(run) as feeder:
        while run.seen["kills"] < kills:
            if run.seen["kills"] % ZOMBIE_EVERY == ZOMBIE_EVERY - 1:
                settle_brokers(run)
                kill_zombie(run)
                continue
            if run.rng.random() < BOUNCE_ODDS:
                bounce_broker(run)
            kill_once(run)
        settle_brokers(run)
        assert feeder.stdin is not None
        feeder.stdin.close()
        if feeder.wait():
            raise CampaignError(f"the producer of the input ended with {feeder.returncode}")
    if run.engine is not None:
        run.engine.end()
        run.engine = None
    start(run, "--finish").await_end()


def feeding(run: Run) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.crash.kafka_input", run.servers]
    command += [f"{run.service}.numbers", str(run.folder / "acks")]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)


def make_input_topic(run: Run) -> None:
    name = f"{run.service}.numbers"
    admin = AdminClient({"bootstrap.servers": run.servers, "log_level": 2})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result()


def check(run: Run) -> tuple[int, str]:
    command = [sys.executable, "-m", "tests.crash.kafka_checker", run.servers, run.service]
    command.append(str(run.folder / "acks"))
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.returncode, f"{done.stdout}{done.stderr}".strip()


def campaign(
    servers: str, kills: int, seed: int, folder: Path, brokers: dict[str, str] | None = None
) -> tuple[int, str]:
    """Kill `kills` times and check; returns the exit status and a report."""
    service = f"crash-{seed}-{os.getpid()}"
    run = Run(servers, service, folder, random.Random(seed), brokers)
    began = time.monotonic()
    try:
        work(run, kills)
        status, found = check(run)
    except CampaignError as failure:
        status, found = 1, str(failure)
    finally:
        settle_brokers(run)
        for engine in run.started:
            engine.end()
    seen = ", ".join(f"{count} {what}" for what, count in sorted(run.seen.items()))
    minutes, seconds = divmod(int(time.monotonic() - began), 60)
    report = f"kafka: seed {seed}, {seen}, {minutes}:{seconds:02}\n{found}"
    if status:
        return 1, report
    if not run.seen["kills in a commit"]:
        return 2, f"{report}\nINVALID: no kill fell inside of a commit"
    return 0, f"{report}\nnothing lost, nothing twice, all in order"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--servers", help="a cluster that is there; its brokers are left alone")
    parser.add_argument("--folder", type=Path, help="where states and logs are kept")
    given = parser.parse_args()
    with ExitStack() as stack:
        folder = given.folder or Path(stack.enter_context(tempfile.TemporaryDirectory()))
        folder.mkdir(exist_ok=True)
        servers, brokers = given.servers, None
        if servers is None:
            servers, brokers = stack.enter_context(cluster(BROKERS))
        status, report = campaign(servers, given.kills, given.seed, folder, brokers)
    sys.stdout.write(report + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
