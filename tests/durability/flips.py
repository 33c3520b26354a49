"""Damaged files: a bit turned, a block zeroed, exchanged or cut off. Never a wrong answer.

    python -m tests.durability.flips --flips 500 [--seed S]

The files of a small database are damaged one way after another, and the database is opened: it
answers as before, with its state rebuilt where that was damaged, or refuses with words that name a
file. Exit status 1 if it answers otherwise, raises anything else, or its process dies.
"""

from __future__ import annotations

import argparse
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from tests.durability.verify import Opener
from tests.durability.workload import NAME

BLOCK = 4096
FIRST_BLOCK = 3 * BLOCK
HEADER_WITH_SIZE = BLOCK + 40
"""Where the size of DuckDB's blocks is in its first header."""
Damaging = Callable[[bytearray, random.Random], str]
"""Damages a file; says how."""


def flip(content: bytearray, chance: random.Random) -> str:
    """One bit."""
    at, bit = chance.randrange(len(content)), chance.randrange(8)
    content[at] ^= 1 << bit
    return f"bit {bit} of byte {at} turned"


def zero(content: bytearray, chance: random.Random) -> str:
    """A block of zeros."""
    at = chance.randrange(0, len(content), BLOCK)
    content[at : at + BLOCK] = bytes(len(content[at : at + BLOCK]))
    return f"{BLOCK} bytes from {at} on zeroed"


def cut(content: bytearray, chance: random.Random) -> str:
    """The end is missing."""
    at = chance.randrange(0, len(content), BLOCK)
    del content[at:]
    return f"cut at {at}"


def exchange(content: bytearray, chance: random.Random) -> str:
    """Two blocks are in each other's place."""
    blocks = range(0, len(content) - BLOCK + 1, BLOCK)
    if len(blocks) < 2:
        return flip(content, chance)
    return exchanged(content, *chance.sample(blocks, 2))


def exchanged(content: bytearray, one: int, other: int) -> str:
    """Exchange the blocks at two places."""
    kept = content[one : one + BLOCK]
    content[one : one + BLOCK] = content[other : other + BLOCK]
    content[other : other + BLOCK] = kept
    return f"blocks at {one} and {other} exchanged"


WAYS: dict[str, Damaging] = {"flip": flip, "zero": zero, "cut": cut, "exchange": exchange}


def exchange_within(content: bytearray, chance: random.Random) -> str:
    """Two parts of the first block of DuckDB, which has the directory, are in each other's place;
    its checksum does not tell."""
    size = int.from_bytes(content[HEADER_WITH_SIZE : HEADER_WITH_SIZE + 8], "little")
    parts = range(FIRST_BLOCK, min(FIRST_BLOCK + size, len(content)) - BLOCK + 1, BLOCK)
    used = [part for part in parts if any(content[part : part + BLOCK])]
    one = chance.choice(used)
    other = chance.choice([part for part in parts if part != one])
    return exchanged(content, one, other)


def damages(
    whole: Path, folder: Path, count: int, seed: int, only: Damaging | None = None
) -> Iterator[tuple[str, Path]]:
    """Make so many damaged copies, one after another, in a folder: how, and of which file. `only`:
    the state, in this way."""
    chance = random.Random(seed)
    files = [file for file in sorted(whole.iterdir()) if file.name.startswith(NAME)]
    for number in range(count):
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(whole, folder)
        file = folder / (f"{NAME}.state" if only else chance.choice(files).name)
        # Bits are what there is most of.
        way = only or WAYS[chance.choice(["flip", "flip", "flip", *WAYS])]
        content = bytearray(file.read_bytes())
        how = way(content, chance)
        file.write_bytes(content)
        yield f"{number} ({way.__name__}): {file.name}, {how}", file


def judged(found: dict[str, Any], before: dict[str, Any]) -> str:
    """`same`, `refused`, or what is wrong."""
    if found == before:
        return "same"
    if "refused" in found and NAME in found["message"]:
        return "refused"
    return str(found)


def copies(scratch: Path) -> dict[str, Path]:
    """A database that was closed, and one whose process was killed, with its write-ahead logs."""
    closed, killed = scratch / "closed", scratch / "killed"
    for folder in (closed, killed):
        folder.mkdir()
    command = [sys.executable, "-m", "tests.durability.workload"]
    root = Path(__file__).parent.parent.parent
    subprocess.run([*command, str(closed), "40"], check=True, cwd=root)
    process = subprocess.Popen([*command, str(killed), "40", "--wait"], cwd=root,
                               stdout=subprocess.PIPE)  # fmt: skip
    assert process.stdout is not None
    process.stdout.readline()
    process.kill()
    process.wait()
    return {"closed": closed, "killed": killed}


def main() -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.durability.flips", description=__doc__)
    parser.add_argument("--flips", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    failed = 0
    with tempfile.TemporaryDirectory(prefix="millstream-flips-") as scratch, Opener() as opener:
        for name, whole in copies(Path(scratch)).items():
            folder = Path(scratch, "damaged")
            shutil.rmtree(folder, ignore_errors=True)
            shutil.copytree(whole, folder)
            before = opener.open(folder)
            assert len(before["numbers"]) == 40, before
            counts: Counter[str] = Counter()
            for how, _ in chain(
                damages(whole, folder, options.flips // 2, options.seed),
                damages(whole, folder, options.flips // 10, options.seed, exchange_within),
            ):
                verdict = judged(opener.open(folder), before)
                if verdict not in ("same", "refused"):
                    failed += 1
                    print(f"{name} {how}: {verdict}", flush=True)
                    verdict = "wrong"
                counts[verdict] += 1
            print(f"{name}: {dict(counts)}", flush=True)
    print(f"{failed} answers are not as they should be.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
