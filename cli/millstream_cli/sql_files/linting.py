"""`millstream lint [FILE...]`: what is wrong with SQL, or most likely not meant."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.console import Console

from millstream.model.errors import MillstreamError
from millstream.service.functions_folder import load_functions
from millstream_cli.options import functions_option
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error
from millstream_cli.sql_files.files import STDIN, files_of, text_of
from millstream_cli.sql_files.rules import Finding, findings


def lint_command(arguments: Sequence[str]) -> int:
    """Run the command: 1 if there is any finding."""
    given = _parser().parse_args(arguments)
    out, errors = Output(Console(soft_wrap=True)), Output(Console(stderr=True, soft_wrap=True))
    try:
        functions = load_functions(given.functions, "--functions")
    except MillstreamError as error:
        show_error(error, errors)
        return 1
    count = 0
    for name in files_of(given.files):
        shown = "standard input" if name == STDIN else name
        try:
            for finding in findings(text_of(name), functions):
                count += 1
                _tell(shown, finding, out)
        except MillstreamError as error:
            count += 1
            show_error(error, errors)
    out.line("all is well" if not count else f"{count} finding{'s' * (count > 1)}")
    return 1 if count else 0


def _tell(name: str, finding: Finding, out: Output) -> None:
    out.line(f"{name}:{finding.line}:{finding.column}: {finding.rule}: {finding.message}")
    for line in finding.more:
        out.line(f"    {line}", "dim")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream lint",
        description="Check scripts without running them: syntax, names, types and properties, as"
        " before a script is executed, and what is most likely not meant. Topics that a script"
        " does not make are taken to be there.",
    )
    functions_option(parser)
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file, or a folder with *.sql")
    return parser
