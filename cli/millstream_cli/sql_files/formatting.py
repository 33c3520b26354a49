"""`millstream format [FILE...]`: SQL in one layout."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from millstream.model.errors import MillstreamError
from millstream.scripts.text import split_text
from millstream_cli.screen.output import Output
from millstream_cli.screen.show import show_error
from millstream_cli.sql_files.files import STDIN, files_of, text_of
from millstream_parser.layout import format_script


def format_command(arguments: Sequence[str]) -> int:
    """Run the command: 1 if a file cannot be read or, with --check, has another layout."""
    given = _parser().parse_args(arguments)
    out, errors = Output(Console(soft_wrap=True)), Output(Console(stderr=True, soft_wrap=True))
    changed = failed = False
    for name in files_of(given.files):
        try:
            text = text_of(name)
            # A text that is not closed somewhere has no statements that could be told apart.
            for _ in split_text(text):
                pass
            formatted = format_script(text)
            if name == STDIN and not given.check:
                sys.stdout.write(formatted)
            elif formatted != text:
                changed = True
                out.line(f"{'would be changed' if given.check else 'changed'}: {name}")
                if not given.check:
                    Path(name).write_text(formatted, encoding="utf-8")
        except MillstreamError as error:
            failed = True
            errors.line(f"{name}:")
            show_error(error, errors)
    return 1 if failed or (given.check and changed) else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="millstream format",
        description="Write SQL in one layout. Only white space and the case of keywords change;"
        " comments stay. Without a file, standard input is written to standard output.",
    )
    parser.add_argument("files", nargs="*", metavar="FILE", help="a file, or a folder with *.sql")
    parser.add_argument("--check", action="store_true", help="change nothing, tell what would be")
    return parser
