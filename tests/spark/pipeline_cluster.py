"""A pipeline on a standalone Spark cluster of two worker processes: over much input, over little,
and the engine that goes on from it, with the rows of one that has run alone.

    python -m tests.spark.pipeline_cluster
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import millstream
from millstream.history.inline import INLINE_RECORDS
from millstream.log.log import Appended
from millstream.model.batch import raw_batch
from millstream.pipeline.pipeline import open_pipeline
from millstream.query.session import Session
from millstream.service.database import Database
from tests.spark.standalone import WORKERS, cluster
from tests.spark.test_pipeline_on_spark import SCRIPT, failed
from tests.unit.conftest import EARLIEST
from tests.unit.queries.test_backfilling import fill

TABLES = ("sums", "towns")
MANY = INLINE_RECORDS + 1
STAGES = (0, 30, 45, 60)
"""Orders that there are before each run of the pipeline, and before the engine goes on."""


def send(db: Database, stage: int) -> None:
    """What comes before a stage; a lot before the first one."""
    fill(db, STAGES[stage], STAGES[stage + 1])
    if stage == 0:
        batch = raw_batch([(b"c9", b'{"ITEM":"i0","AMOUNT":1}', 0)] * MANY)
        writer = db.engine.log.writer("producer")
        writer.append([Appended("orders", 1, batch, MANY)])
        writer.close()


def rows(db: Database) -> dict[str, list[tuple[object, ...]]]:
    """The tables once all there is has been processed."""
    db.wait()
    wrong = [status.error for status in db.engine.statuses() if status.error]
    if wrong:
        raise SystemExit(f"queries have failed: {wrong}")
    return {name: sorted(db.execute(f"SELECT * FROM {name};")) for name in TABLES}


def run_pipeline(script: Path, path: Path, master: str) -> None:
    """One run of the command, as a user gives it."""
    began = time.monotonic()
    command = [
        sys.executable,
        "-m",
        "millstream_cli.main",
        "pipeline",
        "run",
        str(script),
        "--once",
    ]
    command += ["--database", str(path), "--master", master]
    command += ["--property", "auto.offset.reset=earliest"]
    command += ["--spark-option", "spark.executor.memory=700m"]
    status = subprocess.run(command, check=False).returncode
    print(f"pipeline run: exit {status}, {time.monotonic() - began:.1f} s", flush=True)
    if status:
        raise SystemExit(status)


def compared(master: str, folder: Path) -> list[str]:
    """The tables that differ from those of an engine that has had no pipeline."""
    script, path = folder / "pipeline.sql", folder / "shop.db"
    script.write_text(SCRIPT, encoding="utf-8")
    with millstream.connect(properties=EARLIEST) as alone:
        alone.execute(SCRIPT)
        for stage in range(len(STAGES) - 1):
            send(alone, stage)
        wanted = rows(alone)
    for stage in range(len(STAGES) - 2):
        with open_pipeline(
            str(path), str(script), failed, master=None, properties=EARLIEST
        ) as unstarted:
            send(Database(unstarted.engine, Session(EARLIEST)), stage)
        run_pipeline(script, path, master)
    with millstream.connect(str(path), properties=EARLIEST) as db:
        send(db, len(STAGES) - 2)
        found = rows(db)
    for name in TABLES:
        if found[name] != wanted[name]:
            print(f"{name}: {found[name]} where {wanted[name]} should be", flush=True)
    return [name for name in TABLES if found[name] != wanted[name] or not found[name]]


def main() -> int:
    """Run the command; 1 when anything differs."""
    with cluster() as master, tempfile.TemporaryDirectory(prefix="millstream-pipeline-") as folder:
        print(f"{master} with {WORKERS} workers", flush=True)
        wrong = compared(master, Path(folder))
    print("; ".join(f"{name} differs" for name in wrong) or "equal", flush=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
