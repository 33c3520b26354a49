"""What tasks may use of memory: states beyond it lie on disk, and what cannot ends one query."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.history.local import run_local
from millstream.history.reading import FromLog
from millstream.history.rounds import in_round, run_in_rounds
from millstream.history.splits import Run
from millstream.history.task import Produced
from millstream.history.workspace import Workspace, of_spark
from millstream.log.log import Appended
from millstream.model.errors import StatementError
from millstream.topology.split import mixed
from tests.properties.pipeline import Pipeline
from tests.spark.final import Record, made
from tests.unit.history.test_runs import AT_ONCE, STREAM, WHOLE, run_of

LATEST = (
    "CREATE TABLE o WITH (kafka_topic='o') AS "
    "SELECT id, LATEST_BY_OFFSET(w) AS w, COUNT(*) AS n FROM s GROUP BY id;"
)
WIDTH = 1500
TOO_LITTLE = "20MB"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def latest(keys: int) -> Pipeline:
    """The latest text of each key, which does not compress."""
    live = Pipeline(STREAM, LATEST, {"a": 1, "o": 1}, WHOLE, AT_ONCE, mixed)
    chance = random.Random(1)
    for first in range(0, keys, keys // 8):
        values = ((i, chance.randbytes(WIDTH // 2).hex()) for i in range(first, first + keys // 8))
        live.send("a", 0, [(f"k{i}".encode(), json.dumps({"w": w}).encode(), i) for i, w in values])
    return live


def rows(run: Run, live: Pipeline, seen: Path | None = None) -> tuple[list[Record], int]:
    """What a run makes, and the most bytes that lay in files beneath `seen` meanwhile."""
    found: list[Produced] = []
    most = 0
    for item in run_local(run, FromLog(live.log), builtin_catalogue()):
        found.append(item)
        most = max(most, bytes_in(seen) if seen else 0)
    return made(item for item in found if isinstance(item, Appended)), most


def bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.glob("millstream-tasks-*/spilled/*"))


def test_a_state_beyond_the_memory_lies_on_disk(temporary: Path) -> None:
    live = latest(80_000)
    run = replace(run_of(live, cached=True), memory_limit="120MB")
    within, on_disk = rows(run, live, temporary)
    assert on_disk > 1 << 20
    assert not list(temporary.iterdir())
    assert within == rows(replace(run, memory_limit="4GB"), live)[0] and len(within) == 80_000


Runner = Callable[[Run, Pipeline], Iterable[Produced]]


def by_local(run: Run, live: Pipeline) -> Iterable[Produced]:
    return run_local(run, FromLog(live.log), builtin_catalogue())


def by_workers(run: Run, live: Pipeline) -> Iterator[Produced]:
    return run_in_rounds(run, FromLog(live.log), builtin_catalogue(), in_round)


@pytest.mark.parametrize("runner", [by_local, by_workers])
def test_a_task_that_needs_more_ends_its_query_alone(runner: Runner) -> None:
    large, small = latest(24_000), latest(800)
    run = replace(run_of(large), memory_limit=TOO_LITTLE)
    with pytest.raises(StatementError) as raised:
        list(runner(run, large))
    error = raised.value
    assert error.code == "E-HISTORY-MEMORY"
    assert "Query Q " in error.message and "task 0 of its sub-topology 0" in error.message
    assert TOO_LITTLE in error.message and "history_memory_limit" in error.hint
    assert list(runner(replace(run_of(small), memory_limit=TOO_LITTLE), small))


def test_an_instance_has_one_thread_and_its_limit() -> None:
    workspace = Workspace(builtin_catalogue(), "50MiB")
    with workspace.store() as store, store.cursor() as cursor:
        found = cursor.execute(
            "SELECT current_setting('threads'), current_setting('memory_limit')"
        ).fetchone()
    workspace.close()
    workspace.close()
    assert found == (1, "50.0 MiB")


def test_a_worker_spills_where_its_executor_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert of_spark() is None
    monkeypatch.setenv("SPARK_LOCAL_DIRS", f"{tmp_path / 'gone'},{tmp_path}")
    assert of_spark() == tmp_path
    workspace = Workspace(builtin_catalogue(), beneath=of_spark())
    assert list(tmp_path.glob("millstream-tasks-*"))
    workspace.close()
    assert not list(tmp_path.iterdir())
