"""The first JSON value of a payload is the one that Jackson finds, whatever follows it.

ksqlDB reads JSON with Jackson's `readTree`; Spark brings Jackson along, so the rule can be tested
directly.
"""

from __future__ import annotations

import decimal
import json
import os
import random
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from millstream.formats.json_rows import parse_json
from millstream.history.session import available
from millstream.model.errors import RecordError
from tests.unit.formats.json_pieces import ENCODINGS, FIRSTS, MARKS, RESTS

if not available() and not os.environ.get("MILLSTREAM_REQUIRE_SPARK"):
    pytest.skip("Jackson comes with PySpark: see docs/history.md", allow_module_level=True)

PROGRAM = Path(__file__).with_name("ReadTree.java")
PAYLOADS = 30_000
BAD = "bad"


@pytest.mark.parametrize(
    "behind", [0xAD, 0x80, 0x200B, 0x20AC, 0x203F, 0x660, 0x2190, 0xB7, 0xFEFF]
)
def test_what_continues_a_word_is_what_java_has_in_its_names(behind: int) -> None:
    given = [f"true{chr(behind)}".encode(encoding) for encoding in ("utf-8", "utf-16-le")]
    assert [ours(payload) for payload in given] == jackson(given)


def test_the_first_value_is_the_one_that_jackson_finds() -> None:
    given = [payload for payload in payloads(random.Random(7)) if not overlong(payload)]
    wanted = jackson(given)
    differing = [
        (payload, found, expected)
        for payload, expected in zip(given, wanted, strict=True)
        if (found := ours(payload)) != expected
    ]
    assert differing == []
    assert 0.2 < sum(value == BAD for value in wanted) / len(wanted) < 0.9


def payloads(draw: random.Random) -> Iterator[bytes]:
    """Each a value, or nearly so, with anything before and behind it; some with a byte changed."""
    for _ in range(PAYLOADS):
        pieces = [draw.choice(RESTS + FIRSTS) for _ in range(draw.randrange(4))]
        made = bytearray(draw.choice(MARKS) + draw.choice(FIRSTS) + b"".join(pieces))
        if made and draw.random() < 0.3:
            made[draw.randrange(len(made))] = draw.randrange(256)
        try:
            yield made.decode().encode(draw.choice(ENCODINGS))
        except UnicodeDecodeError:
            yield bytes(made)


def overlong(payload: bytes) -> bool:
    """Whether it has the head of a character in more bytes than it needs. Jackson decodes these,
    which UTF-8 forbids; here they are no text (docs/limits.md)."""
    return b"\xc0" in payload or b"\xc1" in payload


def jackson(given: list[bytes]) -> list[str]:
    """What Jackson finds, each as `written`, or BAD."""
    package = find_spec("pyspark")
    assert package is not None and package.origin is not None
    jars = Path(package.origin).with_name("jars")
    command = ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", str(PROGRAM)]
    lines = "".join(f"{payload.hex()}\n" for payload in given)
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=True)
    found = done.stdout.splitlines()
    return [text if text == BAD else written(decoded(text)) for text in found]


def ours(payload: bytes) -> str:
    try:
        return written(parse_json(payload))
    except RecordError:
        return BAD


def decoded(text: str) -> Any:
    return json.loads(text, parse_float=decimal.Decimal)


def written(value: Any) -> str:
    """One text for one value: 1.50, 1.5 and 15e-1 are the same number."""
    match value:
        case bool():
            return str(value)
        case int() | decimal.Decimal():
            return str(decimal.Decimal(value).normalize() + 0)
        case dict():
            return "{" + ",".join(f"{key!r}:{written(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(written, value)) + "]"
        case _:
            return f"{type(value).__name__} {value!r}"
