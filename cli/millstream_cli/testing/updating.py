"""`--update`: writes the outcomes of statements below them as the expected ones."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from millstream_cli.testing.cases import Case, ExpectedRows, Step, TestFile
from millstream_cli.testing.outcomes import Outcome, failure_of, outcome_lines
from millstream_cli.testing.running import CaseResult


def updated(file: TestFile, results: Sequence[CaseResult]) -> str:
    """The text of a file, with unmet expectations replaced by the outcomes. A failed ASSERT and a
    case that expects an error stay as they are."""
    changes: dict[tuple[int, int], list[str]] = {}
    for result in results:
        for step, outcome in zip(result.case.steps, result.outcomes, strict=False):
            if _changes(result.case, step, outcome):
                changes.setdefault(step.block, _block(step, outcome))
    lines = file.text.split("\n")
    for (first, end), block in sorted(changes.items(), reverse=True):
        lines[first - 1 : end - 1] = block
    return "\n".join(lines)


def update_file(file: TestFile, results: Sequence[CaseResult]) -> bool:
    """Rewrite a file if its text changes; returns whether it did."""
    text = updated(file, results)
    if text == file.text:
        return False
    Path(file.path).write_text(text, encoding="utf-8")
    return True


def _changes(case: Case, step: Step, outcome: Outcome) -> bool:
    asserts = step.text.lstrip().upper().startswith("ASSERT")
    return not asserts and case.error is None and failure_of(step, outcome) is not None


def _block(step: Step, outcome: Outcome) -> list[str]:
    order = step.expected.ordered if isinstance(step.expected, ExpectedRows) else None
    marks = [] if order is None else ["-- ordered" if order else "-- unordered"]
    return marks + [f"-- {line}" for line in outcome_lines(outcome)]
