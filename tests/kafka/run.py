"""`make kafka`: everything that needs a real broker, on one that is started for it.

The broker's files come from Maven Central (kafka-local documents its requirements: Java and Maven,
or a filled cache); if it cannot be started, this fails. Its data lie in a temporary folder, and it
is stopped at the end whatever happens.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from millstream.log.kafka.backend import compiled_client

TOOL = Path(__file__).with_name("kafka-local")


def tool(environment: dict[str, str], *arguments: str) -> str:
    """The last line that kafka-local prints."""
    command = [sys.executable, str(TOOL), *arguments]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"FAILED: no Kafka broker: 'kafka-local {arguments[0]}' did not succeed")
    lines = done.stdout.strip().splitlines()
    return lines[-1] if lines else ""


@contextmanager
def cluster(brokers: int = 1, *more: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Separate brokers with their data in a temporary folder: their addresses, and kafka-local's
    environment for them. `more`: arguments of its `start`."""
    with tempfile.TemporaryDirectory(prefix="millstream-kafka-") as folder:
        environment = {**os.environ, "KAFKA_LOCAL_DATA": folder}
        tool(environment, "install")
        servers = tool(environment, "start", "--brokers", str(brokers), "--port", "0", *more)
        try:
            yield servers, environment
        finally:
            # The registry, too, if there is one.
            tool(environment, "stop", "--wipe")


def checks(servers: str, cases: str, sample: int) -> tuple[tuple[str, Sequence[str]], ...]:
    """What is run, in this order; the conformance cases delete all topics."""
    conformance = ("tests.conformance.on_kafka", "--kafka", servers)
    return (
        ("the log", ("pytest", "tests/kafka")),
        ("the demo", ("tests.demo.run", "--kafka", servers, "--service-id", "make-kafka")),
        ("conformance", (*conformance, "--cases", cases, "--sample", str(sample))),
    )


def main() -> int:
    """Run the command; 1 when a check fails."""
    parser = argparse.ArgumentParser(prog="make kafka", description=__doc__)
    parser.add_argument("--cases", default="../shared/qtt/cases")
    parser.add_argument("--sequences", type=int, default=200, help="random ones on three logs")
    parser.add_argument("--sample", type=int, default=200, help="conformance cases")
    options = parser.parse_args()
    failed = []
    with cluster() as (servers, environment):
        registry = tool(environment, "registry", "start")
        environment |= {"MILLSTREAM_KAFKA": servers, "SEQUENCES": str(options.sequences)}
        environment["MILLSTREAM_REGISTRY"] = registry
        compiled = compiled_client() is not None
        print("Clients: plain, compiled" if compiled else "Clients: plain; no compiled one here")
        for title, arguments in checks(servers, options.cases, options.sample):
            print(f"== {title} on Kafka at {servers}", flush=True)
            command = [sys.executable, "-m", *arguments]
            if subprocess.run(command, env=environment, check=False).returncode:
                failed.append(title)
    print(f"FAILED on Kafka: {', '.join(failed)}" if failed else "All is well on Kafka.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
