"""Send requests that schemathesis makes from the description of the API; none may end with a 5xx,
or with an answer that the description does not have. They are sent without credentials to a server
without users, then to one with users as an admin, as a user without rights, and as an unknown user:
the paths with a 2xx for the last two are listed, and these callers change nothing.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from tempfile import TemporaryDirectory

from millstream_server.openapi import document
from millstream_server.routes import ENDPOINTS
from tests.clients.places import INSTALLED, REQUIRED, missing
from tests.fuzz.callers import CALLERS, Caller, Shop, shop

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "nobody_is_let_in",
)
ENDS_ALL = "/ksql/terminate"
VARIED = 29
"""The endpoints that take something; the others are done with after one request."""


def _serving(caller: Caller) -> AbstractContextManager[Shop]:
    return shop(guarded=caller.guarded)


def fuzz(
    caller: Caller,
    requests: int,
    seed: int,
    *,
    serving: Callable[[Caller], AbstractContextManager[Shop]] = _serving,
    checks: Sequence[str] = CHECKS,
) -> bool:
    """Whether all went well with the requests of one caller."""
    print(f"{requests} requests by {caller.name}", flush=True)
    with serving(caller) as served:
        before = served.seen()
        good = _schemathesis(served, caller, requests, seed, checks) == 0
        if not caller.changes and served.seen() != before:
            print(f"{caller.name} has changed something", file=sys.stderr)
            good = False
    return good


def _schemathesis(
    served: Shop, caller: Caller, requests: int, seed: int, checks: Sequence[str]
) -> int:
    here = Path(__file__).parent
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "hooks", "PYTHONPATH": str(here)}
    if caller.open_to is not None:
        environment["FUZZ_OPEN_PATHS"] = ",".join(sorted(caller.open_to))
    with TemporaryDirectory() as folder:
        description = Path(folder) / "openapi.json"
        description.write_text(json.dumps(document(ENDPOINTS)))
        command = [
            str(INSTALLED / "schemathesis" / "bin" / "schemathesis"),
            *("run", str(description), "--url", served.url),
            *("--phases", "coverage,fuzzing", "--no-color", "--checks", ",".join(checks)),
            *("--exclude-path", ENDS_ALL, "--continue-on-failure"),
            *("--max-examples", str(math.ceil(requests / VARIED)), "--seed", str(seed)),
            *("--request-timeout", "60", "--suppress-health-check", "all", "--warnings", "off"),
        ]
        if caller.authorization:
            command += ["--header", f"Authorization: {caller.authorization}"]
        return subprocess.run(command, env=environment, cwd=here, check=False).returncode


def main(arguments: list[str] | None = None) -> int:
    """Fuzz servers of our own; the requests are shared out evenly."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=5_000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(arguments)
    why = missing("schemathesis")
    if why:
        print(f"SKIPPED: schemathesis: {why}", file=sys.stderr)
        return 1 if REQUIRED else 0
    each = math.ceil(options.requests / len(CALLERS))
    found = {caller.name: fuzz(caller, each, options.seed) for caller in CALLERS}
    for name, good in found.items():
        print(f"{'good' if good else 'BAD '}  {name}")
    return 0 if all(found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
