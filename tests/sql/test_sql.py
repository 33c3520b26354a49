"""The test files of this folder, each in every mode: the same rows whatever the batches, the log
and what happens in between."""

from __future__ import annotations

from pathlib import Path

import pytest

from millstream_cli.testing.command import Source, in_folder
from millstream_cli.testing.parsing import read_file
from millstream_cli.testing.records import read_records_case, run_records_in
from millstream_cli.testing.reporting import FileResult, file_lines
from millstream_cli.testing.running import CaseResult, run_in
from tests.sql.modes import MODES, HistoryRun, Mode, made

FOLDER = Path(__file__).parent
SOURCES = list(in_folder(FOLDER))
PARTS = {part for mode in MODES.values() for part in mode.parts}


def results(source: Source, mode: Mode) -> list[CaseResult]:
    if source.outputs is not None:
        records = read_records_case(source.path, source.inputs, source.outputs)
        run = made(mode, set(records.statements.skipped))
        return [] if run is None else [run_records_in(run, records)]
    found = []
    for case in read_file(source.path).cases:
        run = made(mode, set(case.skipped))
        if run is not None:
            found.append(run_in(run, case))
    return found


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "source", SOURCES, ids=lambda source: str(Path(source.path).relative_to(FOLDER))
)
def test_file(source: Source, mode: str) -> None:
    result = FileResult(source.path, results(source, MODES[mode]))
    assert not result.failed, "\n".join(line for line, _ in file_lines(result))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        ("group_by.sql", "by an expression"),
        ("push.sql", "with GROUP BY and a window of its own"),
        ("joins_streams.sql", "names of columns in a join"),
    ],
)
def test_history_is_asked(file: str, name: str) -> None:
    (case,) = [case for case in read_file(str(FOLDER / file)).cases if case.name == name]
    run = made(MODES["one by one, over history"], set())
    assert isinstance(run, HistoryRun)
    assert run_in(run, case).failures == []
    assert run.asked


@pytest.mark.parametrize(
    "source", SOURCES, ids=lambda source: str(Path(source.path).relative_to(FOLDER))
)
def test_what_is_skipped_has_a_reason(source: Source) -> None:
    for case in read_file(source.path).cases:
        assert case.skipped.keys() <= PARTS
        assert all(len(reason) > 10 for reason in case.skipped.values()), case.name
