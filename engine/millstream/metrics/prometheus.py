"""Formats the metrics of an engine for Prometheus (text format 0.0.4)."""

from __future__ import annotations

from collections.abc import Iterator

from millstream.metrics.families import FAMILIES
from millstream.metrics.family import Family, Labels, Number
from millstream.metrics.figures import EngineMetrics

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
"""The value of the Content-Type header."""


def exposition(metrics: EngineMetrics) -> str:
    """The result of `Database.metrics()` in Prometheus' text format; docs/metrics.md lists the
    metrics."""
    return "".join(f"{line}\n" for family in FAMILIES for line in _lines(family, metrics))


def _lines(family: Family, metrics: EngineMetrics) -> Iterator[str]:
    yield f"# HELP {family.name} {_escaped(family.meaning)}"
    yield f"# TYPE {family.name} {family.kind}"
    for suffix, labels, value in family.points(metrics):
        if value is not None:
            yield f"{family.name}{suffix}{_braces(labels)} {_number(value)}"


def _braces(labels: Labels) -> str:
    inner = ",".join(f'{name}="{_quoted(value)}"' for name, value in labels)
    return f"{{{inner}}}" if inner else ""


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(text: str) -> str:
    return _escaped(text).replace('"', r"\"")


def _number(value: Number) -> str:
    """A number as text; integral values without a decimal point."""
    return str(int(value)) if value == int(value) else repr(float(value))
