"""What the site adds: a page for each code of an error, and bars beside tables."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


def hook(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the folder packaging, which is no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "packaging" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, name, module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def error_pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return hook("error_pages", monkeypatch)


@pytest.fixture
def charts(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return hook("charts", monkeypatch)


def test_each_code_has_a_page_that_its_row_leads_to(error_pages: ModuleType) -> None:
    codes = re.findall(r"`(E-[A-Z0-9-]+)`", ERRORS)
    pages = error_pages.pages(ERRORS)
    assert set(codes) == pages.keys()
    linked = error_pages.linked(ERRORS)
    for code in codes:
        assert f"[`{code}`](errors/{code.lower()}.md)" in linked
    assert re.sub(r"\[(`E-[^`]*`)\]\(errors/[^)]*\)", r"\1", linked) == ERRORS


def test_pages_lead_to_what_there_is(error_pages: ModuleType) -> None:
    for code, page in error_pages.pages(ERRORS).items():
        for target in re.findall(r"\]\(([^)#]+)", page):
            assert (ROOT / "docs" / "errors" / target).resolve().exists(), (code, target)


def test_a_page_has_the_messages_of_the_source(error_pages: ModuleType) -> None:
    page = error_pages.pages(ERRORS)["E-LOG-LOCKED"]
    assert "* The log '…' is open in another process. *One process at a time" in page
    found = error_pages.messages()
    assert len(found) > 30
    assert all(each.text.strip("… ") for messages in found.values() for each in messages)


TABLE = """
| W | work | ours | theirs |
|--|--|--:|--:|
| W1 | a & b | **1.50** | 3,000 |
| W2 | c | 2 | - |
"""


def test_bars_are_drawn_beside_a_table(charts: ModuleType) -> None:
    page = charts.drawn(f"before\n<!-- bars: ours, theirs -->\n{TABLE}after")
    assert page.startswith("before\n<svg") and page.endswith(f"{TABLE}after")
    assert ">1.5</text>" in page and ">3000</text>" in page
    assert ">W1</text>" in page and ">W2</text>" not in page, "a row without a number has no bars"


@pytest.mark.parametrize("columns", ["ours, nobody", "work", "W, work, ours, theirs"])
def test_bars_of_what_a_table_does_not_have(charts: ModuleType, columns: str) -> None:
    with pytest.raises(ValueError, match="no "):
        charts.drawn(f"<!-- bars: {columns} -->\n{TABLE}")


def test_every_chart_of_the_pages_can_be_drawn(charts: ModuleType) -> None:
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md")]
    marked = [page for page in pages if "<!-- bars:" in page]
    assert marked
    for page in marked:
        assert charts.drawn(page).count("<svg") == page.count("<!-- bars:")
