"""Where the clients are installed: each in a folder of its own that git does not see."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

HERE = Path(__file__).parent
INSTALLED = HERE.parents[1] / ".clients"
PYTHON_CLIENTS = {
    "ksql": "0.10.2",
    "ksqldb": "1.0.1",
    "schemathesis": "4.32.5",
    "jupysql": "0.11.1",
}
CONSOLE = HERE.parents[1] / "server" / "console"
AXE = CONSOLE / "node_modules" / "axe-core" / "axe.min.js"
"""Checks that everybody can use a page; among what the console is built with."""
IN_PROCESS = {"jupysql": "ipython==9.18.1"}
"""Those that run in one process with Millstream, which is installed there, and a shell for them."""
REQUIRED = bool(os.environ.get("MILLSTREAM_REQUIRE_CLIENTS"))
"""Whether a client that is missing is an error; else its tests are skipped."""


def python_of(client: str) -> Path:
    """The interpreter that has a client from PyPI."""
    return INSTALLED / client / "bin" / "python"


def node_modules() -> Path:
    """The folder with the client from npm."""
    return INSTALLED / "node" / "node_modules"


def java_classes() -> Path:
    """The folder with what uses the libraries from Maven Central, which are in `lib`."""
    return INSTALLED / "java"


def browser() -> str | None:
    """The browser of the tests."""
    return shutil.which("chromium") or shutil.which("chromium-browser")


def missing(client: str) -> str:
    """Why a client cannot be used, or ""."""
    if client == "axe-core":
        return "" if AXE.exists() else "make clients did not install it"
    if client == "chromium":
        return "" if browser() else "there is no chromium"
    if client == "curl":
        return "" if shutil.which("curl") else "there is no curl"
    if client == "ksqldb-client":
        if not shutil.which("node"):
            return "there is no node"
        return "" if (node_modules() / client).is_dir() else "make clients did not install it"
    if client == "java":
        if not shutil.which("java"):
            return "there is no java"
        found = (java_classes() / "Interchange.class").exists()
        return "" if found else "make clients did not install it"
    return "" if (INSTALLED / client / ".installed").exists() else "make clients did not install it"


def need(client: str) -> None:
    """Skip the test of a client that is not there, or fail it where it must be."""
    why = missing(client)
    if why and REQUIRED:
        pytest.fail(f"{client}: {why}")
    if why:
        pytest.skip(f"{client}: {why}")
