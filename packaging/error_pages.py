"""A page for each code of an error: what docs/errors.md says, and the messages that have it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ("engine", "parser", "server", "cli")
_ROW = re.compile(r"^\| (`E-[^|]*`) \| (.*) \| (.*) \|$", re.MULTILINE)
_CODE = re.compile(r"`(E-[A-Z0-9-]+)`")


@dataclass(frozen=True, slots=True)
class Message:
    """What an error says, with … for what differs, and its hint."""

    text: str
    hint: str


def pages(errors: str) -> dict[str, str]:
    """The pages by code. `errors`: the text of docs/errors.md."""
    found = messages()
    return {
        code: _page(code, what, todo, found)
        for codes, what, todo in _ROW.findall(errors)
        for code in _CODE.findall(codes)
    }


def name_of(code: str) -> str:
    """The path of a code's page."""
    return f"errors/{code.lower()}.md"


def linked(errors: str) -> str:
    """The text of docs/errors.md, in which each code leads to its page."""

    def link(code: re.Match[str]) -> str:
        return f"[{code[0]}]({name_of(code[1])})"

    return _ROW.sub(lambda row: row[0].replace(row[1], _CODE.sub(link, row[1]), 1), errors)


def _page(code: str, what: str, todo: str, found: dict[str, set[Message]]) -> str:
    def moved(text: str) -> str:
        return re.sub(r"\]\((?=[a-z])", "](../", text)

    page = f"# {code}\n\n{moved(what)}\n\n**What to do.** {moved(todo)}\n"
    own = sorted(found.get(code, ()), key=lambda each: (each.text, each.hint))
    if own:
        page += "\n## What it says\n\n… stands for what differs from case to case.\n"
    for each in own:
        hint = f" *{each.hint}*" if each.hint else ""
        page += f"\n* {each.text}{hint}\n"
    return f"{page}\n[All codes](../errors.md)\n"


def messages() -> dict[str, set[Message]]:
    """What the source says with each code."""
    found: dict[str, set[Message]] = {}
    for folder in SOURCES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            for code, message in _messages(ast.parse(path.read_text(encoding="utf-8"))):
                found.setdefault(code, set()).add(message)
    return found


def _messages(tree: ast.AST) -> Iterator[tuple[str, Message]]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or not node.args:
            continue
        named = {keyword.arg: keyword.value for keyword in node.keywords}
        code, text = _text(named.get("code")), _text(node.args[0])
        if code.startswith("E-") and " " in text:
            yield code, Message(_escaped(text), _escaped(_text(named.get("hint"))))


def _text(node: ast.expr | None) -> str:
    """A text of the source; "" if it is none."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=values):
            return "".join(
                _text(value) if isinstance(value, ast.Constant) else "…" for value in values
            )
        case ast.BinOp(left=left, op=ast.Add(), right=right) if _text(left) and _text(right):
            return _text(left) + _text(right)
    return ""


def _escaped(text: str) -> str:
    """A text that Markdown shows as it is."""
    return re.sub(r"([\\`*_<>\[\]|#])", r"\\\1", " ".join(text.split()))
