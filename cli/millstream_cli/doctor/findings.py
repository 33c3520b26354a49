"""The examinations that need nothing but this machine."""

from __future__ import annotations

import datetime as dt
import importlib.metadata
import platform
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from millstream.formats.library import compiled_formats
from millstream.history.session import check_java
from millstream.model.errors import MillstreamError
from millstream.model.extras import install

PACKAGE = "millstream"
SHOWN = ("duckdb", "pyarrow", "sqlglot")
"""The libraries whose versions matter most in a report."""
EXTRAS = {
    "kafka": "records in a Kafka cluster, and schema registries",
    "server": "the HTTP server",
    "spark": "history and back-fill on Spark",
}
LEAST_FREE = 1 << 30
BUILT = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
"""No clock that is right is before this."""
_REQUIREMENT = re.compile(r"[A-Za-z0-9._-]+")
_EXTRA = re.compile(r"""extra\s*==\s*["']([^"']+)["']""")


class Health(Enum):
    """What an examination has found."""

    GOOD = "ok"
    ABSENT = "--"
    """Something that not everybody needs is not there."""
    BAD = "!!"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of an examination. `advice`: what to do about it; empty where nothing is to do."""

    subject: str
    health: Health
    text: str
    advice: str = ""


def of_this_machine(folder: Path) -> Iterator[Finding]:
    """All examinations of this machine. `folder`: where the database lies, or will."""
    yield _python()
    yield _libraries()
    for extra, purpose in EXTRAS.items():
        yield _extra(extra, purpose)
    yield _compiled_formats()
    if not missing("kafka"):
        yield _compiled_client()
    if not missing("spark"):
        yield _java()
    yield _disk(folder)
    yield _clock(dt.datetime.now(dt.UTC))


def required(extra: str | None) -> list[str]:
    """The names of the packages that an extra needs, or that everybody needs."""
    found = []
    for text in importlib.metadata.requires(PACKAGE) or ():
        name, marker = _REQUIREMENT.match(text), _EXTRA.search(text)
        if name is not None and (marker[1] if marker else None) == extra:
            found.append(name[0])
    return found


def missing(extra: str | None) -> list[str]:
    """Those of them that are not installed."""
    return [name for name in required(extra) if _version(name) is None]


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _python() -> Finding:
    text = f"{_version(PACKAGE)}, Python {platform.python_version()}, {platform.platform()}"
    return Finding("Millstream", Health.GOOD, f"{text} ({sys.executable})")


def _libraries() -> Finding:
    absent = missing(None)
    if absent:
        text = f"not installed: {', '.join(absent)}"
        return Finding("libraries", Health.BAD, text, "Install Millstream again, with pip.")
    shown = ", ".join(f"{name} {_version(name)}" for name in SHOWN)
    return Finding("libraries", Health.GOOD, shown)


def _extra(extra: str, purpose: str) -> Finding:
    absent = missing(extra)
    if absent:
        text = f"{purpose}: not installed ({', '.join(absent)})"
        return Finding(extra, Health.ABSENT, text, install(extra))
    versions = ", ".join(f"{name} {_version(name)}" for name in required(extra)[:2])
    return Finding(extra, Health.GOOD, f"{purpose}: {versions}")


def _compiled_formats() -> Finding:
    if compiled_formats() is not None:
        return Finding("compiled formats", Health.GOOD, "formats are read and written in C")
    return _not_compiled("compiled formats", "formats are read and written in Python, slower")


def _compiled_client() -> Finding:
    # Only where the client is installed at all.
    from millstream.log.kafka.backend import compiled_client

    if compiled_client() is not None:
        return Finding("compiled client", Health.GOOD, "records of Kafka come and go through C")
    return _not_compiled("compiled client", "records of Kafka come and go through Python, slower")


def _not_compiled(subject: str, text: str) -> Finding:
    advice = "Install Millstream again, for the reason that the build gives."
    if shutil.which("cc") is None and shutil.which("gcc") is None:
        advice = "Install a C compiler (apt-get install gcc), and then Millstream again."
    return Finding(subject, Health.ABSENT, text, advice)


def _java() -> Finding:
    try:
        check_java()
    except MillstreamError as error:
        return Finding("Java", Health.BAD, error.message, error.hint)
    return Finding("Java", Health.GOOD, "there is one that Spark can use")


def _disk(folder: Path) -> Finding:
    try:
        with tempfile.TemporaryFile(dir=folder) as file:
            file.write(b"x")
        free = shutil.disk_usage(folder).free
    except OSError as error:
        text = f"nothing can be written in {folder}: {error.strerror or error}"
        return Finding("disk", Health.BAD, text, "Choose another folder, or change its mode.")
    text = f"{free / 1e9:,.1f} GB are free in {folder}"
    if free < LEAST_FREE:
        advice = "Free some space: queries wait, and inserts fail, when there is none."
        return Finding("disk", Health.BAD, text, advice)
    return Finding("disk", Health.GOOD, text)


def _clock(now: dt.datetime) -> Finding:
    text = f"{now:%Y-%m-%d %H:%M:%S} UTC"
    if now < BUILT:
        advice = "Set the clock: records without a time of their own get this one."
        return Finding("clock", Health.BAD, text, advice)
    return Finding("clock", Health.GOOD, text)
