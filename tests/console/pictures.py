"""Take the pictures of the console in docs/pictures: python -m tests.console.pictures."""

from __future__ import annotations

import sys
from pathlib import Path

from playwright.sync_api import Page, expect, sync_playwright

import millstream
from millstream.connectors.presets import PRESETS
from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.query.session import Session
from millstream.service.execution import open_engine
from millstream_cli.datagen import demo
from tests.clients.places import browser
from tests.console.conftest import FLAGS
from tests.served import served

FOLDER = Path(__file__).parents[2] / "docs" / "pictures"
RUNS_MS = 25_000
CITIES = "SELECT * FROM orders_by_city EMIT CHANGES;"
VIEWS = "SELECT region, windowstart, views FROM views_by_region EMIT CHANGES;"


def main() -> int:
    """Serve the demo, and look at it."""
    FOLDER.mkdir(exist_ok=True)
    engine = open_engine(":memory:", EngineSettings(), now_ms)
    engine.start()

    def another() -> millstream.Database:
        return millstream.Database(engine, Session({"auto.offset.reset": "earliest"}))

    for name in demo.SOURCES:
        another().execute(PRESETS[name].create(name))
    another().execute(demo.QUERIES)
    with served(engine) as door, demo.arriving(another, 20), sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=browser(), args=list(FLAGS))
        page = started.new_page(viewport={"width": 1180, "height": 760})
        page.goto(door.url)
        _take(page, door.url)
        started.close()
    engine.close()
    return 0


def _take(page: Page, url: str) -> None:
    page.wait_for_timeout(RUNS_MS)
    page.locator(".cm-content").click()
    page.keyboard.insert_text(f"{VIEWS}\n{CITIES}")
    page.keyboard.press("Control+Enter")
    expect(page.locator(".panel")).to_have_count(2)
    page.wait_for_timeout(RUNS_MS)
    page.locator(".panel").last.get_by_role("button", name="Chart").click()
    page.wait_for_timeout(1000)
    page.screenshot(path=FOLDER / "console-sql.png")
    page.locator(".panel").last.scroll_into_view_if_needed()
    page.screenshot(path=FOLDER / "console-chart.png")
    page.goto(f"{url}/#queries")
    page.get_by_role("link", name="VIEWS_BY_REGION").first.click()
    expect(page.locator(".topology")).to_be_visible()
    page.wait_for_timeout(4000)
    page.screenshot(path=FOLDER / "console-query.png", full_page=True)
    page.locator(".topology .node").filter(has_text="Aggregate").click()
    heading = page.get_by_role("heading", name="What DuckDB runs")
    heading.scroll_into_view_if_needed()
    page.mouse.wheel(0, 300)
    page.wait_for_timeout(500)
    page.screenshot(path=FOLDER / "console-node.png")
    page.get_by_role("button", name="Dark / light").click()
    page.goto(f"{url}/#sources/ORDERS")
    expect(page.locator("pre.lines").last).to_contain_text("key:")
    page.screenshot(path=FOLDER / "console-dark.png")


if __name__ == "__main__":
    sys.exit(main())
