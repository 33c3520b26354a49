"""Some random schemas with each change; `make interchange` tries thousands."""

from __future__ import annotations

import pytest

from tests.clients.interchange import check_all
from tests.clients.java_libraries import JavaLibraries
from tests.clients.places import need


def test_what_others_write_and_read() -> None:
    need("java")
    with JavaLibraries() as java:
        check_all(java, schemas=60)


def test_what_java_does_not_read_is_an_error() -> None:
    need("java")
    with JavaLibraries() as java:
        assert java.avro('"int"', [b"\2"]) == [b"\2"]
        with pytest.raises(ValueError, match="behind the record"):
            java.avro('"int"', [b"\2\2"])
