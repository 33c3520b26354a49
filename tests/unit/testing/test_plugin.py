"""The plug-in for pytest, and the tests that the documentation and the examples show."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]
ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "test_spending.py"
OPTIONS = ("-p", "no:cacheprovider", "-p", "no:xdist", "-p", "no:timeout")


def test_it_is_published() -> None:
    (found,) = entry_points(group="pytest11", name="millstream")
    assert found.value == "pytest_millstream"


def test_nothing_is_imported_until_a_fixture_is_used() -> None:
    code = """
import sys, pytest
before = set(sys.modules)
import pytest_millstream
print(sorted(set(sys.modules) - before))
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout == "['pytest_millstream']\n"


def test_the_fixtures(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from millstream import StatementError

        SQL = "CREATE STREAM s (k STRING KEY, v INT) WITH (KAFKA_TOPIC='s', VALUE_FORMAT='JSON');"
        drivers, databases = [], []

        def test_drivers(ms_driver):
            first, second = ms_driver(SQL), ms_driver(SQL, start=5)
            first.pipe("s", {"v": 1})
            assert len(first.read("s")) == 1 and second.read("s") == []
            assert second.now_ms == 5
            drivers.extend([first, second])

        def test_a_failure_closes_them(ms_driver):
            drivers.append(ms_driver(SQL))
            assert False, "on purpose"

        def test_database(ms_db):
            ms_db.execute(SQL.replace("')", "', PARTITIONS=1)"))
            ms_db.execute("INSERT INTO s VALUES ('a', 1); CREATE STREAM t AS SELECT * FROM s;")
            ms_db.wait()
            assert list(ms_db.execute("SELECT v FROM t EMIT CHANGES LIMIT 1;")) == [(1,)]
            databases.append(ms_db)

        def test_another_database(ms_db):
            with pytest.raises(StatementError):
                ms_db.execute("DESCRIBE s;")

        def test_closed():
            assert len(drivers) == 3 and databases[0].engine.closed
            for driver in drivers:
                with pytest.raises(StatementError, match="is closed"):
                    driver.read("s")
        """
    )
    result = pytester.runpytest(*OPTIONS)
    result.assert_outcomes(passed=4, failed=1)
    result.stdout.fnmatch_lines(["*on purpose*"])


def test_the_example_passes(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(test_spending=EXAMPLE.read_text(encoding="utf-8"))
    result = pytester.runpytest(*OPTIONS)
    result.assert_outcomes(passed=EXAMPLE.read_text(encoding="utf-8").count("def test_"))


def test_the_tests_of_the_documentation_pass(pytester: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")
    blocks = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    pytester.makepyfile(test_page="\n\n".join(blocks))
    result = pytester.runpytest(*OPTIONS)
    result.assert_outcomes(passed=sum(block.count("def test_") for block in blocks))
    assert len(blocks) > 2
