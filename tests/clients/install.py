"""Install the clients: PyPI's each in a virtual environment, npm's by its lock file, Maven's beside
what uses them. Debian's
browser is for the whole machine, so it is installed only where clients are required."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from tests.clients.places import (
    CONSOLE,
    HERE,
    IN_PROCESS,
    INSTALLED,
    PYTHON_CLIENTS,
    REQUIRED,
    java_classes,
    missing,
    python_of,
)

CLIENTS = (*PYTHON_CLIENTS, "ksqldb-client", "java", "curl", "chromium", "axe-core")


def main() -> int:
    """Install what is missing. The status is 1 if a required client is missing."""
    for client, version in PYTHON_CLIENTS.items():
        if missing(client):
            _install_python(client, version)
    if missing("ksqldb-client") and shutil.which("npm"):
        _install_node()
    if missing("axe-core") and shutil.which("npm"):
        _runs(("npm", "ci", "--silent"), CONSOLE)
    if missing("java") and shutil.which("mvn") and shutil.which("javac"):
        _install_java()
    if missing("chromium") and REQUIRED and shutil.which("apt-get") and os.geteuid() == 0:
        _install_chromium()
    absent = {client: why for client in CLIENTS if (why := missing(client))}
    for client, why in absent.items():
        print(f"CLIENT {client} IS NOT TESTED: {why}", file=sys.stderr)
    return 1 if absent and REQUIRED else 0


def _install_python(client: str, version: str) -> None:
    folder = INSTALLED / client
    venv.create(folder, clear=True, with_pip=True)
    pip = (str(python_of(client)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    # The setup of `ksql` imports pip, which an isolated build does not have.
    commands = [
        (*pip, "setuptools", "wheel"),
        (*pip, "--no-build-isolation", f"{client}=={version}"),
    ]
    if client in IN_PROCESS:
        commands.append((*pip, IN_PROCESS[client], "--editable", str(INSTALLED.parent)))
    if all(_runs(command, folder) for command in commands):
        (folder / ".installed").touch()


def _install_node() -> None:
    folder = INSTALLED / "node"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json"):
        shutil.copy(HERE / "node" / name, folder / name)
    _runs(("npm", "ci", "--silent", "--no-audit", "--no-fund"), folder)


def _install_java() -> None:
    folder = java_classes()
    folder.mkdir(parents=True, exist_ok=True)
    pom = str(HERE / "java" / "pom.xml")
    copy = ("mvn", "--quiet", "--batch-mode", "--file", pom, "dependency:copy-dependencies")
    if _runs((*copy, f"-DoutputDirectory={folder / 'lib'}"), folder):
        source = str(HERE / "java" / "Interchange.java")
        _runs(("javac", "-cp", f"{folder / 'lib'}/*", "-d", str(folder), source), folder)


def _install_chromium() -> None:
    quiet = ("apt-get", "-qq")
    if _runs((*quiet, "update"), HERE):
        _runs((*quiet, "install", "--yes", "--no-install-recommends", "chromium"), HERE)


def _runs(command: tuple[str, ...], folder: Path) -> bool:
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    return subprocess.run(command, cwd=folder, env=environment, check=False).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
