"""What the conformance cases see refused is worded by a template, as ksqlDB words it."""

from __future__ import annotations

import pytest

from millstream.model.errors import StatementError
from tests.conformance.cases import load
from tests.conformance.engine_case import drive, in_memory
from tests.conformance.judge import judge_error
from tests.refusals.families import families_of
from tests.refusals.test_refusals import CASES


def test_every_refusal_of_the_cases_is_of_one_family() -> None:
    if not CASES.is_dir():
        pytest.skip(f"SKIPPED: there are no conformance cases in {CASES}")
    seen, wrong = 0, []
    for case in load(CASES):
        if case.expect != "error" or not case.plain:
            continue
        engine = in_memory()
        stopped = drive(case, [case.inputs], engine)
        engine.close()
        seen += 1
        error = stopped.__cause__ if stopped else None
        reason, worded = judge_error(case, stopped)
        if reason or not worded:
            wrong.append(f"{case.id}: {reason or stopped}")
        elif isinstance(error, StatementError) and len(families_of(error.message)) != 1:
            wrong.append(f"{case.id}: {families_of(error.message)} for {error.message!r}")
    assert seen > 250 and wrong == []
