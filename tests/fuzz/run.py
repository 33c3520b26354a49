"""Send requests that schemathesis makes from the description of the API; none may end with a 5xx,
or with an answer that the description does not have.

With `--authorization` each request says who asks. With `--open-paths` nobody does, and a 2xx from
any other path is an error: for a server with users.
"""

from __future__ import annotations

import argparse
import math
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx

from millstream.model.settings import EngineSettings
from millstream.service.clock import now_ms
from millstream.service.execution import open_engine
from tests.clients.places import INSTALLED, REQUIRED, missing
from tests.served import served

CHECKS = (
    "not_a_server_error,status_code_conformance,content_type_conformance,"
    "response_schema_conformance"
)
ENDS_ALL = "/ksql/terminate"
SETUP = (
    "CREATE STREAM orders (customer STRING KEY, amount DECIMAL(6, 2))"
    " WITH (kafka_topic='orders', value_format='JSON', partitions=1);"
    "CREATE TABLE spending AS SELECT customer, SUM(amount) AS total FROM orders"
    " GROUP BY customer;"
    "INSERT INTO orders VALUES ('ann', 1.50); INSERT INTO orders VALUES ('bob', 20.00);"
)
VARIED = 11
"""The endpoints that take something; the others are done with after one request."""


@contextmanager
def shop() -> Iterator[str]:
    """The address of a server with some rows."""
    engine = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    engine.start()
    with served(engine, {"auto.offset.reset": "earliest"}) as door:
        httpx.post(f"{door.url}/ksql", json={"ksql": SETUP}, timeout=60).raise_for_status()
        yield door.url
    engine.close()


def fuzz(url: str, options: argparse.Namespace) -> int:
    """The status of schemathesis."""
    guarded = options.open_paths is not None
    authorization, requests = options.authorization, options.requests
    command = [
        str(INSTALLED / "schemathesis" / "bin" / "schemathesis"),
        *("run", f"{url}/openapi.json", "--phases", "coverage,fuzzing", "--no-color"),
        *(
            "--checks",
            f"{CHECKS},nobody_is_let_in" if guarded else CHECKS,
            "--exclude-path",
            ENDS_ALL,
            "--continue-on-failure",
        ),
        *("--max-examples", str(math.ceil(requests / VARIED)), "--seed", str(options.seed)),
        *("--request-timeout", "60", "--suppress-health-check", "all", "--warnings", "off"),
        *(("--header", f"Authorization: {authorization}") if authorization else ()),
    ]
    here = Path(__file__).parent
    environment = {
        **os.environ,
        "SCHEMATHESIS_HOOKS": "hooks",
        "PYTHONPATH": str(here),
        "FUZZ_OPEN_PATHS": options.open_paths or "",
    }
    return subprocess.run(command, env=environment, cwd=here, check=False).returncode


def main(arguments: list[str] | None = None) -> int:
    """Fuzz a server of our own, or the one of `--url`."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--url", default="", help="of a server that runs")
    parser.add_argument("--authorization", default="", help="the header of each request")
    parser.add_argument("--open-paths", help="comma-separated; nobody may call any other one")
    options = parser.parse_args(arguments)
    why = missing("schemathesis")
    if why:
        print(f"SKIPPED: schemathesis: {why}", file=sys.stderr)
        return 1 if REQUIRED else 0
    if options.url:
        return fuzz(options.url, options)
    with shop() as url:
        return fuzz(url, options)


if __name__ == "__main__":
    sys.exit(main())
