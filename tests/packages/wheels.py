"""Build what is published: `make wheels [DIST=dist]`. An sdist, wheels for Linux on x86_64 and
aarch64, and one for all other systems, which lacks what is compiled.

The wheels of Linux are compiled by Zig (from PyPI) against glibc 2.28, on whatever machine, and
auditwheel checks and names them. All are made from the sdist, so the checkout is left alone.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).parents[2]
GLIBC = "2.28"
MACHINES = ("x86_64", "aarch64")


def main() -> int:
    """Build all, into an empty folder."""
    parser = argparse.ArgumentParser(prog="tests.packages.wheels")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    dist: Path = parser.parse_args().dist.resolve()
    shutil.rmtree(dist, ignore_errors=True)
    _run("build", "--sdist", "--no-isolation", "--outdir", str(dist), str(ROOT))
    [sdist] = dist.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(sdist) as archive:
            archive.extractall(folder, filter="data")
        [source] = Path(folder).iterdir()
        for machine in MACHINES:
            _linux(source, machine, dist)
        _wheel(source, dist, {"CC": "false"})
    for path in sorted(dist.iterdir()):
        print(f"{path.stat().st_size / 1e6:6.2f} MB  {path.name}")
    return 0


def _linux(source: Path, machine: str, dist: Path) -> None:
    compiler = f"{sys.executable} -m ziglang cc -target {machine}-linux-gnu.{GLIBC}"
    with tempfile.TemporaryDirectory() as made:
        # What sysconfig takes for the platform of a cross-compiled build.
        _wheel(source, Path(made), {"CC": compiler, "_PYTHON_HOST_PLATFORM": f"linux-{machine}"})
        [wheel] = Path(made).iterdir()
        # Named after the oldest glibc that has what is used: GLIBC, or an older one.
        _run("auditwheel", "repair", "--plat", "auto", "--wheel-dir", str(dist), str(wheel))


def _wheel(source: Path, into: Path, environment: Mapping[str, str]) -> None:
    _run(
        *("build", "--wheel", "--no-isolation", "--outdir", str(into), str(source)),
        environment=environment,
    )


def _run(module: str, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
    # Beside the interpreter are the programs that auditwheel calls.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    given = {**os.environ, "PATH": path, **(environment or {})}
    command = (sys.executable, "-m", module, *arguments)
    done = subprocess.run(command, env=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}\n{done.stderr}")


if __name__ == "__main__":
    sys.exit(main())
