"""Build the console: `make console`. Words of the language, bundles, licences, and a digest of what
it was built from.

The result is in the repository, so that neither npm nor a network is needed to install Millstream.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from millstream_grammar.keywords import HARD, SOFT

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "server" / "console"
STATIC = ROOT / "server" / "millstream_server" / "console" / "static"
DIGEST = "built-from.txt"
TYPES = (
    *("ARRAY", "BIGINT", "BOOLEAN", "BYTES", "DATE", "DECIMAL", "DOUBLE", "INT", "INTEGER", "MAP"),
    *("STRING", "STRUCT", "TIME", "TIMESTAMP", "VARCHAR"),
)


def words() -> str:
    """Keywords and types, for highlighting and completion."""
    found = {"keywords": sorted((SOFT | HARD) - set(TYPES)), "types": list(TYPES)}
    return json.dumps(found, indent=1) + "\n"


def digest() -> str:
    """One for all sources; lock file and build command are among them."""
    found = hashlib.sha256()
    for path in sorted(path for path in SOURCES.rglob("*") if path.is_file()):
        inside = path.relative_to(SOURCES)
        if inside.parts[0] != "node_modules":
            found.update(f"{inside.as_posix()} {path.stat().st_size}\n".encode())
            found.update(path.read_bytes())
    return found.hexdigest() + "\n"


def licences() -> str:
    """The licences of the libraries in the bundles, which their terms want to be passed on."""
    locked = json.loads((SOURCES / "package-lock.json").read_text(encoding="utf-8"))["packages"]
    parts = []
    for place, package in sorted(locked.items()):
        if not place or package.get("dev"):
            continue
        [text] = [
            path.read_text(encoding="utf-8").strip()
            for path in sorted((SOURCES / place).iterdir())
            if path.name.upper().startswith("LICEN")
        ]
        name = place.removeprefix("node_modules/")
        parts.append(f"{name} {package['version']}\n\n{text}\n")
    return "\n---\n\n".join(parts)


def main() -> int:
    """Build; the status is that of npm."""
    (SOURCES / "src" / "words.json").write_text(words(), encoding="utf-8")
    for command in (("npm", "ci", "--silent"), ("npm", "run", "--silent", "build")):
        status = subprocess.run(command, cwd=SOURCES, check=False).returncode
        if status:
            return status
    (STATIC / "licences.txt").write_text(licences(), encoding="utf-8")
    (STATIC / DIGEST).write_text(digest(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
