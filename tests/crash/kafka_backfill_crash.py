"""Kill instances that make and drop a table with back-fill on Kafka, and check what they leave.

    python -m tests.crash.kafka_backfill_crash --kills 100 [--minutes N] [--seed S]
        [--servers HOST:PORT] [--protocol classic|consumer] [--standbys N] [--replace]
        [--backend duckdb|spark]

One instance executes the statements, another one only has its share of the tasks; either is killed,
the former mostly, at a random moment after a mark: in the job, in the transaction that makes the
result count, behind it, or while the table is dropped. A producer keeps writing. The table is
checked after each kill of the former, and is made once more at the end. With --replace it is not
dropped, but made anew each time beside the query that makes it. With --backend spark the past is
computed on Spark, and its JVM is killed, too: the instance must go on with another one; what Spark
has started must end with the instance. Without --servers it starts a broker of its own. Exit status
1 on a violation; 2 when the run proves nothing: no kill fell into the transaction, or into the job,
or none of the JVM did.
"""

from __future__ import annotations

import math
import os
import sys
import time
from pathlib import Path

from tests.crash.engine_process import CampaignError, EngineProcess
from tests.crash.kafka_backfill_checker import check_end, check_now
from tests.crash.kafka_crash import (
    Run,
    Slot,
    campaign_arguments,
    ended,
    feeding,
    finish,
    make_input_topic,
    options_of,
    reported,
)
from tests.crash.started import descendants, kill_drivers, left_behind

MODULE = "tests.crash.kafka_backfill_workload"
MOMENTS = {"making": 0.6, "positions": 0.02, "commit": 0.02, "made": 0.5, "dropping": 0.3}
"""Marks, and the most seconds between a mark and a kill."""
JOB_SECONDS, COLD_SECONDS = 2.0, 15.0
"""The same for a job on Spark, and for the first one of a process: Spark has to start."""
ODDS = (4, 3, 2, 2, 1)
OTHER_ODDS = 0.2
"""How often the instance without statements is killed."""
DRIVER_ODDS = 0.4
"""How often the JVM is killed instead of the instance with the statements."""
OPENING_ODDS = 0.1
PAUSE = "0.25"
"""Seconds between the bursts of the input: each job reads all of it."""
PLACES = {
    "making": "in the job",
    "positions": "in the transaction",
    "commit": "in its commit",
    "made": "behind it",
    "dropping": "while dropping",
}


def start(run: Run, slot: Slot, *more: str) -> EngineProcess:
    """An instance; the first one executes the statements."""
    own = ("--instance", slot.name) if slot.name else ()
    role = () if slot.number else ("--make",)
    arguments = (run.servers, run.service, str(slot.state), *run.options, *own, *role, *more)
    errors = run.folder / f"engine{len(run.started)}.err"
    slot.engine = EngineProcess(arguments, errors, MODULE)
    run.started.append(slot.engine)
    return slot.engine


def kill_one(run: Run) -> None:
    """Kill an instance, or its JVM, at some point of the statements, check what is readable then,
    and continue."""
    maker, other = run.slots
    assert maker.engine is not None
    if run.rng.random() < OPENING_ODDS:
        time.sleep(run.rng.uniform(0.2, 3.0))
    else:
        await_moment(run, maker.engine)
    victim = other if run.rng.random() < OTHER_ODDS else maker
    assert victim.engine is not None
    jvm = victim is maker and on_spark(run) and run.rng.random() < DRIVER_ODDS
    if jvm and kill_driver(run, maker.engine):
        return
    started = descendants(victim.engine.pid)
    victim.engine.kill()
    run.seen["kills"] += 1
    if victim is other:
        run.seen["kills of the other instance"] += 1
    else:
        run.seen[f"kills {where(victim.engine)}"] += 1
        check_what_is_there(run)
    if left := left_behind(started):
        raise CampaignError(f"left behind: {left}")
    start(run, victim)


def await_moment(run: Run, maker: EngineProcess) -> None:
    """Return when it is time for a kill."""
    maker.await_ready()
    odds = ODDS[:-1] if "--replace" in run.options else ODDS
    (moment,) = run.rng.choices(tuple(MOMENTS)[: len(odds)], odds)
    maker.await_marks(moment, 1)
    longest = MOMENTS[moment]
    if on_spark(run) and moment == "making":
        longest = JOB_SECONDS if maker.marks("made") else COLD_SECONDS
    time.sleep(run.rng.uniform(0.0, longest))


def on_spark(run: Run) -> bool:
    """Whether the jobs are Spark's."""
    return "spark" in run.options


def kill_driver(run: Run, maker: EngineProcess) -> bool:
    """Kill the JVM: the instance must continue with another one. Returns whether there was any."""
    refused, topic_partition = maker.marks("refused"), where(maker)
    if not kill_drivers(maker.pid):
        return False
    run.seen["kills"] += 1
    run.seen[f"kills of the JVM {topic_partition}"] += 1
    maker.await_marks("made", 1)
    run.seen["statements refused"] += maker.marks("refused") - refused
    return True


def check_what_is_there(run: Run) -> None:
    """While the instance is away that makes and drops the table."""
    problems, changes = check_now(run.servers, run.service)
    run.seen["changes checked"] += changes
    if problems:
        raise CampaignError("\n".join(problems[:20]))


def where(maker: EngineProcess) -> str:
    """The last reported step of a killed instance."""
    statement, step = maker.last("maker"), maker.last("commands")
    if statement == "making" and step in ("positions", "commit"):
        return PLACES[step]
    return PLACES.get(statement, "while opening")


def work(run: Run, kills: int, minutes: float) -> None:
    """Kill so often, or for so long, then let one instance finish."""
    make_input_topic(run)
    for slot in run.slots:
        start(run, slot).await_ready()
    with feeding(run, "--pause", PAUSE):
        while run.seen["kills"] < kills and time.monotonic() - run.began < 60 * minutes:
            kill_one(run)
    finish(run, start)


def campaign(
    servers: str,
    kills: int,
    seed: int,
    folder: Path,
    options: tuple[str, ...] = (),
    minutes: float = math.inf,
) -> tuple[int, str]:
    """Kill `kills` times, for `minutes` at most; returns the exit status and a report."""
    service = f"filling-{seed}-{os.getpid()}"
    slots = [Slot(0, folder / "state0.db", "maker"), Slot(1, folder / "state1.db", "")]
    run = Run(servers, service, folder, seed, slots, options)

    def steps() -> tuple[int, str]:
        work(run, kills, minutes)
        problems, told = check_end(servers, service, folder / "acks")
        return (1 if problems else 0), "\n".join([*problems[:50], told])

    status, found = ended(run, steps)
    report = f"back-fill on kafka: {run.told()}\n{found}"
    if status:
        return 1, report
    if not (run.seen["kills in the job"] and run.seen["kills in the transaction"]):
        return 2, f"{report}\nINVALID: no kill fell into the job, or into the transaction"
    if on_spark(run) and not run.seen["kills of the JVM in the job"]:
        return 2, f"{report}\nINVALID: no kill of the JVM fell into the job"
    return 0, f"{report}\nno gap, nothing twice"


def main() -> int:
    parser = campaign_arguments(__doc__, standbys=0)
    parser.add_argument("--minutes", type=float, default=math.inf)
    parser.add_argument("--replace", action="store_true")
    parser.add_argument("--backend", default="duckdb", choices=("duckdb", "spark"))
    given = parser.parse_args()
    replacing = ("--replace",) if given.replace else ()
    options = (*options_of(given), *replacing, "--backend", given.backend)
    return reported(
        given,
        lambda servers, folder, _brokers: campaign(
            servers, given.kills, given.seed, folder, options, given.minutes
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
