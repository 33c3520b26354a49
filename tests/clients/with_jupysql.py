"""A notebook with JupySQL over `millstream.dbapi`; prints its observations as JSON."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from millstream import dbapi

CREATED = """\
%%sql
CREATE STREAM orders (customer STRING KEY, amount INT)
  WITH (KAFKA_TOPIC='orders', PARTITIONS=1, VALUE_FORMAT='JSON');
CREATE TABLE spending AS
  SELECT customer, SUM(amount) AS total FROM orders GROUP BY customer EMIT CHANGES;
"""


def rows(cell: Any) -> list[list[Any]]:
    """The rows of a cell's result."""
    assert cell.success, cell.error_in_exec
    return [list(row) for row in cell.result]


def main() -> None:
    """Run the cells."""
    shell: Any = InteractiveShell.instance()
    with contextlib.redirect_stdout(io.StringIO()):
        connection = shell.user_ns["connection"] = dbapi.connect()
        shell.run_line_magic("load_ext", "sql")
        shell.run_line_magic("config", "SqlMagic.short_errors = False")
        shell.run_line_magic("sql", "connection --alias millstream")
        assert shell.run_cell(CREATED).success
        shell.run_cell("%sql INSERT INTO orders VALUES ('ann', 5), ('bob', 7), ('ann', 1);")
        connection.database.wait()
        listed = rows(shell.run_cell("%sql SELECT * FROM spending ORDER BY customer"))
        shell.user_ns["who"] = "ann"
        named = rows(shell.run_cell("%sql SELECT total FROM spending WHERE customer = '{{who}}'"))
        kept = shell.run_cell("result = %sql SHOW STREAMS\n[row[0] for row in result]")
        wrong = shell.run_cell("%sql SELEC nothing")
    error = wrong.error_in_exec
    print(
        json.dumps(
            {
                "listed": listed,
                "named": named,
                "streams": kept.result,
                "wrong": [type(error).__name__, "Did you mean SELECT?" in str(error)],
            }
        )
    )
    connection.close()


if __name__ == "__main__":
    main()
