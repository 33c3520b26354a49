"""The process that is killed, on Kafka: a pipeline over the queries of kafka_workload.py.

    python -m tests.crash.kafka_pipeline_workload SERVERS SERVICE STATE [--finish]
        [--protocol classic|consumer] [--instance NAME] [--standbys N]

Its epochs run in the process. It prints the same as an engine of kafka_workload.py, except for what
it holds: all tasks of a query that it has begun a transaction for.
"""

from __future__ import annotations

import time
from pathlib import Path

import millstream
from millstream import InstanceSettings
from millstream.model.errors import MillstreamError, UnavailableError
from millstream.pipeline.pipeline import Pipeline, open_pipeline
from tests.crash.kafka_workload import (
    OPENING_SECONDS,
    PROPERTIES,
    SESSION_MS,
    Marking,
    definitions,
    mark,
    options,
    say,
)

EPOCH_SECONDS = 0.1


def failed(query_id: str, error: MillstreamError) -> None:
    """Report work that is not finished in an epoch."""
    if not isinstance(error, UnavailableError):
        say(f"state {query_id} ERROR {' '.join(str(error).split())}")


def opened(servers: str, service: str, script: str, protocol: str) -> Pipeline:
    """As a supervisor does that restarts a process while brokers are down."""
    sharing = InstanceSettings("", protocol, SESSION_MS)  # type: ignore[arg-type]
    deadline = time.monotonic() + OPENING_SECONDS
    while True:
        try:
            return open_pipeline(
                ":memory:",
                script,
                failed,
                kafka=servers,
                service_id=service,
                sharing=sharing,
                properties=PROPERTIES,
            )
        except (millstream.UnavailableError, millstream.ConflictError):
            if time.monotonic() > deadline:
                raise


def main() -> None:
    given = options(__doc__).parse_args()
    mark(Marking)
    script = Path(f"{given.state}.sql")
    script.write_text("".join(definitions(given.service)))
    with opened(given.servers, given.service, str(script), given.protocol) as pipeline:
        say("ready")
        done = False
        while not (given.finish and done):
            advanced = list(pipeline.epoch())
            done = not advanced and not pipeline.waiting
            if not advanced:
                time.sleep(EPOCH_SECONDS)


if __name__ == "__main__":
    main()
