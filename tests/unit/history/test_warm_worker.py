"""A worker of Spark that is used again does not pay for what it keeps, task after task."""

from __future__ import annotations

import gc
import importlib
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from zipimport import zipimporter

import pytest

from millstream.functions.catalogue import builtin_catalogue
from millstream.history import worker, workspace
from millstream.history.reading import FromLog
from millstream.history.rounds import in_round, run_in_rounds
from tests.unit.history.test_memory import latest
from tests.unit.history.test_runs import run_of


@pytest.fixture(autouse=True)
def a_worker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As if this process were one; it is none any more in the end."""
    monkeypatch.setenv("SPARK_LOCAL_DIRS", str(tmp_path))
    workspace.lasting.cache_clear()
    worker._make_lasting.cache_clear()
    yield
    workspace.lasting.cache_clear()
    gc.unfreeze()


def archives() -> list[str]:
    found = sys.path_importer_cache.items()
    return [path for path, finder in found if isinstance(finder, zipimporter)]


def test_archives_are_not_left_open_and_what_is_loaded_is_no_garbage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = tmp_path / "modules.zip"
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("one_of_an_archive.py", "NUMBER = 1")
        file.writestr("another_of_an_archive.py", "NUMBER = 2")
    monkeypatch.syspath_prepend(str(archive))
    assert importlib.import_module("one_of_an_archive").NUMBER == 1
    assert str(archive) in archives()
    live = latest(8)
    source = FromLog(live.log)
    assert list(run_in_rounds(run_of(live), source, builtin_catalogue(), in_round))
    assert not archives()
    assert gc.get_freeze_count() > 10_000
    assert importlib.import_module("another_of_an_archive").NUMBER == 2
