"""Workloads that do not import the engine anew: a process that has imported it forks for each.

What is killed is a process of its own as before. Two of three seconds of a short life went into
imports, where a kill proves nothing.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import TextIO

IMPORTED = (
    "tests.crash.workload",
    "millstream",
    "millstream.pipeline.pipeline",
    "tests.crash.ticking",
    "tests.spark.java",
)


class Warm:
    """A running workload. `stdout`: what it prints, until it ends."""

    def __init__(self, arguments: Sequence[str]) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([*IMPORTED])
        reading, writing = context.Pipe(duplex=False)
        self._process = context.Process(target=_run, args=(writing, tuple(arguments)))
        self._process.start()
        writing.close()
        self.stdout: TextIO = os.fdopen(os.dup(reading.fileno()), encoding="utf-8")
        reading.close()

    def kill(self) -> int | None:
        """SIGKILL; the exit status if it had ended by itself before."""
        before = self._process.exitcode
        self._process.kill()
        self._process.join()
        self._process.close()
        return before


def _run(writing: Connection, arguments: Sequence[str]) -> None:
    from tests.crash.workload import main

    os.dup2(writing.fileno(), sys.stdout.fileno())
    writing.close()
    sys.argv[1:] = arguments
    main()
