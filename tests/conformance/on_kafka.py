"""Run a sample of the conformance cases on a Kafka cluster: each must end as it does in memory.

The sample is always the same: by a hash of the id. Topics carry the names that the cases give them,
so the cases run one after the other, all topics are deleted behind each, and compaction is disabled
on the brokers: use a separate cluster.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import sys
import time
from collections.abc import Callable
from pathlib import Path

from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ResourceType,
)

from millstream.service.engine import Engine
from millstream.service.on_kafka import open_kafka_engine
from tests.conformance.cases import Case, beyond_the_engine, load
from tests.conformance.engine_case import BY_TIME, SETTINGS, in_memory, run_case
from tests.conformance.functions import functions

TIERS = 3
OFFSETS = "row-offset"
"""Cases about offsets: on Kafka the end of each transaction takes one."""
CLEANING = "log.cleaner.min.cleanable.ratio"
REQUEST_SECONDS = 30


def sample(folder: Path, count: int, only: str | None) -> list[Case]:
    """Cases of the first tiers that the engine can run, chosen as if by chance."""
    able = [case for case in load(folder, only) if case.tier <= TIERS and runs_alike(case)]
    able.sort(key=lambda case: hashlib.sha256(case.id.encode()).digest())
    return able[:count]


def runs_alike(case: Case) -> bool:
    """Whether a case can end alike. Time 0 cannot be written by the client (docs/limits.md)."""
    if beyond_the_engine(case) or case.id.startswith(OFFSETS):
        return False
    return all(record["ts"] for record in case.inputs)


def keep_all_changes(servers: str) -> None:
    """Have the brokers compact nothing: no log is more than wholly dirty.

    The cases' times are of 1970, so that each transaction's marker, which has the time of now,
    begins a segment, and what lies before it may be compacted at once.
    """
    admin = AdminClient({"bootstrap.servers": servers})
    never = ConfigEntry(CLEANING, "1.0", incremental_operation=AlterConfigOpType.SET)
    brokers = admin.describe_cluster().result(REQUEST_SECONDS).nodes
    resources = [
        ConfigResource(ResourceType.BROKER, str(broker.id), incremental_configs=[never])
        for broker in brokers
    ]
    for changed in admin.incremental_alter_configs(resources).values():
        changed.result(REQUEST_SECONDS)


def on_kafka(servers: str) -> Callable[[], Engine]:
    """Opens an engine of a new service for each case, in a cluster without other topics."""
    services = (f"case-{time.time_ns()}-{number}" for number in itertools.count())

    def opened() -> Engine:
        engine = open_kafka_engine(
            servers, next(services), ":memory:", SETTINGS, lambda: 0, functions()
        )
        for topic in engine.log.topics():
            if topic.name != engine.settings.command_topic:
                engine.log.delete_topic(topic.name)
        return engine

    return opened


def ending(case: Case, opened: Callable[[], Engine]) -> str:
    """How a case ends, in words that can be compared."""
    try:
        reason, with_message = run_case(case, None, opened, BY_TIME)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return f"{reason or 'passed'}{', with the message' if with_message else ''}"


def main() -> int:
    """Run the command; 1 when a case ends otherwise than in memory."""
    parser = argparse.ArgumentParser(prog="conformance on Kafka", description=__doc__)
    parser.add_argument("--cases", required=True, help="folder of .jsonl files")
    parser.add_argument("--kafka", required=True, metavar="HOST:PORT")
    parser.add_argument("--sample", type=int, default=200)
    parser.add_argument("--only", help="glob on case ids")
    options = parser.parse_args()
    folder = Path(options.cases)
    if not folder.is_dir():
        print(f"SKIPPED: there are no conformance cases in {folder}", file=sys.stderr)
        return 0
    cases = sample(folder, options.sample, options.only)
    keep_all_changes(options.kafka)
    opened = on_kafka(options.kafka)
    passed = different = 0
    for case in cases:
        expected, found = ending(case, in_memory), ending(case, opened)
        passed += found.startswith("passed")
        if found != expected:
            different += 1
            print(f"{case.id}\n  in memory: {expected[:500]}\n  on Kafka:  {found[:500]}")
    print(f"{len(cases)} cases on Kafka: {passed} passed, {different} not as in memory")
    return 1 if different or not cases else 0


if __name__ == "__main__":
    sys.exit(main())
