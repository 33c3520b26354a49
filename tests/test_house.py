"""The rules of the house, checked by reading the source: arrows, homes, names, sizes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = {
    "millstream_grammar": ROOT / "grammar" / "millstream_grammar",
    "millstream_parser": ROOT / "parser" / "millstream_parser",
    "millstream": ROOT / "engine" / "millstream",
    "pyspark_millstream": ROOT / "engine" / "pyspark_millstream",
    "pytest_millstream": ROOT / "engine" / "pytest_millstream",
    "millstream_server": ROOT / "server" / "millstream_server",
    "millstream_cli": ROOT / "cli" / "millstream_cli",
}
LANGUAGE = {"millstream_grammar", "millstream_parser"}
VOCABULARY = {"model"}
MAY_SEE: dict[str, set[str]] = {
    "millstream_grammar": set(),
    "millstream_parser": {"millstream_grammar"},
    "model": LANGUAGE,
    "functions": LANGUAGE | VOCABULARY,
    "catalog": LANGUAGE | VOCABULARY,
    "plan": LANGUAGE | VOCABULARY | {"functions", "catalog"},
    "processors": LANGUAGE | VOCABULARY | {"functions", "plan"},
    "topology": LANGUAGE | VOCABULARY | {"functions", "catalog", "plan"},
    "operators": LANGUAGE | VOCABULARY | {"functions", "catalog", "plan", "topology"},
    "formats": VOCABULARY | {"catalog"},
    "log": VOCABULARY,
    "schemas": VOCABULARY | {"catalog", "formats", "log"},
    "state": VOCABULARY | {"operators"},
    "runtime": VOCABULARY | {"log"},
    "executor": VOCABULARY
    | {"functions", "catalog", "plan", "topology", "operators", "formats", "log", "state"}
    | {"runtime", "processors"},
    "ddl": LANGUAGE
    | VOCABULARY
    | {"functions", "catalog", "plan", "topology", "operators", "formats", "log"},
    "scripts": LANGUAGE | VOCABULARY,
    "places": VOCABULARY,
    "checkpoints": VOCABULARY | {"operators", "log", "state", "executor", "places"},
    "scheduler": VOCABULARY
    | {"functions", "topology", "operators", "log", "state", "runtime", "executor", "checkpoints"},
    "queries": LANGUAGE
    | VOCABULARY
    | {"functions", "catalog", "plan", "topology", "operators", "log", "state", "runtime"}
    | {"executor", "ddl", "history", "scheduler"},
    "command_topic": LANGUAGE
    | VOCABULARY
    | {"catalog", "log", "ddl", "scripts", "scheduler", "queries"},
    "backup": VOCABULARY | {"operators", "log", "state", "executor", "places", "command_topic"},
    "cluster": LANGUAGE
    | VOCABULARY
    | {"functions", "catalog", "plan", "topology", "operators", "formats", "log", "state"}
    | {"runtime", "executor", "scheduler", "queries", "query"},
    "historical": LANGUAGE
    | VOCABULARY
    | {"functions", "catalog", "plan", "topology", "operators", "formats", "log", "ddl", "scripts"}
    | {"history", "query", "queries", "cluster"},
    "push": LANGUAGE
    | VOCABULARY
    | {"catalog", "plan", "topology", "formats", "log", "runtime", "scheduler", "query"}
    | {"queries", "cluster"},
    "connectors": VOCABULARY | {"log"},
    "metrics": VOCABULARY | {"runtime", "queries", "historical", "push"},
    "statements": LANGUAGE
    | VOCABULARY
    | {"functions", "catalog", "plan", "topology", "operators", "formats", "log", "executor", "ddl"}
    | {"scripts", "query", "queries", "cluster", "historical", "push", "metrics", "processors"}
    | {"connectors"},
    "dsl": LANGUAGE | VOCABULARY | {"functions", "catalog", "query"},
    "applications": LANGUAGE | VOCABULARY | {"functions", "catalog", "processors"},
}
"""Rooms and what they may import (besides themselves); a room that is not listed sees all above."""
FRONT = {"service", "remote", "dbapi", "pipeline", "testing", "millstream_server", "millstream_cli"}
TOP = {"historical", "push", "metrics", "statements", *FRONT}
ABOVE = {
    "query": {"queries", "command_topic", "cluster", *TOP},
    "history": {"scheduler", "query", "queries", "command_topic", "cluster", *TOP},
    "service": FRONT - {"service"},
    "remote": FRONT - {"service", "remote"},
    "dbapi": FRONT - {"service", "dbapi"},
    "pipeline": {"testing", "millstream_server", "millstream_cli"},
    "testing": {"pipeline", "millstream_server", "millstream_cli"},
    "pytest_millstream": {"pipeline", "millstream_server", "millstream_cli"},
    "pyspark_millstream": {"scheduler", "queries", "command_topic", "cluster", *TOP},
    "millstream_server": {"testing", "millstream_cli"},
    "millstream_cli": set(),
}
"""What the upper rooms may not import."""
HOMES: dict[str, set[str]] = {
    "sqlglot": {
        *("millstream_parser", "plan", "operators", "query", "dsl", "applications"),
        "millstream_server",
    },
    "confluent_kafka": {"log", "schemas"},
    "httpx2": {"schemas"},
    "msgpack": {"formats"},
    "proto_schema_parser": {"formats"},
    "antlr4": {"formats"},
    "avro": {"schemas"},
    "pyspark": {"history"},
    "prompt_toolkit": {"millstream_cli"},
    "starlette": {"millstream_server"},
    "hypercorn": {"millstream_server"},
    "uvicorn": {"millstream_server"},
    "rich": {"millstream_cli"},
    "httpx": {"remote", "connectors"},
    "duckdb": {
        "operators",
        "formats",
        "state",
        "executor",
        "log",
        "query",
        "historical",
        "statements",
        "service",
        "functions",
        "cluster",
        "checkpoints",
        "backup",
        "scheduler",
        "millstream_server",
    },
    "threading": {
        *("log", "service", "executor", "state", "query", "history", "scheduler"),
        *("command_topic", "cluster", "queries", "historical", "push", "metrics", "statements"),
        *("pipeline", "remote", "schemas", "connectors"),
        *("millstream_cli", "millstream_server"),
    },
    "jwt": {"millstream_server"},
    "pytest": {"pytest_millstream"},
    "google": {"millstream_server"},
    "prometheus_client": {"metrics"},
    "IPython": {"query"},
}
"""The rooms in which a library may be imported."""
PURE = {"runtime": {"threading", "time", "random", "os", "socket", "asyncio", "uuid", "datetime"}}
"""Modules a room may never import: the runtime has no clock, thread, chance or I/O of its own."""
BANNED_SUFFIXES = (
    "Manager",
    "Handler",
    "Helper",
    "Util",
    "Utils",
    "Factory",
    "Builder",
    "Impl",
    "Base",
    "Info",
    "Data",
)
STANDARD = {"HostInfo"}
"""Names of Kafka Streams that end like banned ones."""
LINES_MAX = 480
TAKING_THE_ENGINE_MAX = 13
"""How many functions may take the whole engine (docs/adr/0025-parts-of-the-engine.md): those that
execute statements of any kind."""
FUNCTION_LINES_MAX = 70


def modules() -> list[tuple[str, Path]]:
    """Every module of the product with the name of its room."""
    found = []
    for package, folder in PACKAGES.items():
        for path in sorted(folder.rglob("*.py")):
            inside = path.relative_to(folder).parts
            room = inside[0] if package == "millstream" and len(inside) > 1 else package
            found.append((room, path))
    return found


def imported(path: Path) -> Iterator[str]:
    """The dotted names a module imports."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            yield node.module


def room_of(name: str) -> str | None:
    """The room an import leads to, None for other people's packages."""
    parts = name.split(".")
    if parts[0] == "millstream":
        return parts[1] if len(parts) > 1 else "millstream"
    return parts[0] if parts[0] in PACKAGES else None


MODULES = modules()
IDS = [str(path.relative_to(ROOT)) for _, path in MODULES]


@pytest.mark.parametrize(("room", "path"), MODULES, ids=IDS)
def test_arrows_go_down_only(room: str, path: Path) -> None:
    for name in imported(path):
        target = room_of(name)
        if target is None or target == room:
            continue
        if room in MAY_SEE:
            assert target in MAY_SEE[room], f"{room} may not import {name}"
        else:
            assert target not in ABOVE.get(room, set()), f"{room} may not import {name}"


def dotted(path: Path) -> str:
    """The name by which a module is imported."""
    for package, folder in PACKAGES.items():
        if path.is_relative_to(folder):
            inside = path.relative_to(folder).with_suffix("").parts
            return ".".join((package, *inside)).removesuffix(".__init__")
    raise AssertionError(path)


def dependencies(path: Path, known: set[str]) -> set[str]:
    """The modules of the product that a module imports, as a whole or names of them."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            modules = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= modules or ({node.module} & known)
    return found


def test_no_modules_import_each_other_in_a_circle() -> None:
    """Imports for types alone count, too."""
    paths = {dotted(path): path for _, path in MODULES}
    graph = {name: dependencies(path, set(paths)) for name, path in paths.items()}
    assert sum(map(len, graph.values())) > len(graph), "imports were found"
    TopologicalSorter(graph).prepare()


@pytest.mark.parametrize(("room", "path"), MODULES, ids=IDS)
def test_libraries_stay_at_home(room: str, path: Path) -> None:
    for name in imported(path):
        library = name.split(".")[0]
        assert room in HOMES.get(library, {room}), f"{library} has no home in {room}"
        assert library not in PURE.get(room, set()), f"{room} must stay pure, not import {library}"


@pytest.mark.parametrize(("room", "path"), MODULES, ids=IDS)
def test_names_and_sizes(room: str, path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= LINES_MAX, "split this file"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ClassDef):
            banned = node.name.endswith(BANNED_SUFFIXES) and node.name not in STANDARD
            assert not banned, node.name
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            assert length <= FUNCTION_LINES_MAX, f"{node.name} has {length} lines"


SQL_ROOMS = {"operators", "executor", "query", "history"}
EDITS = {"subn", "expandtabs", "translate", "indent", "dedent"}
DECODES = {"operators/sql.py": 1, "query/keyed.py": 1, "operators/accumulators.py": 1}
"""Files that halve the quotes of one name or literal, or fill a template once, and how often."""


@pytest.mark.parametrize("path", [p for room, p in MODULES if room in SQL_ROOMS])
def test_text_of_programs_is_joined_and_never_edited(path: Path) -> None:
    """Text of a program holds the literals of users: to replace or indent in it changes them."""
    found = 0
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            assert node.func.attr not in EDITS, f"line {node.lineno} edits text"
            found += node.func.attr in ("replace", "sub") and len(node.args) > 1
        assert not (isinstance(node, ast.Import) and node.names[0].name == "textwrap")
    assert found <= DECODES.get("/".join(path.parts[-2:]), 0), "replaces within a text"


def test_every_room_is_known() -> None:
    rooms = {room for room, _ in MODULES}
    assert rooms <= set(MAY_SEE) | set(ABOVE) | {"millstream"}, rooms


def test_few_functions_take_the_whole_engine() -> None:
    taking = [
        f"{path.name} {node.name}"
        for room, path in MODULES
        if path.is_relative_to(PACKAGES["millstream"])
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
        if argument.annotation is not None and ast.unparse(argument.annotation) == "Engine"
    ]
    assert len(taking) == TAKING_THE_ENGINE_MAX, "say the new number"
