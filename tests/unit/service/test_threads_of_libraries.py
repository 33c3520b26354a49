"""An engine has the threads that it starts; DuckDB adds none of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

# In a process of its own: other tests leave threads behind that libraries share.
MEASURED = """
import os, sys, threading
import duckdb, numpy, pyarrow
import millstream
from millstream.state.store import Store

def others():
    return len(os.listdir("/proc/self/task")) - len(threading.enumerate())

def rows(db, text):
    return db.execute(text).fetchall()

before = others()
with millstream.connect(sys.argv[1]) as db:
    db.execute('''
      SET 'auto.offset.reset' = 'earliest';
      CREATE STREAM s (k STRING KEY, v STRING)
        WITH (KAFKA_TOPIC='s', PARTITIONS=2, VALUE_FORMAT='JSON');
      CREATE TABLE t AS SELECT k, COUNT(*) AS n, LATEST_BY_OFFSET(INITCAP(v)) AS last
        FROM s GROUP BY k;
      INSERT INTO s VALUES ('a', 'one');
    ''')
    assert rows(db, "SELECT last FROM t WHERE k = 'a';") == [("One",)]
    assert rows(db, "SELECT v FROM s;") == [("one",)]
    # Over Kafka, the state is in a database of its own.
    store = Store.open(":memory:")
    print(others() - before)
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the threads cannot be counted")
def test_duckdb_starts_no_threads(tmp_path: Path) -> None:
    command = [sys.executable, "-c", MEASURED, str(tmp_path / "a.db")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 0
