"""The command in a terminal, as a user sees it."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.shell.screen import (
    CTRL_C,
    CTRL_D,
    CTRL_R,
    ENTER,
    ESCAPE,
    TAB,
    UP,
    Screen,
)

pytest.importorskip("termios")
Start = Callable[..., Screen]
ORDERS = (
    "CREATE STREAM orders (customer STRING KEY, amount DOUBLE) "
    "WITH (KAFKA_TOPIC='orders', PARTITIONS=4, VALUE_FORMAT='JSON');"
)
COUNT = "SELECT sum(n) AS rows FROM (SELECT 1 AS n FROM orders) x;"
EARLIEST = "SET 'auto.offset.reset' = 'earliest';"


def fill(screen: Screen) -> None:
    screen.enter(EARLIEST)
    screen.enter(ORDERS)


def test_five_minutes_of_the_readme(start: Start) -> None:
    screen = start("--database", "shop.db")
    readme = Path(__file__).parents[2] / "README.md"
    script = readme.read_text().split("```sql\n")[2].split("```")[0]
    for line in script.splitlines():
        screen.enter(line) if line.endswith(";") else screen.line(line)
    text = screen.everything
    assert "Created query with ID CTAS_SPENDING" in text or "Table created" in text
    shown = [" ".join(line.split()) for line in text.splitlines()]
    assert "| ann | 2 | 19.5 |" in shown and "| bob | 1 | 3.0 |" in shown
    assert shown.index("| ann | 2 | 19.5 |") < shown.index("| bob | 1 | 3.0 |")
    screen.until(lambda s: "1 of 1 query running" in s.text and "lag 0" in s.text)
    screen.type(CTRL_D)
    assert screen.exit_code() == 0
    assert "Exiting Millstream." in screen.text


def test_completion_of_columns_functions_and_properties(start: Start) -> None:
    screen = start()
    fill(screen)
    screen.type("SELECT am")
    screen.until("DOUBLE of ORDERS")
    screen.type(ESCAPE + CTRL_C)
    screen.until("^C")
    screen.type("select sub")
    screen.until("(STRING, INTEGER) → STRING  +3")
    screen.type(TAB + "customer, 2) fro" + TAB)
    screen.until("substring(customer, 2) from")
    screen.type(" o")
    screen.until("stream (CUSTOMER, AMOUNT)")
    screen.enter(TAB + ";")
    assert "KSQL_COL_0" in screen.text
    screen.type("SET 'auto.off")
    screen.until("Where a new query starts")
    screen.type(CTRL_C + "outp")
    screen.until("show or set how results are printed")


def test_an_error_has_its_carets_and_a_hint(start: Start) -> None:
    screen = start()
    fill(screen)
    screen.line("SELECT cstomer, amount FROM orders;")
    screen.until("Did you mean CUSTOMER?")
    assert "SELECT cstomer, amount FROM orders;\n       ^^^^^^^\n" in screen.text
    screen.line("SELEC * FROM orders;")
    screen.until("Did you mean SELECT")
    assert "SELEC * FROM orders;\n^^^^^\n" in screen.text


def test_ctrl_c_ends_the_query_and_not_the_shell(start: Start) -> None:
    screen = start()
    fill(screen)
    screen.enter("INSERT INTO orders VALUES ('ann', 12.5);")
    screen.line("SELECT * FROM orders EMIT CHANGES;")
    screen.until("12.5 |")
    screen.until(lambda s: "1 row in " in s.text and "Ctrl-C ends" in s.text)
    screen.type(CTRL_C)
    screen.until("Query terminated")
    screen.until(lambda s: s.at_prompt)
    assert "Ctrl-C ends" not in screen.text
    screen.line("SELECT amount * 2 AS twice FROM orders;")
    screen.until("25.0 |")


def test_a_line_is_dropped_and_a_statement_has_many(start: Start) -> None:
    screen = start()
    screen.type("SELECT nonsense" + CTRL_C)
    screen.until("^C")
    for line in ("SHOW", "-- really;", "TYPES"):
        screen.line(line)
    screen.enter("\\G")
    screen.enter("CREATE TYPE price AS DECIMAL(8, 2);")
    screen.line("SHOW TYPES\\G")
    screen.until("Schema    | DECIMAL(8, 2)")


def test_history_is_kept_and_searched(start: Start) -> None:
    first = start()
    first.type("SHOW" + ENTER)
    first.enter("TYPES;")
    first.line("exit")
    assert first.exit_code() == 0
    second = start()
    second.type(UP + UP)
    second.until("          > TYPES;")
    second.type(CTRL_C)
    second.until(lambda s: s.at_prompt)
    second.type(CTRL_R + "types")
    second.until("I-search")
    second.until(lambda s: "TYPES;" in s.text.partition("^C")[2])
    second.type(ENTER)
    second.until(lambda s: "I-search" not in s.text)
    second.enter("")
    assert "Type Name" in second.text
    second.enter("history")
    assert "   0: SHOW" in second.text


def test_a_bar_while_a_file_is_loaded(start: Start, tmp_path: Path) -> None:
    rows = "\n".join(f"c{number % 5},{number}" for number in range(300_000))
    (tmp_path / "orders.csv").write_text(f"customer,amount\n{rows}\n")
    screen = start()
    fill(screen)
    screen.line("COPY orders FROM 'orders.csv';")
    screen.until(lambda s: "━" in s.text and "/300000" in s.text)
    screen.until("300000 rows copied into ORDERS")
    assert "━" not in screen.text, "the bar goes when it has done its work"
    screen.line(
        "CREATE TABLE spending AS SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer;"
    )
    screen.until("Created query")
    screen.line("wait")
    screen.until("Up to date.")
    screen.line("SELECT * FROM spending;")
    screen.until("60000")


def test_spool(start: Start, tmp_path: Path) -> None:
    screen = start()
    screen.line("spool 'session.log';")
    screen.until("spooled to")
    fill(screen)
    screen.line("INSERT INTO orders VALUES ('ann', 12.5);")
    screen.line(
        "SELECT customer, COUNT(*) AS n FROM orders GROUP BY customer EMIT CHANGES LIMIT 1;"
    )
    screen.until("Limit Reached")
    screen.line("SELECT oops FROM orders;")
    screen.until("OOPS")
    screen.line("SPOOL OFF;")
    screen.line("SHOW TYPES;")
    screen.until("Type Name")
    text = (tmp_path / "session.log").read_text()
    assert f"millstream> {ORDERS}\nStream created\n" in text
    assert "| ann      | 1 |\n" in text and "'OOPS' cannot be resolved" in text
    assert "\x1b" not in text and "Type Name" not in text and "Ctrl-C ends" not in text
    assert text.count("| ann") == 1, "what is seen for a moment only is not kept"


def test_long_answers_go_to_the_pager(start: Start, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\nwc -l | sed 's/ *$/ lines in the pager/'\n")
    pager.chmod(0o755)
    screen = start(environment={"PAGER": str(pager)})
    screen.line("SHOW FUNCTIONS;")
    screen.until("lines in the pager")
    screen.line("set cli pager off")
    screen.line("SHOW FUNCTIONS;")
    screen.until(lambda s: "| UUID" in s.everything)


def test_ctrl_c_in_the_pager_is_left_to_it(start: Start, tmp_path: Path) -> None:
    pager = tmp_path / "pager"
    pager.write_text(
        "#!/bin/sh\ncat > /dev/null\ntrap 'echo back; exit' INT\necho shown\nread key < /dev/tty\n"
    )
    pager.chmod(0o755)
    screen = start(environment={"PAGER": str(pager)})
    screen.line("SHOW FUNCTIONS;")
    screen.until("shown")
    screen.type(CTRL_C)
    screen.until(lambda s: s.at_prompt)
    assert "back" in screen.text and "Query terminated" not in screen.text


def test_narrow_terminals(start: Start) -> None:
    screen = start(columns=44, environment={"PAGER": ""})
    fill(screen)
    screen.enter(f"INSERT INTO orders VALUES ('{'x' * 60}', 1);")
    text = screen.enter("SELECT * FROM orders;")
    lines = [line for line in text.splitlines() if line.startswith(("|", "+"))]
    assert len({len(line) for line in lines}) == 1 and len(lines[0]) <= 44, "as wide as each other"
    screen.enter("SHOW STREAMS EXTENDED;")
    found = re.search(r"\| ORDERS +\| Timestamp +\|", screen.everything)
    assert found, "broken between words"


def test_ctrl_c_while_a_file_is_loaded(start: Start, tmp_path: Path) -> None:
    rows = "\n".join(f"c{number % 5},{number}" for number in range(1_000_000))
    (tmp_path / "orders.csv").write_text(f"customer,amount\n{rows}\n")
    screen = start("--database", "shop.db")
    fill(screen)
    screen.line("COPY orders FROM 'orders.csv';")
    screen.until("/1000000")
    screen.type(CTRL_C)
    screen.until("Query terminated")
    screen.until(lambda s: s.at_prompt)
    loaded = int(re.findall(r"\| +(\d+) \|", screen.enter(COUNT))[-1])
    assert 0 < loaded < 1_000_000 and loaded % 50_000 == 0, "whole batches"
    screen.enter("INSERT INTO orders VALUES ('ann', 1);")
    assert "1 row inserted" in screen.text
    screen.line("exit")
    assert screen.exit_code() == 0
