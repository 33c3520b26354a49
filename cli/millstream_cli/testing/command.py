"""`millstream test FILE...`: runs test files; the exit code is 1 if a case fails."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from rich.console import Console

from millstream.model.errors import MillstreamError
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error
from millstream_cli.testing.parsing import TestFileError, read_file
from millstream_cli.testing.records import read_records_case, run_records_case
from millstream_cli.testing.reporting import FileResult, file_lines, summary, write_junit
from millstream_cli.testing.running import Options, run_case
from millstream_cli.testing.updating import update_file

STATEMENTS, INPUT, OUTPUT = "statements.sql", "input.json", "output.json"


@dataclass(frozen=True, slots=True)
class Source:
    """A test file. With `outputs`, it is tested by records in JSON files."""

    path: str
    inputs: str | None = None
    outputs: str | None = None


def _batch(text: str) -> int | None:
    if text.lower() == "all":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, or all, got '{text}'")
    return int(text)


def _seconds(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        found = 0.0
    if not found > 0:
        raise argparse.ArgumentTypeError(f"expected a number of seconds, got '{text}'")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream test",
        description="Run test files: SQL with the expected rows below each query. Each case has a"
        " database of its own, in memory.",
    )
    parser.add_argument(
        "files", nargs="*", metavar="FILE",
        help="a file of SQL, or a folder of such files; a folder with statements.sql, input.json"
        " and output.json is a test of ksqlDB's ksql-test-runner",
    )  # fmt: skip
    runner = parser.add_argument_group("options of ksql-test-runner, instead of files")
    runner.add_argument("-s", "--sql-file", metavar="FILE.sql", help="the statements")
    runner.add_argument("-i", "--input-file", metavar="FILE.json", help="input records")
    runner.add_argument("-o", "--output-file", metavar="FILE.json", help="expected output records")
    parser.add_argument(
        "--update", action="store_true",
        help="write the actual outcomes into the files as the expected ones; review the diff",
    )  # fmt: skip
    parser.add_argument("--junit", metavar="FILE.xml", help="write the results as JUnit XML")
    parser.add_argument("--only", metavar="NAME", help="run cases of this name; * matches any text")
    parser.add_argument(
        "--batch", type=_batch, metavar="N",
        help="process records after each N INSERTs (default: all, before the next statement that"
        " is not an INSERT)",
    )  # fmt: skip
    parser.add_argument(
        "--restart", action="store_true",
        help="close the database and open it again in the middle of each case",
    )  # fmt: skip
    parser.add_argument(
        "--timeout", type=_seconds, default=10.0, metavar="SECONDS",
        help="how long a statement may take (default: 10)",
    )  # fmt: skip
    return parser


def run_test_command(arguments: Sequence[str]) -> int:
    """Run `millstream test` with these arguments; returns the exit code: 1 if a case fails or a
    file cannot be read."""
    parser = _parser()
    options = parser.parse_args(arguments)
    out, errors = Output(Console(soft_wrap=True)), Output(Console(stderr=True, soft_wrap=True))
    try:
        sources = list(_sources(options, parser))
    except TestFileError as error:
        show_error(error, errors)
        return 1
    results = []
    for source in sources:
        result = _run(source, options)
        for line, style in file_lines(result):
            out.line(line, style)
        results.append(result)
    out.line(summary(results))
    if options.junit:
        try:
            write_junit(results, options.junit)
        except MillstreamError as error:
            show_error(error, errors)
            return 1
    return 1 if any(result.failed or result.error for result in results) else 0


def _sources(
    options: argparse.Namespace, parser: argparse.ArgumentParser
) -> Iterator[Source]:  # fmt: skip
    if options.sql_file:
        if not options.output_file:
            parser.error("-s needs -o, the expected output")
        yield Source(options.sql_file, options.input_file, options.output_file)
    elif not options.files:
        parser.error("no file is given")
    for name in options.files:
        if Path(name).is_dir():
            found = list(in_folder(Path(name)))
            if not found:
                raise TestFileError(f"The folder {name} has no test file", 1)
            yield from found
        else:
            yield Source(name)


def in_folder(folder: Path) -> Iterator[Source]:
    """The test files below a folder."""
    for path in sorted(folder.rglob("*.sql")):
        output = path.parent / OUTPUT
        if path.name == STATEMENTS and output.exists():
            given = path.parent / INPUT
            yield Source(str(path), str(given) if given.exists() else None, str(output))
        else:
            yield Source(str(path))


def _run(source: Source, options: argparse.Namespace) -> FileResult:
    result = FileResult(source.path)
    how = Options(options.batch, options.restart, options.timeout)
    try:
        if source.outputs is not None:
            records = read_records_case(source.path, source.inputs, source.outputs)
            if _wanted(records.statements.name, options):
                result.cases.append(run_records_case(records, how))
            return result
        file = read_file(source.path)
        result.cases += [
            run_case(case, how) for case in file.cases if _wanted(case.name, options)
        ]  # fmt: skip
        result.updated = options.update and update_file(file, result.cases)
    except TestFileError as error:
        result.error = error
    return result


def _wanted(name: str, options: argparse.Namespace) -> bool:
    return options.only is None or fnmatchcase(name.lower(), options.only.lower())
