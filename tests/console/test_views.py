"""The other views of the console."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import expect

from tests.clients.places import AXE, need
from tests.console.conftest import Shop

VIEWS = ("sql", "queries", "sources", "topics", "log", "instances")


@pytest.fixture
def spending(console: Shop) -> str:
    """The id of the query behind SPENDING."""
    [listed] = console.door.ksql("SHOW QUERIES;")
    return next(one["id"] for one in listed["queries"] if "SPENDING" in one["sinks"])


def test_queries_show_state_and_lag(console: Shop, spending: str) -> None:
    console.open("queries")
    row = console.page.get_by_role("row").filter(has_text=spending)
    expect(row).to_contain_text("RUNNING")
    expect(row.locator("td").nth(4)).to_have_text("0")


def test_a_query_is_a_picture_with_figures(console: Shop, spending: str) -> None:
    console.open(f"queries/{spending}")
    nodes = console.page.locator(".topology .node")
    expect(nodes.filter(has_text="Read STREAM ORDERS")).to_contain_text("3 records")
    expect(nodes.filter(has_text="Aggregate")).to_contain_text("2 rows of state, ")
    expect(nodes.filter(has_text="Write TABLE")).to_contain_text("up to 20")
    expect(nodes.filter(has_text="lag 0")).to_have_count(1)
    expect(console.page.locator("main")).to_contain_text("SUM(amount) AS total")


def test_a_node_shows_the_records_of_its_topic(console: Shop, spending: str) -> None:
    console.open(f"queries/{spending}")
    console.page.locator(".topology .node.topic").first.press("Enter")
    expect(console.page.locator("pre.lines").last).to_contain_text("key: ann")


@pytest.mark.parametrize(
    ("node", "shown"),
    [
        ("Read STREAM ORDERS", ('CREATE TABLE IF NOT EXISTS "in_0"', "key: ann")),
        (
            "Aggregate",
            (
                "-- State: Aggregate",
                "Columns: `CUSTOMER` STRING KEY",
                'CREATE TABLE IF NOT EXISTS "sub_topology_0"."aggregate_',
            ),
        ),
        ("Write TABLE SPENDING", ("-- Write TABLE SPENDING", "key: ann")),
    ],
)
def test_a_node_shows_its_sql(
    console: Shop, spending: str, node: str, shown: tuple[str, ...]
) -> None:
    console.open(f"queries/{spending}")
    console.page.locator(".topology .node").filter(has_text=node).press("Enter")
    for text in shown:
        expect(console.page.locator("main")).to_contain_text(text)


def test_a_node_shows_the_sql_that_fills_its_topic(console: Shop) -> None:
    """A query of two sub-topologies."""
    [made] = console.door.ksql(
        "CREATE TABLE by_item AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;"
    )
    console.open(f"queries/{made['commandStatus']['queryId']}")
    nodes = console.page.locator(".topology .node")
    main = console.page.locator("main")
    nodes.filter(has_text="Repartition by ITEM").press("Enter")
    expect(main).to_contain_text('WHERE "ITEM" IS NOT NULL')
    console.page.locator('.topology .node.source[data-name^="REPARTITION-1"]').press("Enter")
    expect(main).to_contain_text("in sub-topology 1")
    expect(main).to_contain_text("-- Input: Repartition by ITEM")
    expect(main).not_to_contain_text('WHERE "ITEM" IS NOT NULL')


def test_what_was_chosen_before_does_not_show_up_later(console: Shop, spending: str) -> None:
    console.open(f"queries/{spending}")
    nodes = console.page.locator(".topology .node")
    nodes.filter(has_text="Read STREAM ORDERS").press("Enter")
    nodes.filter(has_text="Aggregate").press("Enter")
    expect(console.page.locator("main")).to_contain_text("-- State: Aggregate")
    console.page.wait_for_load_state("networkidle")
    expect(console.page.locator("main")).not_to_contain_text("First records of")


def test_a_query_is_paused_and_goes_on(console: Shop, spending: str) -> None:
    console.open(f"queries/{spending}")
    console.page.get_by_role("button", name="Pause").click()
    row = console.page.get_by_role("row").filter(has_text=spending)
    expect(row).to_contain_text("PAUSED")
    console.page.get_by_role("button", name="Resume").click()
    expect(row).to_contain_text("RUNNING")


def test_a_query_is_terminated_when_that_is_confirmed(console: Shop, spending: str) -> None:
    console.open(f"queries/{spending}")
    row = console.page.get_by_role("row").filter(has_text=spending)
    console.page.once("dialog", lambda dialog: dialog.dismiss())
    console.page.get_by_role("button", name="Terminate").click()
    expect(row).to_contain_text("RUNNING")
    console.page.once("dialog", lambda dialog: dialog.accept())
    console.page.get_by_role("button", name="Terminate").click()
    expect(row).to_have_count(0)


def test_sources_show_columns_and_records(console: Shop, spending: str) -> None:
    console.open("sources/ORDERS")
    expect(console.page.get_by_role("table", name="Columns of ORDERS")).to_contain_text(
        "DECIMAL(10, 2)"
    )
    expect(console.page.locator("pre.lines").last).to_contain_text("key: ann")
    console.page.get_by_role("link", name=spending).first.click()
    expect(console.page.locator("h2")).to_have_text(spending)


def test_a_source_is_queried_from_its_page(console: Shop) -> None:
    console.open("sources/SPENDING")
    console.page.get_by_role("button", name="Its rows now").click()
    expect(console.page.locator(".cm-content")).to_have_text("SELECT * FROM SPENDING;")
    assert console.page.locator(".panel").count() == 0


def test_topics_show_their_size(console: Shop) -> None:
    console.open("topics")
    row = console.page.get_by_role("row").filter(has_text="orders")
    expect(row.locator("td").nth(2)).to_have_text("3")


def test_the_processing_log_says_what_was_skipped(console: Shop) -> None:
    console.open("log")
    expect(console.page.locator("main")).to_contain_text("every record was processed")
    console.door.feed("orders", [b"{ no JSON"])
    console.door.engine.drain()
    console.open("queries")
    console.page.get_by_role("row").filter(has_text="CTAS_SPENDING").locator("a.bad").click()
    expect(console.page.get_by_role("table", name="Processing log")).to_contain_text("ERROR")


def test_instances_show_their_tasks(console: Shop, spending: str) -> None:
    console.open("instances")
    expect(console.page.get_by_role("table", name="Instances")).to_contain_text("ALIVE")
    expect(console.page.get_by_role("table", name="Tasks")).to_contain_text(spending)


def test_views_are_reached_by_keyboard(console: Shop) -> None:
    for key, title in (("2", "Queries"), ("4", "Topics"), ("1", "SQL")):
        console.page.keyboard.press(f"Alt+{key}")
        expect(console.page.locator("nav a[aria-current]")).to_have_text(title)
        assert console.page.title().startswith(title)


def test_dark_and_light_are_remembered(console: Shop) -> None:
    before = console.page.locator("html").get_attribute("data-theme")
    console.page.get_by_role("button", name="Dark / light").click()
    other = {"dark": "light", "light": "dark"}[before or ""]
    expect(console.page.locator("html")).to_have_attribute("data-theme", other)
    console.page.reload()
    expect(console.page.locator("html")).to_have_attribute("data-theme", other)


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("view", [*VIEWS, "sources/ORDERS", "queries/SPENDING"])
def test_everybody_can_use_it(console: Shop, spending: str, view: str, theme: str) -> None:
    need("axe-core")
    console.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    console.page.reload()
    if view == "sql":
        console.run("SELECT * FROM orders EMIT CHANGES LIMIT 1; SELECT nothing; SHOW QUERIES;")
        expect(console.page.locator(".problem")).to_be_visible()
    console.open(view.replace("SPENDING", spending))
    expect(console.page.locator("main > section")).to_be_visible()
    console.page.wait_for_load_state("networkidle")
    # By the debugger, for which the policy of the page does not hold.
    console.page.evaluate(AXE.read_text(encoding="utf-8"))
    found = console.page.evaluate("async () => (await axe.run()).violations")
    told = [(one["id"], one["impact"], [node["html"] for node in one["nodes"]]) for one in found]
    assert [one for one in told if one[1] in ("serious", "critical")] == [], json.dumps(told)
