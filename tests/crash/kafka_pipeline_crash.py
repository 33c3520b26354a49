"""Kill pipelines and instances that take the queries of a service from each other on Kafka, and
check the result.

    python -m tests.crash.kafka_pipeline_crash --kills 50 [--seed S] [--servers HOST:PORT]
        [--protocol classic|consumer]

Two processes at a time, each a pipeline or an instance at random: an instance takes the queries
from a pipeline, whose epoch it waits for, and a pipeline takes queries without an instance. A
producer keeps writing. Sometimes one is suspended in a transaction until the other has the query,
and then resumed. Without --servers it starts a broker of its own. Exit status 1 on a violation; 2
when the run proves nothing: no pipeline was killed inside of a commit.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from tests.crash.engine_process import PATIENCE_SECONDS, WORKLOAD, CampaignError, EngineProcess
from tests.crash.kafka_crash import (
    DELAYS,
    Run,
    Slot,
    campaign_arguments,
    check,
    ended,
    feeding,
    finish,
    make_input_topic,
    options_of,
    reported,
)

PIPELINE = "tests.crash.kafka_pipeline_workload"
PIPELINE_ODDS = 0.7
ACTIVE_ODDS = 0.8
"""How often it is the process that works that is killed."""
MARKS = 6
ZOMBIE_EVERY = 6
PAUSE = "0.05"
"""Seconds between the bursts of the input: each epoch reads all state."""


def start(run: Run, slot: Slot, *more: str, module: str = "") -> EngineProcess:
    """A pipeline or an instance."""
    if not module:
        module = PIPELINE if run.rng.random() < PIPELINE_ODDS else WORKLOAD
    slot.name = "pipeline" if module == PIPELINE else "instance"
    arguments = (run.servers, run.service, str(slot.state), *run.options, *more)
    errors = run.folder / f"engine{len(run.started)}.err"
    slot.engine = EngineProcess(arguments, errors, module)
    run.started.append(slot.engine)
    run.seen[f"{slot.name}s"] += 1
    return slot.engine


def engine_of(slot: Slot) -> EngineProcess:
    """The process of a slot that has one."""
    assert slot.engine is not None
    return slot.engine


def await_one(what: str, slots: list[Slot], holds: Callable[[EngineProcess], bool]) -> Slot:
    """The first process for which it holds."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        for slot in slots:
            if holds(engine_of(slot)):
                return slot
            engine_of(slot).check()
        if time.monotonic() > deadline:
            raise CampaignError(f"no process has said {what}")
        time.sleep(0.001)


def kill_one(run: Run) -> None:
    """Around the steps of a commit of the working process, and mostly of that process."""
    mark, count = run.rng.choice(("begin", "commit", "commit", "done")), run.rng.randint(1, MARKS)
    targets = {id(slot.engine): engine_of(slot).marks(mark) + count for slot in run.slots}
    active = await_one(
        f"{count} times '{mark}'", run.slots, lambda one: one.marks(mark) >= targets[id(one)]
    )
    time.sleep(run.rng.choice((0.0, run.rng.uniform(0.0, DELAYS[mark]))))
    passive = next(slot for slot in run.slots if slot is not active)
    victim = active if run.rng.random() < ACTIVE_ODDS else passive
    where = engine_of(victim).kill()
    run.seen["kills"] += 1
    run.seen[f"{victim.name}s killed {where}"] += 1
    start(run, victim)


def stop_as_zombie(run: Run) -> None:
    """Suspend the working process inside a transaction until the other one has begun one for the
    same query: its later writes must not be accepted."""
    for slot in run.slots:
        engine_of(slot).await_ready()
    target = {id(slot.engine): engine_of(slot).marks("positions") for slot in run.slots}
    active = await_one(
        "'positions'", run.slots, lambda one: one.marks("positions") > target[id(one)]
    )
    (other,) = (slot for slot in run.slots if slot is not active)
    halted = engine_of(active).halt()
    for query in halted:
        begun = engine_of(other).marks("begin", query)
        await_one(
            f"'begin {query}'",
            [other],
            lambda one, query=query, begun=begun: one.marks("begin", query) > begun,  # type: ignore[misc]
        )
    accepted = engine_of(active).continue_as_zombie()
    run.seen[f"{active.name}s stopped"] += 1
    run.seen["transactions of zombies"] += len(halted)
    if accepted:
        raise CampaignError(f"a zombie's transaction was accepted: {accepted}")


def work(run: Run, kills: int) -> None:
    """Kill so often, then let a pipeline finish."""
    make_input_topic(run)
    start(run, run.slots[0], "--define", module=WORKLOAD).await_ready()
    start(run, run.slots[1])
    with feeding(run, "--pause", PAUSE):
        while run.seen["kills"] < kills:
            if run.seen["kills"] % ZOMBIE_EVERY == ZOMBIE_EVERY - 1:
                stop_as_zombie(run)
            kill_one(run)
    finish(run, lambda run, slot, more: start(run, slot, more, module=PIPELINE))


def campaign(
    servers: str, kills: int, seed: int, folder: Path, options: tuple[str, ...] = ()
) -> tuple[int, str]:
    """Kill `kills` times and check; returns the exit status and a report."""
    service = f"piping-{seed}-{os.getpid()}"
    slots = [Slot(number, folder / f"state{number}.db", "") for number in range(2)]
    run = Run(servers, service, folder, seed, slots, options)

    def steps() -> tuple[int, str]:
        work(run, kills)
        return check(run)

    status, found = ended(run, steps)
    report = f"pipelines on kafka: {run.told()}\n{found}"
    if status:
        return 1, report
    if not run.seen["pipelines killed in a commit"]:
        return 2, f"{report}\nINVALID: no pipeline was killed inside of a commit"
    return 0, f"{report}\nnothing lost, nothing twice, all in order"


def main() -> int:
    given = campaign_arguments(__doc__, standbys=0).parse_args()
    return reported(
        given,
        lambda servers, folder, _brokers: campaign(
            servers, given.kills, given.seed, folder, options_of(given)
        ),
    )


if __name__ == "__main__":
    sys.exit(main())
