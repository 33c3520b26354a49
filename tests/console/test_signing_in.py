"""The console of a server with users and roles."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.console.conftest import Console, watched
from tests.server.guarded import Guarded, guarded


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    with guarded(tmp_path_factory.mktemp("guarded")) as found:
        yield found


@pytest.fixture
def console(browser: Browser, door: Guarded) -> Iterator[Console]:
    context = browser.new_context(ignore_https_errors=True)
    made = watched(Console(context.new_page(), door.url))
    made.open()
    yield made
    context.close()


def sign_in(console: Console, user: str, password: str) -> None:
    console.page.get_by_label("User").fill(user)
    console.page.get_by_label("Password").fill(password)
    console.page.get_by_role("button", name="Sign in").click()


def test_the_page_holds_nothing_and_asks_who_one_is(console: Console) -> None:
    expect(console.page.get_by_role("dialog")).to_be_visible()
    assert "raw_orders" not in console.page.content()


def test_a_wrong_password_is_told(console: Console) -> None:
    sign_in(console, "reader", "wrong")
    expect(console.page.get_by_role("alert")).to_contain_text("refused")
    sign_in(console, "reader", "reader")
    expect(console.page.get_by_role("dialog")).to_have_count(0)


def test_users_see_what_they_may_see(console: Console) -> None:
    sign_in(console, "reader", "reader")
    console.open("sources")
    expect(console.page.get_by_role("table")).to_contain_text("ORDERS")
    assert "PAY" not in console.page.locator("main").inner_text()
    console.open("instances")
    expect(console.page.get_by_role("alert")).to_contain_text("may not describe this service")


def test_users_may_not_do_more_than_elsewhere(console: Console, door: Guarded) -> None:
    sign_in(console, "reader", "reader")
    expect(console.page.get_by_role("dialog")).to_have_count(0)
    console.run("INSERT INTO orders VALUES (2, 'stolen'); SELECT * FROM pay EMIT CHANGES;")
    expect(console.page.locator(".problem")).to_contain_text("40301")
    assert door.engine.log.end_offset("raw_orders", 0) == 1, "only what was there"


def test_credentials_are_neither_kept_nor_shown(console: Console) -> None:
    sign_in(console, "reader", "reader")
    expect(console.page.get_by_role("dialog")).to_have_count(0)
    kept = console.page.evaluate("JSON.stringify([localStorage, sessionStorage, document.cookie])")
    assert "reader" not in kept
    assert all("reader" not in url for url in console.asked)
    console.page.reload()
    expect(console.page.get_by_role("dialog")).to_be_visible()
