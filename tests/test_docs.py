"""The documentation is correct: its examples run, its lists are complete, its links lead."""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import millstream
from millstream import History, Rows, Stream
from millstream.processors.store_kinds import (
    Lists,
    Sessions,
    TimestampedStore,
    Versions,
    Windows,
)
from millstream.processors.stores import Store
from millstream.scripts.text import split_text
from millstream_cli.main import main
from millstream_grammar.grammar import statement_names
from tests.docs import DOCS, FILES
from tests.docs_sql import examples, sections

ROOT = DOCS.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.rglob("*.md")])


def blocks(language: str) -> list[str]:
    """The code blocks of the README in one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


def test_the_first_example_runs(folder: Path) -> None:
    with millstream.connect() as db:
        db.execute(blocks("sql")[0])
        db.wait()
        assert list(db.execute("SELECT * FROM spending")) == []


def test_five_minutes(folder: Path) -> None:
    with millstream.connect("shop.db") as db:
        *_, _ = db.each(blocks("sql")[1])
        db.wait()
        last = db.execute(blocks("sql")[1].strip().splitlines()[-1])
        assert isinstance(last, Rows | History)
        assert list(last) == [("ann", 2, 19.5), ("bob", 1, 3.0)]
    (python,) = blocks("python")
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        exec(compile(python, "README.md", "exec"), names := {})
    assert sorted(out.getvalue().splitlines()) == ["ann 2 19.5", "bob 1 3.0"]
    assert list(names["frame"]["TOTAL"]) == [19.5]


def test_other_statements_of_the_readme(folder: Path) -> None:
    (folder / "orders.csv").write_text("customer,amount\ncleo,4.5\n")
    with millstream.connect(properties={"auto.offset.reset": "earliest"}) as db:
        db.execute(blocks("sql")[0])
        (copy,) = re.findall(r"`(COPY [^`]*)`", README)
        db.execute(copy)
        (push,) = re.findall(r'execute\("(SELECT [^"]*EMIT CHANGES)"\)', README)
        for row in db.execute(push):
            assert row == ("cleo", 1, 4.5)
            break
        query = blocks("sql")[0].partition("CREATE TABLE spending")[2]
        shown = db.execute(f"EXPLAIN (PROGRAM) CREATE TABLE other{query}")
        assert isinstance(shown, Rows | History) and "SELECT" in next(iter(shown))[1]


def test_the_test_of_the_documentation_passes(folder: Path) -> None:
    page = (DOCS / "testing.md").read_text(encoding="utf-8")
    (folder / "orders_test.sql").write_text(re.findall(r"```sql\n(.*?)```", page, re.DOTALL)[0])
    assert main(["test", "orders_test.sql"]) == 0


@pytest.mark.parametrize("name", FILES)
def test_made_pages_are_current(name: str) -> None:
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == FILES[name](), "run `make docs`"


def test_every_property_and_function_is_documented() -> None:
    with millstream.connect() as db:
        settings = (DOCS / "settings.md").read_text(encoding="utf-8")
        functions = (DOCS / "functions.md").read_text(encoding="utf-8")
        for row in db.execute("SHOW PROPERTIES;"):
            assert f"| `{row[0]}` |" in settings
        for row in db.execute("SHOW FUNCTIONS;"):
            assert f"### {row[0]}\n" in functions


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_make_targets_exist(page: Path) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if "://" not in link:
            assert (page.parent / link).exists(), link


def test_the_chains_of_the_documentation_run(folder: Path) -> None:
    page = (DOCS / "dsl.md").read_text(encoding="utf-8")
    code = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (statement,) = re.findall(r"```\n(SELECT.*?)```", page, re.DOTALL)
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        for block in code:
            exec(compile(block, "dsl.md", "exec"), names)
    with names["db"]:
        assert out.getvalue().startswith(statement + "[('ann', 2, 19.5)]\n(")
        chains = ("both", "towns", "hourly")
        explained = [names[chain].explain(stage="PLAN").fetchone()[1] for chain in chains]
        assert all(text.startswith("Deliver") for text in explained)
        assert names["by_id"].sql.startswith("SELECT *\nFROM MARKED")


def test_what_the_documentation_takes_out_of_python_runs(folder: Path) -> None:
    page = (DOCS / "data.md").read_text(encoding="utf-8")
    names: dict[str, Any] = {}
    out, read = io.StringIO(), 'polars.read_csv("orders.csv")'
    with contextlib.redirect_stdout(out):
        for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL):
            exec(compile(block.replace(read, "[{'amount': 1.0}]"), "data.md", "exec"), names)
    names["db"].close()
    *_, batch, subscribed, visits = out.getvalue().splitlines()
    assert int(batch) > 0 and len(ast.literal_eval(subscribed)) == 2
    assert visits == "['PAGE'] [('home',), ('help',)]"


def test_the_methods_of_chains_are_documented() -> None:
    page = (DOCS / "dsl.md").read_text(encoding="utf-8")
    kinds = (millstream.KStream, millstream.KTable, millstream.MergedKStream)
    grouped = (millstream.KGroupedStream, millstream.KGroupedTable, millstream.AggregatedKTable)
    for kind in (*kinds, *grouped, millstream.PullQuery, millstream.Expr):
        for name, member in inspect.getmembers(kind, inspect.isfunction):
            if not name.startswith("_"):
                assert re.search(rf"\b{name}\b", page), f"{kind.__name__}.{name}"
                assert member.__doc__


def test_the_processor_of_the_documentation_runs(folder: Path) -> None:
    page = (DOCS / "processors.md").read_text(encoding="utf-8")
    code, query, batches, waiting = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    printed = re.findall(r"```\n(\[.*?)```", page, re.DOTALL)
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        exec(compile(code, "processors.md", "exec"), names)
        exec(compile(query, "processors.md", "exec"), names)
    assert out.getvalue() == "".join(printed)
    exec(
        compile(f"import numpy as np\nimport pyarrow as pa\n{batches}", "processors.md", "exec"),
        names,
    )
    exec(compile(f"import httpx\n{waiting}", "processors.md", "exec"), names)
    with names["db"] as db:
        db.register(millstream.processor(names["Scored"]))
        db.register(millstream.processor(names["Located"]))
        db.execute("""
            CREATE STREAM payments (id BIGINT KEY, amount DOUBLE)
              WITH (KAFKA_TOPIC='payments', PARTITIONS=1, VALUE_FORMAT='JSON');
            CREATE STREAM scored AS SELECT * FROM PROCESS(payments, 'Scored');
        """)
        db.insert("payments", [(1, 0.0), (2, 1e9)])
        db.wait()
        assert list(db.execute("SELECT * FROM scored")) == [(1, 0.0), (2, 1.0)]


def test_the_topology_of_the_documentation_runs() -> None:
    page = (DOCS / "topologies.md").read_text(encoding="utf-8")
    code, functions = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (printed,) = re.findall(r"```\n(\[.*?)```", page, re.DOTALL)
    out = io.StringIO()
    names: dict[str, Any] = {}
    with contextlib.redirect_stdout(out):
        exec(compile(code, "topologies.md", "exec"), names)
    exec(compile(functions, "topologies.md", "exec"), names)
    with names["db"] as db:
        db.deploy(names["located"], "located")
        db.insert("pings", [("a", 90, "north"), ("b", 30, "south"), ("c", 60, "?")])
        db.wait()
        assert sorted(db.execute("SELECT id, partition, ROWTIME FROM regions"), key=str) == [
            ("a", 0, 90_000),
            ("b", 1, 30_000),
            ("c", None, 60_000),
        ]
    assert out.getvalue() == printed


def test_topologies_and_applications_are_documented() -> None:
    page = (DOCS / "topologies.md").read_text(encoding="utf-8")
    for kind in (millstream.Topology, millstream.Application):
        for name, _ in inspect.getmembers(kind):
            if not name.startswith("_") and name not in ("nodes", "stores"):
                assert re.search(rf"\b{name}\b", page), f"{kind.__name__}.{name}"


OF_THE_EXECUTOR = ("rows", "name", "changes", "expect", "discard", "mark", "undo", "purge")
"""What a store has for its caller, not for users."""


OTHER_STORES = (TimestampedStore, Windows, Sessions, Versions, Lists)


def test_what_processors_are_given_is_documented() -> None:
    page = (DOCS / "processors.md").read_text(encoding="utf-8")
    contexts = (millstream.ProcessorContext, millstream.BatchContext)
    classes = (millstream.Processor, millstream.BatchProcessor, millstream.Record)
    for kind in (*contexts, *classes, Store, *OTHER_STORES):
        for name, _ in inspect.getmembers(kind):
            if not name.startswith("_") and name not in OF_THE_EXECUTOR:
                assert re.search(rf"\b{name}\b", page), f"{kind.__name__}.{name}"


def test_every_code_of_an_error_is_explained() -> None:
    code = re.compile(r'"(E-[A-Z][A-Z0-9-]+)"')
    raised = {
        found
        for folder in ("engine", "parser", "server", "cli")
        for path in (ROOT / folder).rglob("*.py")
        for found in code.findall(path.read_text(encoding="utf-8"))
    }
    told = set(re.findall(r"`(E-[A-Z0-9-]+)`", (DOCS / "errors.md").read_text(encoding="utf-8")))
    assert told == raised


def test_every_statement_is_described_and_the_examples_run(folder: Path) -> None:
    assert set(sections()) == set(statement_names())
    with millstream.connect("shop.db") as db:
        db.execute(blocks("sql")[0])
        db.execute("INSERT INTO orders VALUES ('ann', 5);")
        db.wait()
        for example in examples():
            if example.startswith("PRINT"):
                db.wait()
            for result in db.each(example):
                if isinstance(result, Stream):
                    db.execute("INSERT INTO orders VALUES ('ann', 50);")
                    assert list(result), "it has a LIMIT"


COMMANDS = ("demo", "server", "start", "test", "migrations", "apply")
TUTORIALS = sorted([DOCS / "index.md", *(DOCS / "tutorials").glob("*.md")])


@pytest.mark.parametrize("page", TUTORIALS, ids=lambda page: page.stem)
def test_every_block_of_a_tutorial_runs(page: Path, folder: Path) -> None:
    """Those of SQL and Python, in the order of the page and over one database; in the end, no
    query has failed. What a tutorial does on Kafka is done here over a file."""
    found = re.findall(r"```(sql|python|sh)\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert found
    names: dict[str, Any] = {"__name__": "tutorial"}
    for language, text in found:
        if language == "sql":
            _run_statements(names, text)
        elif language == "python":
            _closed(names)
            exec(compile(text, str(page), "exec"), names)
        else:
            _check_commands(text)
    _closed(names)


def _run_statements(names: dict[str, Any], text: str) -> None:
    db = names.setdefault("_database", None) or millstream.connect("shop.db")
    names["_database"] = db
    db.wait()
    for statement in split_text(text):
        db.wait()
        result = db.execute(statement)
        if isinstance(result, Stream):
            assert "LIMIT" in statement, f"it would never end: {statement}"
            assert list(result)
        elif isinstance(result, Rows | History):
            assert list(result), f"it shows nothing: {statement}"
    db.wait()
    assert not [status for status in db.engine.statuses() if status.error]


def _closed(names: dict[str, Any]) -> None:
    db = names.pop("_database", None)
    if db is not None:
        db.close()


def _check_commands(text: str) -> None:
    """Its options are options of the command."""
    for line in text.splitlines():
        words = shlex.split(line, comments=True)
        if words[:1] == ["millstream"]:
            commands = [word for word in words[1:3] if word in COMMANDS]
            shown = io.StringIO()
            with contextlib.redirect_stdout(shown), pytest.raises(SystemExit):
                main([*commands, "--help"])
            for option in (word for word in words if word.startswith("--")):
                assert option in shown.getvalue(), line
