"""One table of formats decides everywhere (catalog/formats.py)."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import duckdb
import pyarrow as pa
import pytest

from millstream.catalog.formats import (
    ANY_COLUMNS,
    CAPABILITIES,
    DEFAULT_KEY,
    INFERRING,
    NO_COLUMNS,
    ONE_COLUMN,
    USABLE,
    internal_format,
)
from millstream.catalog.properties import DEFAULT_KEY_FORMAT, known_format
from millstream.formats.codec import read_payload, write_payload
from millstream.formats.payload import Layout, Subject
from millstream.formats.validate import supports_type
from millstream.log.embedded import EmbeddedLog
from millstream.model.errors import StatementError
from millstream.model.properties import PROPERTIES
from millstream.model.schema import Column
from millstream.model.types import BIGINT, STRING, Array
from millstream.schemas.embedded import EmbeddedRegistry
from millstream_cli.prompt.completion import FORMATS
from tests.docs import formats

ROOT = Path(__file__).resolve().parents[3]
NAME = re.compile(rf"\b({'|'.join(sorted(CAPABILITIES, key=len, reverse=True))})\b")
MAY_NAME = {
    "engine/millstream/catalog/formats.py": "the table",
    "engine/millstream/connectors/datagen.py": "what converters of Kafka Connect write",
    "engine/millstream/formats/codec.py": "calls the code of each format",
    "engine/millstream/formats/schema_formats.py": "what formats of the registry do with schemas",
    "engine/millstream/operators/foreign_key.py": "orders keys as the bytes of each format do",
    "engine/millstream/schemas/compatibility.py": "kinds of schemas",
    "engine/millstream/model/schema_text.py": "the kind of a schema that the API leaves out",
    "engine/millstream/model/properties.py": "the default of a property",
    "engine/millstream/model/other_dialects.py": "a type of other databases",
    "engine/millstream/statements/local_file.py": "kinds of files",
    "engine/millstream/push/printing.py": "kinds of text that PRINT guesses",
    "engine/millstream/functions/scalar/json_functions.py": "a category of functions",
    "server/millstream_server/openapi.py": "kinds of schemas, and a level of compatibility",
    "server/millstream_server/registry/formatted.py": "kinds of schemas",
    "server/millstream_server/bootstrap/boot.py": "client certificates",
    "server/millstream_server/bootstrap/startup.py": "client certificates",
    "server/millstream_server/bootstrap/options.py": "authentication and client certificates",
    "cli/millstream_cli/screen/show.py": "forms of output",
    "cli/millstream_cli/prompt/copying.py": "kinds of files",
    "cli/millstream_cli/testing/wire.py": "writes and reads the notation of JSON test files",
}


def literals(path: Path) -> Iterator[tuple[int, str]]:
    """The strings of a file that run; docstrings do not."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    prose = {
        id(node.value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in prose:
            yield node.lineno, node.value


def naming(text: str) -> bool:
    """Whether a string is the name of a format, or lists several."""
    found = set(NAME.findall(text))
    return text in CAPABILITIES or len(found) > 1 or bool(found - {"JSON", "KAFKA", "NONE"})


def test_nothing_else_names_formats() -> None:
    found = {
        f"{path.relative_to(ROOT)}:{line}: {text!r}"
        for room in ("engine", "server", "cli", "parser", "grammar")
        for path in (ROOT / room).rglob("*.py")
        if str(path.relative_to(ROOT)) not in MAY_NAME
        for line, text in literals(path)
        if naming(text)
    }
    assert found == set()


@pytest.mark.parametrize("path", MAY_NAME)
def test_each_exception_is_needed(path: str) -> None:
    assert any(naming(text) for _, text in literals(ROOT / path))


@pytest.mark.parametrize("name", CAPABILITIES)
def test_the_code_reads_and_writes_what_the_table_says_is_usable(name: str) -> None:
    con, nothing = duckdb.connect(), pa.array([None], pa.binary())
    layout = Layout((Column("A", STRING),), (0,))
    if name in INFERRING:
        subject = Subject(registry(), "t-value", "S", is_key=False)
        layout = replace(layout, subject=subject)
    assert read_payload(con, nothing, layout, name).columns[0].to_pylist() == [None]
    written = write_payload(con, [pa.array(["x"])], layout, name, 1).payload
    assert len(written) == 1
    if name in INFERRING:
        assert read_payload(con, written, layout, name).columns[0].to_pylist() == ["x"]


def registry() -> EmbeddedRegistry:
    return EmbeddedRegistry(EmbeddedLog.open(":memory:"), "schemas", lambda: 0)


def test_an_unknown_format_is_answered_with_the_usable_ones() -> None:
    """shared/reference, types-and-formats: names are folded to upper case."""
    assert [known_format(name.lower()) for name in CAPABILITIES] == list(CAPABILITIES)
    with pytest.raises(StatementError) as caught:
        known_format("foo")
    assert str(caught.value) == (
        "Unknown format: FOO\nThe formats are AVRO, DELIMITED, JSON, JSON_SR, KAFKA, MSGPACK, NONE,"
        " PROTOBUF, PROTOBUF_NOSR."
    )


def test_completion_and_documentation_have_the_usable_ones() -> None:
    assert tuple(f"'{name}'" for name in USABLE) == FORMATS
    assert [name for name in CAPABILITIES if f"\n| {name} |" in formats()] == list(CAPABILITIES)


def test_formats_that_the_engine_chooses() -> None:
    (default,) = (item.default for item in PROPERTIES if item.name == DEFAULT_KEY_FORMAT)
    assert default == DEFAULT_KEY
    assert {ONE_COLUMN.name, ANY_COLUMNS.name, NO_COLUMNS.name, DEFAULT_KEY} <= set(USABLE)
    assert set(USABLE) > INFERRING
    assert not CAPABILITIES[NO_COLUMNS.name].keys
    for types in [(STRING,), (BIGINT,), (Array(STRING),), (STRING, STRING)]:
        chosen = internal_format(types)
        assert all(supports_type(chosen.name, kind) for kind in types)
        assert len(types) == 1 or CAPABILITIES[chosen.name].many_columns
