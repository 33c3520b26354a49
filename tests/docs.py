"""Write the parts of the documentation that are made from the source: `python -m tests.docs`.

docs/functions.md comes from the catalogue of functions, docs/settings.md from the properties and
the engine's settings. tests/test_docs.py fails while a file is not what this would write.
"""

from __future__ import annotations

import ast
import inspect
import itertools
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

from millstream.functions.catalogue import builtin_catalogue
from millstream.functions.function import AggregateFunction, ScalarFunction, TableFunction
from millstream.model import settings
from millstream.model.settings import PROPERTIES, EngineSettings

DOCS = Path(__file__).resolve().parent.parent / "docs"
MADE = "Made from the source by `make docs`; do not edit.\n"
Function = ScalarFunction | AggregateFunction | TableFunction


def functions() -> str:
    """docs/functions.md."""
    catalogue = builtin_catalogue()
    by_category: dict[str, list[Function]] = {}
    for scalar in catalogue.scalar.values():
        by_category.setdefault(scalar.category.capitalize(), []).append(scalar)
    by_category["Aggregate functions"] = list(catalogue.aggregate.values())
    by_category["Table functions"] = list(catalogue.table.values())
    count = sum(map(len, by_category.values()))
    text = f"# Functions\n\n{MADE}\n{count} functions. A NULL argument gives NULL unless the "
    text += "description says otherwise. Every example is a test.\n"
    for category in sorted(by_category):
        text += f"\n## {category}\n"
        for function in sorted(by_category[category], key=lambda item: item.name):
            text += "\n" + "\n".join(_entry(function)) + "\n"
    return text


def _entry(function: Function) -> Iterator[str]:
    yield f"### {function.name}\n"
    yield f"{function.description}\n"
    yield "```"
    match function:
        case TableFunction():
            for signature in function.signature.split(";"):
                yield f"{function.name}({signature.strip()})"
        case _:
            for variant in function.variants:
                yield f"{function.name}({variant.signature})"
    yield "```"
    if function.examples:
        yield ""
    for example in function.examples:
        yield f"* `{example.expression}` is `{example.result}`"


def properties() -> str:
    """docs/settings.md."""
    text = f"# Settings\n\n{MADE}\n## Properties of a session\n\n"
    text += "Set with `SET 'name' = 'value';`, undone with `UNSET 'name';`, listed by "
    text += "`SHOW PROPERTIES;`. A persistent query keeps those it was created under for life. "
    text += "Each may be written with `ksql.streams.` before it.\n\n"
    text += "| property | values | default | meaning |\n|---|---|---|---|\n"
    for item in PROPERTIES:
        values = item.kind.replace("|", ", ")
        default = f"`{item.default}`" if item.default else ""
        text += f"| `{item.name}` | {values} | {default} | {item.description} |\n"
    text += "\n## Settings of an engine\n\n"
    text += "Given to `millstream.connect(path, settings=EngineSettings(…))`.\n\n"
    text += "| setting | default | meaning |\n|---|---|---|\n"
    meanings = _docstrings(EngineSettings.__name__)
    defaults = EngineSettings()
    for field in fields(EngineSettings):
        meaning = meanings.get(field.name, "")
        text += f"| `{field.name}` | `{getattr(defaults, field.name)!r}` | {meaning} |\n"
    return text


def _docstrings(name: str) -> dict[str, str]:
    """The strings that stand below the fields of a class of model/settings.py."""
    tree = ast.parse(inspect.getsource(settings))
    body = next(n for n in tree.body if isinstance(n, ast.ClassDef) and n.name == name).body
    return {
        field.target.id: " ".join(str(below.value.value).split())
        for field, below in itertools.pairwise(body)
        if isinstance(field, ast.AnnAssign)
        and isinstance(field.target, ast.Name)
        and isinstance(below, ast.Expr)
        and isinstance(below.value, ast.Constant)
    }


FILES = {"functions.md": functions, "settings.md": properties}


def main() -> None:
    """Write all files."""
    for name, text in FILES.items():
        (DOCS / name).write_text(text(), encoding="utf-8")


if __name__ == "__main__":
    main()
