"""Loss of power at random moments: what was acknowledged is there, once, and tables agree with it.

    python -m tests.durability.images --images 500 [--seed S] [--inserts N]

A workload runs once while all that it writes is recorded (record.c). From the recording, images of
its folder are made that a loss of power may leave (recorded.py), and each is opened. Exit status 1
on a violation.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from bisect import bisect_left
from collections import Counter
from pathlib import Path
from typing import Any

from tests.durability.recorded import Kind, Recording, images, record
from tests.durability.verify import Opener, expected

ACKED = "acked"


def acknowledged(recording: Recording) -> list[int]:
    """After which step each number was acknowledged."""
    file = next(i for i, name in enumerate(recording.names) if Path(name).name == ACKED)
    return [
        index + 1
        for index, step in enumerate(recording.steps)
        if step.file == file and step.kind is Kind.WRITTEN
    ]


def violation(found: dict[str, Any], acked: int) -> str:
    """What is wrong with what was found, where the numbers below `acked` must be there; "" if
    nothing is."""
    if "numbers" not in found:
        return str(found)
    numbers = found["numbers"]
    if numbers != list(range(len(numbers))):
        return f"the numbers are {numbers}"
    if not acked <= len(numbers) <= acked + 1:
        return f"{len(numbers)} numbers are there, {acked} were acknowledged"
    if found["sums"] != expected(numbers):
        return f"the table has {found['sums']}"
    return ""


def laid_out(image: dict[str, bytes], folder: Path) -> None:
    """Write an image into an empty folder."""
    for file in folder.iterdir():
        file.unlink()
    for name, content in image.items():
        (folder / name).write_bytes(content)


def main() -> int:
    """Run the command; returns the exit status."""
    parser = argparse.ArgumentParser(prog="tests.durability.images", description=__doc__)
    parser.add_argument("--images", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--inserts", type=int, default=100)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="millstream-images-") as scratch, Opener() as opener:
        work, folder = Path(scratch, "work"), Path(scratch, "image")
        work.mkdir()
        folder.mkdir()
        module = "tests.durability.workload"
        recording = record(module, work, Path(scratch), str(options.inserts))
        after = acknowledged(recording)
        kinds = Counter(step.kind.name.lower() for step in recording.steps)
        print(f"{len(recording.steps)} steps were recorded: {dict(kinds)}")
        failed = 0
        for number, (done, image) in enumerate(images(recording, options.images, options.seed)):
            laid_out(image, folder)
            acked = bisect_left(after, done + 1)
            wrong = violation(opener.open(folder), acked)
            if wrong:
                failed += 1
                print(f"Image {number}, after step {done}: {wrong}", flush=True)
    print(f"{options.images} images, {failed} of them not as they should be.")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
