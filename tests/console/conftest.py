"""The console in a real browser, over a server in this process."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TypeVar

import pytest
from playwright.sync_api import Browser, Page, Playwright, expect, sync_playwright

from millstream.model.clock import now_ms
from millstream.model.settings import EngineSettings
from millstream.service.engine import Engine
from millstream.service.execution import open_engine
from tests.clients.places import browser as chromium
from tests.clients.places import need
from tests.patience import PATIENCE_S
from tests.served import served
from tests.server.conftest import RunningServer

FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update"),
)
SHOP = (
    "CREATE STREAM orders (customer STRING KEY, item STRING, amount DECIMAL(10, 2), code BIGINT)"
    " WITH (kafka_topic='orders', value_format='JSON', partitions=1);"
    "CREATE TABLE spending AS SELECT customer, COUNT(*) AS n, SUM(amount) AS total"
    " FROM orders GROUP BY customer;"
    "CREATE TABLE by_minute AS SELECT customer, COUNT(*) AS n FROM orders"
    " WINDOW TUMBLING (SIZE 1 MINUTE) GROUP BY customer;"
    "INSERT INTO orders VALUES ('ann', 'tea', 1.50, 12345678901234567);"
    "INSERT INTO orders VALUES ('bob', 'cake', 20.00, 2);"
    "INSERT INTO orders VALUES ('ann', 'milk', 2.25, 3);"
)


@dataclass
class Console:
    """A page of the console; `complaints`: what the browser complained of, which tests assert."""

    page: Page
    url: str
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)

    def open(self, view: str = "") -> None:
        """Show a view, by its address."""
        self.page.goto(f"{self.url}/{'#' + view if view else ''}")

    def write(self, text: str) -> None:
        """Replace the text of the editor."""
        self.page.locator(".cm-content").click()
        self.page.keyboard.press("Control+a")
        self.page.keyboard.insert_text(text)

    def run(self, text: str) -> None:
        """Execute statements as a user does."""
        self.write(text)
        self.page.keyboard.press("Control+Enter")

    def rows(self, panel: int = 0) -> list[list[str]]:
        """The cells of a panel's table, the newest panel first."""
        lines = self.page.locator(".panel").nth(panel).locator("tbody tr").all()
        return [line.locator("td").all_inner_texts() for line in lines]


@dataclass
class Shop(Console):
    """A console of a server whose engine the test has in hand."""

    door: RunningServer = field(kw_only=True)


C = TypeVar("C", bound=Console)


def watched(console: C) -> C:
    """A console whose complaints are kept."""
    page = console.page
    page.set_default_timeout(PATIENCE_S * 1000)
    expect.set_options(timeout=PATIENCE_S * 1000)
    page.on("pageerror", lambda error: console.complaints.append(str(error)))
    page.on(
        "console",
        lambda said: console.complaints.append(said.text) if said.type == "error" else None,
    )
    page.on("request", lambda request: console.asked.append(request.url))
    return console


@pytest.fixture(scope="module")
def playwright() -> Iterator[Playwright]:
    need("chromium")
    with sync_playwright() as found:
        yield found


@pytest.fixture(scope="module")
def browser(playwright: Playwright) -> Iterator[Browser]:
    started = playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))
    yield started
    started.close()


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1280, "height": 860})
    yield context.new_page()
    context.close()


@pytest.fixture
def engine() -> Iterator[Engine]:
    started = open_engine(":memory:", EngineSettings(threads=1), now_ms)
    started.start()
    yield started
    started.close()


@pytest.fixture
def console(page: Page, engine: Engine) -> Iterator[Shop]:
    """A console of a server with a stream, two tables and three orders."""
    with served(engine) as found, ExitStack() as stack:
        door = RunningServer(engine, found, stack)
        door.ksql(SHOP)
        engine.drain()
        made = watched(Shop(page, door.url, door=door))
        made.open()
        yield made
        page.close()
