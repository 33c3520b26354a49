"""What is installed with Millstream, as a bill of materials (CycloneDX), and its licences; a part
of `make wheels`. Exit status 1 for a licence that a user of Millstream could not simply comply
with."""

from __future__ import annotations

import argparse
import json
import platform
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.packages.wheels import ROOT

_NAME_LENGTH_MAX = 60
EXTRAS = "kafka,server,spark"
FREE = re.compile(
    r"MIT|BSD|Apache|ISC|PSF|Python Software Foundation|MPL|Mozilla|0BSD|Unlicense|Public Domain"
    r"|CNRI|Zlib|Boost|BSL-1",
    re.IGNORECASE,
)


def main() -> int:
    """Write the bill into the folder of the wheels, and print the licences."""
    parser = argparse.ArgumentParser(prog="tests.packages.bill")
    parser.add_argument("--dist", type=Path, default=ROOT / "dist")
    dist: Path = parser.parse_args().dist.resolve()
    [wheel] = dist.glob(f"*{platform.machine()}.whl")
    bill = dist / "sbom.json"
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        inside = str(Path(folder) / "bin" / "python")
        pip = (sys.executable, "-m", "pip", "--python", inside, "install", "--quiet")
        subprocess.run([*pip, f"{wheel}[{EXTRAS}]"], check=True)
        collect = (sys.executable, "-m", "cyclonedx_py", "environment", "--gather-license-texts")
        subprocess.run([*collect, "--output-file", str(bill), inside], check=True)
    found = json.loads(bill.read_text(encoding="utf-8"))["components"]
    unclear = [one for one in found if not FREE.search(_licence(one))]
    for one in sorted(found, key=lambda one: str(one["name"]).lower()):
        print(f"{one['name']} {one['version']}: {_licence(one)}")
    for one in unclear:
        print(f"LOOK AT {one['name']}: {_licence(one)}", file=sys.stderr)
    return 1 if unclear else 0


def _licence(component: dict[str, Any]) -> str:
    """The names of a component's licences."""
    names = [
        given.get("expression") or _name(given["license"])
        for given in component.get("licenses", ())
    ]
    return ", ".join(dict.fromkeys(name for name in names if name)) or "not told"


def _name(licence: dict[str, Any]) -> str:
    """A name, or the text of a package that has told a name as its text."""
    text = str(licence.get("text", {}).get("content", ""))
    short = text if len(text) < _NAME_LENGTH_MAX and "\n" not in text else ""
    return str(licence.get("id") or short or licence.get("name", ""))


if __name__ == "__main__":
    sys.exit(main())
