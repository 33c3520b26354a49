"""Kill instances that make and drop a table with back-fill on Kafka, and check what they leave.

    python -m tests.crash.kafka_backfill_crash --kills 100 [--seed S] [--servers HOST:PORT]
        [--protocol classic|consumer] [--standbys N] [--replace]

One instance gives the statements, another one only takes its share of the tasks; either is killed,
the former mostly, at a random moment after a mark: in the job, in the transaction that makes the
result count, behind it, or while the table is dropped. A producer keeps writing. The table is
checked after each kill of the former, and is made once more at the end. With --replace it is not
dropped, but made anew each time beside the query that makes it. Without --servers
it starts a broker of its own. Exit status 1 on a violation; 2 when the run proves nothing: no kill
fell into the transaction, or into the job.
"""

from __future__ import annotations

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

MODULE = "tests.crash.kafka_backfill_workload"
MOMENTS = {"making": 0.6, "positions": 0.02, "commit": 0.02, "made": 0.5, "dropping": 0.3}
"""Marks, and the seconds that a kill comes after one at most."""
ODDS = (4, 3, 2, 2, 1)
OTHER_ODDS = 0.2
"""How often it is the instance that gives no statements that is killed."""
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
    """An instance; the first one gives the statements."""
    own = ("--instance", slot.name) if slot.name else ()
    role = () if slot.number else ("--make",)
    arguments = (run.servers, run.service, str(slot.state), *run.options, *own, *role, *more)
    errors = run.folder / f"engine{len(run.started)}.err"
    slot.engine = EngineProcess(arguments, errors, MODULE)
    run.started.append(slot.engine)
    return slot.engine


def kill_one(run: Run) -> None:
    """Kill an instance somewhere in the course of the statements, check what can be read then,
    and start it again."""
    maker, other = run.slots
    assert maker.engine is not None
    if run.rng.random() < OPENING_ODDS:
        time.sleep(run.rng.uniform(0.2, 3.0))
    else:
        maker.engine.await_ready()
        odds = ODDS[:-1] if "--replace" in run.options else ODDS
        (moment,) = run.rng.choices(tuple(MOMENTS)[: len(odds)], odds)
        maker.engine.await_marks(moment, 1)
        time.sleep(run.rng.uniform(0.0, MOMENTS[moment]))
    victim = other if run.rng.random() < OTHER_ODDS else maker
    assert victim.engine is not None
    victim.engine.kill()
    run.seen["kills"] += 1
    if victim is other:
        run.seen["kills of the other instance"] += 1
    else:
        run.seen[f"kills {where(victim.engine)}"] += 1
        check_what_is_there(run)
    start(run, victim)


def check_what_is_there(run: Run) -> None:
    """While the instance is away that makes and drops the table."""
    problems, changes = check_now(run.servers, run.service)
    run.seen["changes checked"] += changes
    if problems:
        raise CampaignError("\n".join(problems[:20]))


def where(maker: EngineProcess) -> str:
    """Where in its work a killed instance was, as far as it could say."""
    statement, step = maker.last("maker"), maker.last("commands")
    if statement == "making" and step in ("positions", "commit"):
        return PLACES[step]
    return PLACES.get(statement, "while opening")


def work(run: Run, kills: int) -> None:
    """Kill so often, then let one instance finish."""
    make_input_topic(run)
    for slot in run.slots:
        start(run, slot).await_ready()
    with feeding(run, "--pause", PAUSE):
        while run.seen["kills"] < kills:
            kill_one(run)
    finish(run, start)


def campaign(
    servers: str, kills: int, seed: int, folder: Path, options: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Kill `kills` times and check; returns the exit status and a report."""
    service = f"filling-{seed}-{os.getpid()}"
    slots = [Slot(0, folder / "state0.db", "maker"), Slot(1, folder / "state1.db", "")]
    run = Run(servers, service, folder, seed, slots, options)

    def steps() -> tuple[int, str]:
        work(run, kills)
        problems, told = check_end(servers, service, folder / "acks")
        return (1 if problems else 0), "\n".join([*problems[:50], told])

    status, found = ended(run, steps)
    report = f"back-fill on kafka: {run.told()}\n{found}"
    if status:
        return 1, report
    if not (run.seen["kills in the job"] and run.seen["kills in the transaction"]):
        return 2, f"{report}\nINVALID: no kill fell into the job, or into the transaction"
    return 0, f"{report}\nno gap, nothing twice"


def main() -> int:
    parser = campaign_arguments(__doc__, standbys=0)
    parser.add_argument("--replace", action="store_true")
    given = parser.parse_args()
    options = (*options_of(given), *(("--replace",) if given.replace else ()))
    return reported(
        given,
        lambda servers, folder, _brokers: campaign(
            servers, given.kills, given.seed, folder, options
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
