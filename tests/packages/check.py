"""Install what `make wheels` has built, as users do, and use it: python -m tests.packages.check.

Every wheel that this machine can use, and the sdist without a compiler, in a new environment of
each Python that is here. Exit status 1 if one fails.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.packages.wheels import ROOT

VERSIONS = ("3.11", "3.12", "3.13", "3.14")
USE = """
import millstream
from importlib.resources import files
compiled = files("millstream.formats").joinpath("libmillstream_formats.so").is_file()
with millstream.connect() as db:
    db.execute(
        "CREATE STREAM s (k STRING KEY, v INT) WITH (kafka_topic='s', partitions=1, format='JSON');"
        "CREATE TABLE t AS SELECT k, SUM(v) AS v FROM s GROUP BY k;"
    )
    db.insert("s", [{"k": "a", "v": 1}, {"k": "a", "v": 2}])
    db.wait()
    assert [tuple(row) for row in db.execute("SELECT k, v FROM t;")] == [("a", 3)]
print("compiled" if compiled else "plain")
"""


def main() -> int:
    """Check all; what cannot be checked here is said."""
    parser = argparse.ArgumentParser(prog="tests.packages.check")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    dist: Path = parser.parse_args().dist.resolve()
    failed = 0
    for version in VERSIONS:
        python = _python(version)
        if python is None:
            print(f"Python {version} is not here: NOT CHECKED")
            continue
        for package in sorted(dist.iterdir()):
            if package.suffix == ".whl" and not _runs_here(package.name):
                continue
            expected = "compiled" if "manylinux" in package.name else "plain"
            told = _used(python, package)
            failed += told != expected
            print(f"Python {version}  {package.name}: {told}")
    return 1 if failed else 0


def _python(version: str) -> str | None:
    """An interpreter of a version that can be started."""
    found = shutil.which(f"python{version}")
    versions = Path.home() / ".pyenv" / "versions"
    beside = sorted(versions.glob(f"{version}.*/bin/python")) if versions.is_dir() else []
    for candidate in ([found] if found else []) + [str(path) for path in beside]:
        if subprocess.run([candidate, "-c", ""], capture_output=True, check=False).returncode == 0:
            return candidate
    return None


def _runs_here(name: str) -> bool:
    return name.endswith("-any.whl") or platform.machine() in name


def _used(python: str, package: Path) -> str:
    """The output of a program that uses a package in a new environment, or what failed."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([python, "-m", "venv", folder], check=True)
        inside = str(Path(folder) / "bin" / "python")
        pip = (inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check")
        for command in ((*pip, str(package)), (inside, "-c", USE)):
            done = subprocess.run(
                command,
                capture_output=True,
                text=True,
                check=False,
                cwd=folder,
                env={**os.environ, "CC": "false"},
            )
            if done.returncode:
                return f"FAILED: {done.stderr.strip()[-500:]}"
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
