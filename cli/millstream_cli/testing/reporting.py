"""Reports the results of test files on the screen and as JUnit XML."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

from millstream.model.errors import StatementError
from millstream_cli.testing.outcomes import Failure
from millstream_cli.testing.parsing import TestFileError
from millstream_cli.testing.running import CaseResult

_UNPRINTABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
"""Characters that XML does not allow, not even escaped."""


@dataclass(slots=True)
class FileResult:
    """The results of a file's cases, or why it could not be read. `updated`: it was rewritten."""

    path: str
    cases: list[CaseResult] = field(default_factory=list)
    error: TestFileError | None = None
    updated: bool = False

    @property
    def failed(self) -> int:
        """The number of failed cases."""
        return sum(bool(case.failures) for case in self.cases)


def file_lines(result: FileResult) -> Iterator[tuple[str, str]]:
    """The report of a file: lines with their styles."""
    if result.error is not None:
        yield f"{result.path}:{result.error.line}: {result.error.message}", "bold red"
        if result.error.hint:
            yield f"  {result.error.hint}", "cyan"
        return
    for case in result.cases:
        for failure in case.failures:
            yield from _failure_lines(result.path, case, failure)
    passed = len(result.cases) - result.failed
    summary = f"{result.path}: {passed} passed"
    summary += f", {result.failed} failed" if result.failed else ""
    yield summary + (", updated" if result.updated else ""), ""


def _failure_lines(path: str, case: CaseResult, failure: Failure) -> Iterator[tuple[str, str]]:
    first, *others = failure.reason.splitlines()
    yield f"{path}:{failure.line}: {case.case.name}: {first}", "bold red"
    for line in (*others, *failure.statement.splitlines()):
        yield f"    {line}", ""
    for line in failure.details:
        yield f"  {line}", {"-": "red", "+": "green"}.get(line[:1], "")
    if any(line.startswith(("-", "+")) for line in failure.details):
        yield "  (- expected, + got)", "dim"


def summary(results: Sequence[FileResult]) -> str:
    """The last line of the report."""
    cases = sum(len(result.cases) for result in results)
    failed = sum(result.failed for result in results)
    unread = sum(result.error is not None for result in results)
    seconds = sum(case.seconds for result in results for case in result.cases)
    parts = [f"{cases - failed} passed", f"{failed} failed"]
    parts += [f"{unread} files could not be read"] if unread else []
    return f"{', '.join(parts)} in {seconds:.1f} s"


def write_junit(results: Sequence[FileResult], path: str) -> None:
    """Write the results as JUnit XML, for continuous integration."""
    root = ElementTree.Element("testsuites")
    for result in results:
        suite = ElementTree.SubElement(
            root, "testsuite",
            name=result.path,
            tests=str(max(1, len(result.cases)) if result.error else len(result.cases)),
            failures=str(result.failed),
            errors=str(int(result.error is not None)),
            time=f"{sum(case.seconds for case in result.cases):.3f}",
        )  # fmt: skip
        if result.error is not None:
            case = ElementTree.SubElement(
                suite, "testcase", classname=result.path, name="(file)", time="0"
            )
            where = f"{result.path}:{result.error.line}: {result.error.message}"
            ElementTree.SubElement(case, "error", message=_printable(where))
        for each in result.cases:
            _add_case(suite, result.path, each)
    ElementTree.indent(root)
    try:
        Path(path).write_bytes(ElementTree.tostring(root, "utf-8", xml_declaration=True) + b"\n")
    except OSError as failure:
        raise StatementError(f"Cannot write to {path}: {failure.strerror}") from failure


def _add_case(suite: ElementTree.Element, path: str, result: CaseResult) -> None:
    case = ElementTree.SubElement(
        suite, "testcase",
        classname=path, name=result.case.name, line=str(result.case.line),
        time=f"{result.seconds:.3f}",
    )  # fmt: skip
    case.set("file", path)
    if result.failures:
        lines = [
            line for failure in result.failures for line, _ in _failure_lines(path, result, failure)
        ]
        element = ElementTree.SubElement(
            case, "failure", message=_printable(result.failures[0].reason)
        )
        element.text = _printable("\n".join(lines))


def _printable(text: str) -> str:
    return _UNPRINTABLE.sub("�", text)
