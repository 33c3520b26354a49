"""Bounded runs as Spark jobs: rows, problems, errors, cancelling."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.history.local import run_local
from millstream.history.reading import FromLog, ReadChunk
from millstream.history.sealed import seal
from millstream.history.session import Spark
from millstream.history.splits import Run, Split
from millstream.log.log import Appended
from millstream.model.errors import MillstreamError
from millstream.model.problem import Problem
from tests.patience import until
from tests.spark.final import final, made
from tests.unit.history.test_runs import QUERIES, kind_of, pipeline, run_of


@pytest.mark.parametrize("query", QUERIES)
def test_a_job_makes_what_a_run_in_this_process_makes(
    query: str, spark: Spark, tmp_path: Path
) -> None:
    from millstream.history.job import run_on_spark

    live = pipeline(query)
    run, kind = run_of(live), kind_of(live)
    sealed = seal(live.log, run.splits.values(), tmp_path)
    here = run_local(run, FromLog(live.log), builtin_catalogue())
    wanted = made(item for item in here if isinstance(item, Appended))
    for lazily in (False, True):
        with spark.using() as session:
            outputs = run_on_spark(run, sealed, builtin_catalogue(), session, lazily=lazily)
            found = made(item for item in outputs if isinstance(item, Appended))
        assert final(found, kind) == final(wanted, kind)


def test_problems_come_from_every_stage(spark: Spark, tmp_path: Path) -> None:
    from millstream.history.job import run_on_spark

    live = pipeline("rows that move")
    live.send("a", 1, [(b"k", b"{not json", 1)])
    run = run_of(live)
    sealed = seal(live.log, run.splits.values(), tmp_path)
    with spark.using() as session:
        outputs = list(run_on_spark(run, sealed, builtin_catalogue(), session))
    problems = [item for item in outputs if isinstance(item, Problem)]
    assert [(p.kind, p.topic, p.partition) for p in problems] == [("DESERIALIZATION", "a", 1)]


def test_large_results_are_fetched_in_parts(spark: Spark) -> None:
    from pyspark.sql import functions as f

    from millstream.history.job import in_parts

    with spark.using() as session:
        rows = session.range(0, 400, 1, 2).select(
            f.spark_partition_id().alias("sender"),
            f.col("id").alias("number"),
            f.repeat(f.lit("x"), 100).cast("binary").alias("content"),
        )
        whole, parts = in_parts(rows), in_parts(rows, size=5_000)
        sizes = [row["count"] for row in parts.groupBy(f.spark_partition_id()).count().collect()]
        numbers = [row.number for row in parts.toLocalIterator()]
    assert whole is rows and numbers == list(range(400))
    assert sum(sizes) == 400 and max(sizes) <= 100


def test_an_error_of_a_task_reaches_the_caller(spark: Spark, tmp_path: Path) -> None:
    from millstream.history.job import run_on_spark

    live = pipeline("rows that move")
    live.send("a", 1, [(b"k", b"{not json", 1)])
    whole = run_of(live)
    run = Run(whole.topology, whole.splits, whole.widths, fatal=frozenset({"DESERIALIZATION"}))
    sealed = seal(live.log, run.splits.values(), tmp_path)
    with spark.using() as session, pytest.raises(MillstreamError, match="not JSON"):
        list(run_on_spark(run, sealed, builtin_catalogue(), session))


@dataclass(frozen=True, slots=True)
class Waiting:
    """A source whose records never arrive; creates a file when a reader waits for them."""

    sign: str

    def pieces(self, split: Split) -> Iterator[ReadChunk]:
        """See `reading.Source`."""
        Path(self.sign).touch()
        threading.Event().wait()
        yield from ()


def test_a_job_can_be_cancelled(spark: Spark, tmp_path: Path) -> None:
    from millstream.history.job import run_on_spark

    live = pipeline("projection")
    sign = tmp_path / "waiting"
    failed: list[Exception] = []
    with spark.using() as session:

        def work() -> None:
            outputs = run_on_spark(
                run_of(live), Waiting(str(sign)), builtin_catalogue(), session, group="to-cancel"
            )
            try:
                list(outputs)
            except Exception as error:
                failed.append(error)

        thread = threading.Thread(target=work)
        thread.start()
        until = threading.Event()
        while not sign.exists() and thread.is_alive():
            until.wait(0.05)
        session.sparkContext.cancelJobGroup("to-cancel")
        thread.join(60)
    assert not thread.is_alive()
    assert [getattr(error, "code", "") for error in failed] == ["E-CANCELLED"]


def test_a_session_is_lent_and_kept(spark: Spark) -> None:
    with spark.using() as first, spark.using() as second:
        assert first is second
    assert spark.started


def test_a_session_of_other_code_is_used_and_not_stopped(spark: Spark) -> None:
    with spark.using() as session:
        other = Spark()
        with other.using() as lent:
            assert lent.sparkContext.applicationId == session.sparkContext.applicationId
        other.close()
        assert session.range(3).count() == 3


def test_a_session_is_created_anew_after_its_owner_has_stopped_it(spark: Spark) -> None:
    spark.close()
    lender, other = Spark(spark.settings), Spark(spark.settings)
    with lender.using(), other.using() as lent:
        assert lent.range(3).count() == 3
    lender.close()
    with other.using() as own:
        assert own.range(3).count() == 3
    other.close()


def test_an_unused_session_ends_with_its_jvm(spark: Spark) -> None:
    from pyspark import SparkContext

    spark.close()
    own = Spark(replace(spark.settings, idle_seconds=0.05))
    with own.using() as session:
        process = session.sparkContext._gateway.proc  # type: ignore[union-attr]
        assert session.range(3).count() == 3
    until(lambda: not own.started and process.poll() is not None)
    with own.using() as session:
        assert session.range(3).count() == 3
        assert SparkContext._gateway.proc is not process  # type: ignore[union-attr]
    own.close()


def test_only_this_user_of_this_machine_reaches_it(spark: Spark) -> None:
    """Its sockets listen on the loopback; connections to Spark's need its secret."""
    with spark.using() as session:
        context = session.sparkContext
        listening = sockets(context._gateway.proc.pid)  # type: ignore[union-attr]
        assert len(listening) >= 3
        assert set(listening) <= LOOPBACK
        assert context.getConf().get("spark.authenticate") == "true"


LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F", "00000000000000000000000001000000"}
LISTENS = "0A"


def sockets(pid: int) -> list[str]:
    """The addresses, as Linux writes them, at which a process listens."""
    if not Path("/proc/net/tcp").exists():
        pytest.skip("Linux alone tells that")
    own = {os.readlink(file) for file in Path(f"/proc/{pid}/fd").iterdir() if file.is_symlink()}
    found = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == LISTENS and f"socket:[{words[9]}]" in own:
                found.append(words[1].partition(":")[0])
    return found
