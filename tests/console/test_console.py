"""What users do with the console, in a real browser."""

from __future__ import annotations

import re

from playwright.sync_api import expect

from tests.console.conftest import Shop

EMIT = "SELECT * FROM orders EMIT CHANGES;"


def test_it_opens_without_complaints_and_asks_its_own_server_alone(console: Shop) -> None:
    expect(console.page.locator("nav a")).to_have_count(6)
    console.run(EMIT)
    expect(console.page.locator(".panel tbody tr")).to_have_count(3)
    assert console.complaints == []
    assert all(url.startswith((console.url, "data:")) for url in console.asked)


def test_rows_of_a_push_query_come_by_themselves(console: Shop) -> None:
    console.run(EMIT)
    expect(console.page.locator(".panel tbody tr")).to_have_count(3)
    console.door.ksql("INSERT INTO orders VALUES ('eve', 'pie', 7.00, 4);")
    expect(console.page.locator(".panel tbody tr")).to_have_count(4)
    assert console.rows()[0] == ["eve", "pie", "7.00", "4"]


def test_numbers_are_shown_as_they_were_sent(console: Shop) -> None:
    console.run("SELECT * FROM orders WHERE customer = 'ann' EMIT CHANGES LIMIT 1;")
    expect(console.page.locator(".note")).to_contain_text("1 row · ended")
    assert console.rows() == [["ann", "tea", "1.50", "12345678901234567"]]


def test_a_pull_query_ends(console: Shop) -> None:
    console.run("SELECT * FROM spending WHERE customer = 'ann';")
    expect(console.page.locator(".note")).to_contain_text("1 row · ended")
    assert console.rows() == [["ann", "2", "3.75"]]
    expect(console.page.get_by_role("button", name="Stop", exact=True)).to_be_hidden()


def test_a_script_is_executed_in_order(console: Shop) -> None:
    console.run(
        "-- made; here\nCREATE TABLE items AS SELECT item, COUNT(*) AS n FROM orders GROUP BY item;"
        "INSERT INTO orders VALUES ('eve', 'a;b', 1, 1); /* ; */ SELECT * FROM items EMIT CHANGES;"
    )
    expect(console.page.locator(".panel").first).to_contain_text("a;b")
    expect(console.page.locator(".panel")).to_have_count(2)
    expect(console.page.locator(".panel .done")).to_contain_text("CTAS_ITEMS")


def test_an_error_has_the_words_of_the_server(console: Shop) -> None:
    console.run("SELECT custmer FROM orders EMIT CHANGES;")
    expect(console.page.locator(".problem")).to_contain_text("CUSTOMER")
    console.run("SHOW STREAMS; CREATE STREAM orders (a INT) WITH (kafka_topic='t');")
    expect(console.page.locator(".problem").first).to_contain_text("VALUE_FORMAT")


def test_lists_are_tables(console: Shop) -> None:
    console.run("SHOW QUERIES;")
    table = console.page.get_by_role("table", name="queries")
    expect(table).to_contain_text("CTAS_SPENDING")


def test_stop_ends_the_query_of_the_server(console: Shop) -> None:
    console.run(EMIT)
    expect(console.page.locator(".panel tbody tr")).to_have_count(3)
    ended = console.door.watched()
    console.page.get_by_role("button", name="Stop", exact=True).click()
    expect(console.page.locator(".note")).to_contain_text("stopped")
    assert ended.wait(60)


def test_escape_ends_all_queries(console: Shop) -> None:
    console.run(EMIT + EMIT)
    expect(console.page.locator(".note")).to_have_count(2)
    console.page.keyboard.press("Escape")
    expect(console.page.locator(".note", has_text="stopped")).to_have_count(2)


def test_escape_in_the_editor_closes_what_completes_first(console: Shop) -> None:
    console.run(EMIT)
    expect(console.page.locator(".panel tbody tr")).to_have_count(3)
    console.write("")
    console.page.keyboard.type("SELECT * FROM spend")
    expect(console.page.locator(".cm-tooltip-autocomplete")).to_be_visible()
    console.page.keyboard.press("Escape")
    expect(console.page.locator(".cm-tooltip-autocomplete")).to_have_count(0)
    expect(console.page.locator(".note")).to_contain_text("runs")
    console.page.keyboard.press("Escape")
    expect(console.page.locator(".note")).to_contain_text("stopped")


def test_queries_that_nobody_sees_any_more_are_ended(console: Shop) -> None:
    console.run(EMIT)
    expect(console.page.locator(".panel tbody tr")).to_have_count(3)
    ended = console.door.watched()
    console.run("SHOW TABLES;" * 12)
    expect(console.page.locator(".panel")).to_have_count(12)
    assert ended.wait(60)


def test_a_paused_table_stands_still_and_then_catches_up(console: Shop) -> None:
    console.run(EMIT)
    expect(console.page.locator(".panel tbody tr")).to_have_count(3)
    pause = console.page.get_by_role("button", name="Pause", exact=True)
    pause.click()
    console.door.ksql("INSERT INTO orders VALUES ('eve', 'pie', 7.00, 4);")
    expect(console.page.locator(".note")).to_contain_text("4 rows · paused")
    assert len(console.rows()) == 3
    pause.click()
    expect(console.page.locator(".panel tbody tr")).to_have_count(4)


def test_a_table_shows_the_latest_row_of_each_key(console: Shop) -> None:
    console.run("SELECT * FROM spending EMIT CHANGES;")
    rows = console.page.locator(".panel tbody tr")
    expect(rows).to_have_count(2)
    console.door.ksql("INSERT INTO orders VALUES ('bob', 'pie', 1.00, 4);")
    expect(rows.filter(has_text="21.00")).to_have_count(1)
    expect(rows).to_have_count(2)
    console.page.get_by_role("button", name="Latest by key").click()
    expect(rows).to_have_count(4)


def test_a_deleted_row_leaves_the_table(console: Shop) -> None:
    console.run("SELECT * FROM spending WHERE total > 3 AND n < 3 EMIT CHANGES;")
    rows = console.page.locator(".panel tbody tr")
    expect(rows).to_have_count(2)
    console.door.ksql("INSERT INTO orders VALUES ('ann', 'pie', 1.00, 4);")
    expect(rows).to_have_count(1)
    assert [row[0] for row in console.rows()] == ["bob"]


def test_windows_are_drawn_as_lines(console: Shop) -> None:
    console.run("SELECT * FROM by_minute EMIT CHANGES;")
    expect(console.page.locator(".panel tbody tr")).not_to_have_count(0)
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:00\.000", console.rows()[0][1])
    console.page.get_by_role("button", name="Chart").click()
    expect(console.page.locator(".uplot canvas")).to_be_visible()
    expect(console.page.locator(".u-legend")).to_contain_text("ann")


def test_keys_are_drawn_as_bars(console: Shop) -> None:
    console.run("SELECT * FROM spending EMIT CHANGES;")
    expect(console.page.locator(".panel tbody tr")).to_have_count(2)
    console.page.get_by_role("button", name="Chart").click()
    console.page.get_by_label("Column drawn").select_option(label="TOTAL")
    console.door.ksql("INSERT INTO orders VALUES ('eve', 'pie', 1.00, 4);")
    expect(console.page.locator(".u-legend")).to_contain_text("TOTAL")
    assert console.complaints == []


def test_names_are_completed(console: Shop) -> None:
    console.page.locator(".cm-content").click()
    console.page.keyboard.type("SELECT * FROM spend")
    expect(console.page.locator(".cm-tooltip-autocomplete")).to_contain_text("SPENDING")
    console.page.keyboard.press("Enter")
    console.page.keyboard.type(" WHERE custom")
    expect(console.page.locator(".cm-tooltip-autocomplete")).to_contain_text("CUSTOMER")


def test_shift_enter_runs_the_statement_at_the_cursor(console: Shop) -> None:
    console.write("SHOW TABLES;\nSHOW STREAMS;")
    console.page.keyboard.press("Shift+Enter")
    expect(console.page.locator(".panel")).to_have_count(1)
    expect(console.page.locator(".panel")).to_contain_text("SHOW STREAMS;")


def test_statements_are_remembered(console: Shop) -> None:
    console.run("SHOW TABLES;")
    expect(console.page.locator(".panel")).to_have_count(1)
    console.page.reload()
    console.page.get_by_label("Earlier statements").select_option(label="SHOW TABLES;")
    expect(console.page.locator(".cm-content")).to_contain_text("SHOW TABLES;")


def test_settings_are_those_of_the_page(console: Shop) -> None:
    console.run(f"SET 'auto.offset.reset' = 'latest'; {EMIT}")
    expect(console.page.get_by_label("Where queries begin")).to_have_value("latest")
    expect(console.page.locator(".note")).to_contain_text("only records from now on are read")
    console.door.ksql("INSERT INTO orders VALUES ('eve', 'pie', 7.00, 4);")
    expect(console.page.locator(".panel tbody tr")).to_have_count(1)


def test_topics_are_printed(console: Shop) -> None:
    console.run("PRINT orders FROM BEGINNING LIMIT 2;")
    expect(console.page.locator("pre.lines")).to_contain_text("key: ann")


def test_many_rows_are_all_counted_and_few_are_drawn(console: Shop) -> None:
    console.run(EMIT)
    expect(console.page.locator(".panel tbody tr")).to_have_count(3)
    value = b'{"ITEM": "x", "AMOUNT": 1.00, "CODE": 1}'
    for _ in range(10):
        console.door.feed("orders", [value] * 1000)
    expect(console.page.locator(".note")).to_contain_text("10003 rows")
    expect(console.page.locator(".panel tbody tr")).to_have_count(200)


def test_html_in_values_and_errors_is_text(console: Shop) -> None:
    bad = "<img src=x onerror=alert(1)>"
    console.door.ksql(f"INSERT INTO orders VALUES ('{bad}', '<script>', 1, 1);")
    console.run(f"SELECT * FROM orders EMIT CHANGES; SELECT `{bad}` FROM orders;")
    expect(console.page.locator(".panel").last).to_contain_text(bad)
    expect(console.page.locator(".problem")).to_contain_text(bad)
    assert console.page.locator("main img, main script").count() == 0
    console.open("topics/orders")
    expect(console.page.locator("pre.lines")).to_contain_text(bad)
    assert console.page.locator("main img").count() == 0
    assert not [said for said in console.complaints if "alert" in said]
