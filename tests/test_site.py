"""The site has a page for each code of an error."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parent.parent
ERRORS = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")


@pytest.fixture
def error_pages(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = ROOT / "packaging" / "error_pages.py"
    spec = importlib.util.spec_from_file_location("error_pages", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "error_pages", module)
    spec.loader.exec_module(module)
    return module


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
