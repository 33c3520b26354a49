"""Every refusal of a statement is worded by a template, and every call fits its template."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from millstream.catalog import wordings as catalog_wordings
from millstream.connectors import wordings as connector_wordings
from millstream.ddl import wordings as ddl_wordings
from millstream.model import refusals
from millstream.model.refusals import Wording
from millstream.plan import wordings as plan_wordings
from millstream.query import wordings as query_wordings
from millstream.service import wordings as service_wordings
from millstream.statements import wordings as statement_wordings

ENGINE = Path(__file__).resolve().parents[2] / "engine" / "millstream"
MODULES = {
    "millstream.model": refusals,
    "millstream.catalog": catalog_wordings,
    "millstream.plan": plan_wordings,
    "millstream.query": query_wordings,
    "millstream.ddl": ddl_wordings,
    "millstream.connectors": connector_wordings,
    "millstream.statements": statement_wordings,
    "millstream.service": service_wordings,
}
ROOMS = (
    *("catalog", "plan", "query", "formats", "functions", "operators", "topology", "ddl"),
    *("historical", "push", "statements"),
)
STATEMENTS = ("service/execution.py",)
PASSED_ON = {
    "statements/pulling.py": "what the other side of an exchange refuses",
}
"""Files that make an error of another error."""
OTHERS = frozenset({"hint", "detail", "span", "code"})


def sources() -> Iterator[Path]:
    """The files that refuse statements."""
    for name in (*ROOMS, *STATEMENTS):
        path = ENGINE / name
        yield from [path] if path.suffix else sorted(path.rglob("*.py"))


def calls(path: Path) -> Iterator[tuple[ast.Call, str]]:
    """The calls in a file, with what is called."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            yield node, ast.unparse(node.func)


def test_refusals_are_worded_by_templates() -> None:
    own = {
        f"{path.relative_to(ENGINE)}:{node.lineno}"
        for path in sources()
        for node, called in calls(path)
        if called in ("StatementError", "ConflictError")
    }
    assert own == set()


def test_each_call_names_what_its_template_has() -> None:
    wrong, seen = [], set()
    for path in sorted(ENGINE.rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        found = _imported(ast.parse(text))
        for node, called in calls(path):
            module, _, name = called.partition(".")
            template = getattr(found[module], name, None) if module in found else None
            if not isinstance(template, Wording):
                continue
            seen.add((found[module].__name__, name))
            given = {keyword.arg for keyword in node.keywords} - OTHERS
            if node.args or given != template.parameters:
                wrong.append(f"{path.name}:{node.lineno} {called}: {given}")
    assert wrong == []
    every = {(m.__name__, name) for m in MODULES.values() for name in m.TEMPLATES}
    assert every - seen == set(), "templates that nothing uses"


def _imported(tree: ast.Module) -> dict[str, ModuleType]:
    return {
        name.asname or name.name: MODULES[node.module]
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in MODULES
        for name in node.names
        if name.name in ("refusals", "wordings")
    }


def test_no_two_templates_have_one_wording() -> None:
    texts = [template.text for module in MODULES.values() for template in module.TEMPLATES.values()]
    assert sorted(texts) == sorted(set(texts))


def test_a_parameter_that_is_missing_fails() -> None:
    with pytest.raises(KeyError):
        catalog_wordings.SOURCE_MISSING()
