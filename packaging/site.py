"""What the site adds to the pages of docs: railroad diagrams, bars beside tables, and a page for
each code of an error. Links to other files become text."""

from __future__ import annotations

import io
import re
import sys
from html import escape
from pathlib import Path
from typing import Any

import railroad as rail
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from millstream_grammar.grammar import (
    Choice,
    Keyword,
    Lexical,
    Node,
    Optional,
    Repeat,
    Rule,
    Sequence,
    Symbol,
    productions,
)

_EBNF = re.compile(r"```ebnf\n([a-z_]+) ::=.*?```", re.DOTALL)
sys.path.insert(0, str(Path(__file__).parent))
import charts  # noqa: E402 - a hook is no part of a package
import error_pages  # noqa: E402

_ERRORS = "errors.md"
_LINE_MAX = 7
"""Items of a sequence that are drawn side by side."""


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each code of an error."""
    text = (Path(config.docs_dir) / _ERRORS).read_text(encoding="utf-8")
    for code, page in error_pages.pages(text).items():
        files.append(File.generated(config, error_pages.name_of(code), content=page))
    return files


def on_page_markdown(markdown: str, page: Page, **given: Any) -> str:
    """Draw each rule above its text, and the bars of tables; lead from each code to its page."""
    if page.file.src_path == _ERRORS:
        markdown = error_pages.linked(markdown)
    markdown = charts.drawn(markdown)
    return _EBNF.sub(lambda found: f"{_diagram(found[1])}\n\n{found[0]}", markdown)


def on_page_content(html: str, **given: Any) -> str:
    """Links to what is not a page lead nowhere on the site, so they become text."""
    return re.sub(r'<a href="(?:\.\./)+[^"]*\.(?:py|md|sql)">(.*?)</a>', r"\1", html)


def _diagram(rule: str) -> str:
    drawn = io.StringIO()
    rail.Diagram(_shape(productions()[rule].body)).writeStandalone(drawn.write)
    svg = drawn.getvalue()
    return f'<figure class="rail" aria-label="{escape(rule)}">{svg.replace(chr(10), "")}</figure>'


def _shape(node: Node) -> Any:
    match node:
        case Keyword(text) | Symbol(text):
            return rail.Terminal(text)
        case Lexical(kind):
            return rail.NonTerminal(f"<{kind}>")
        case Rule(name):
            return rail.NonTerminal(name)
        case Optional(item):
            return rail.Optional(_shape(item))
        case Repeat(item, least):
            return (rail.OneOrMore if least else rail.ZeroOrMore)(_shape(item))
        case Choice(items):
            return rail.Choice(0, *map(_shape, items))
        case Sequence(items) if len(items) > _LINE_MAX:
            lines = [items[at : at + _LINE_MAX] for at in range(0, len(items), _LINE_MAX)]
            return rail.Stack(*(rail.Sequence(*map(_shape, line)) for line in lines))
        case Sequence(items):
            return rail.Sequence(*map(_shape, items))
