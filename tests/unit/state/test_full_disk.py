"""A state file that cannot grow: the commit reports it, and the next one has a usable session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FULL = """
import os, resource, sys
import pyarrow as pa
from millstream.model.errors import UnavailableError
from millstream.operators.program import StateTable
from millstream.state.store import Store

store = Store.open(sys.argv[1])
table = StateTable("rows", (("k", "BIGINT"),), (("v", "VARCHAR"),), plain=True)
session = store.session("Q", 0, (table,))

def write(first):
    keys = list(range(first, first + 100))
    values = [os.urandom(1000).hex() for _ in keys]
    part = pa.array([0] * 100, pa.int32())
    session.upsert("rows", pa.table({"$part": part, "k": keys, "v": values}))

write(0)
session.commit({0: 1})
resource.setrlimit(resource.RLIMIT_FSIZE, (600_000, resource.RLIM_INFINITY))
try:
    for number in range(1, 20):
        write(100 * number)
        session.commit({0: number + 1})
except UnavailableError as error:
    print(error.code, number)
session.rollback()
assert session.position(0).at == number
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
write(100 * number)
session.commit({0: number + 1})
session.close()
store.close()
store = Store.open(sys.argv[1])
session = store.session("Q", 0, (table,))
assert session.position(0).at == number + 1
found = session.connection.sql('SELECT count(*) FROM "rows"').fetchall()
assert found == [(100 * (number + 1),)], found
print("again")
"""


def test_a_full_disk(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path / "state")],
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    first, second = done.stdout.splitlines()
    assert first.startswith("E-STATE-WRITE") and second == "again"
