"""An engine in a process of its own, and its output so far (see kafka_workload.py)."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PATIENCE_SECONDS = 300.0
"""A busy machine, a restarted broker and an aborted transaction all need time."""
FINISH_SECONDS = 600.0
TELLING_SECONDS = 1.0
WORKLOAD = "tests.crash.kafka_workload"
_MARKS = frozenset(
    {"begin", "positions", "commit", "done", "aborted", "unknown", "making", "made", "dropping"}
)
_FINAL = ("ERROR", "FENCED")


class CampaignError(Exception):
    """What must not happen has happened."""


class EngineProcess:
    """Started when made; a thread listens until its output ends, and keeps it, with the times,
    beside the file of its errors."""

    def __init__(self, arguments: Sequence[str], errors: Path, module: str = WORKLOAD) -> None:
        command = [sys.executable, "-m", module, *arguments]
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self._said = threading.Condition()
        self._ended = False
        self._ready = False
        self._marks: Counter[tuple[str, str]] = Counter()
        self._last: dict[str, str] = {}
        """The last mark of each writer."""
        self._ends: dict[str, str] = {}
        """The first mark of each writer after a SIGCONT that reports how its transaction ended."""
        self._halted: frozenset[str] = frozenset()
        self._holds: dict[str, frozenset[int]] = {}
        self._wrong = ""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """Its id."""
        return self._process.pid

    def await_ready(self) -> None:
        """Return when the engine runs its queries."""
        self._await("that it is ready", lambda: self._ready)

    def await_marks(self, kind: str, count: int) -> None:
        """Return after this many further marks of a kind."""
        target = self._count(kind) + count
        self._await(f"{count} times '{kind}'", lambda: self._count(kind) >= target)

    def await_end(self) -> None:
        """Return when the process has ended well by itself."""
        try:
            status = self._process.wait(FINISH_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CampaignError(f"it does not finish; {self.report()}") from None
        if status or self._wrong:
            raise CampaignError(f"it finished with {status}; {self.report()}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> str:
        """Kill it; returns its last reported step."""
        if self._process.poll() is not None:
            raise CampaignError(
                f"it ended by itself with {self._process.returncode}; {self.report()}"
            )
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._listener.join()
        if self._wrong:
            raise CampaignError(self.report())
        last = set(self._last.values())
        if "commit" in last:
            return "in a commit"
        if last & {"begin", "positions"}:
            return "in a transaction"
        return "elsewhere" if self._ready else "while opening"

    def end(self) -> None:
        """Kill it, whatever it does."""
        self._process.kill()
        self._process.wait()
        self._listener.join()

    def last(self, writer: str) -> str:
        """The last mark of a writer."""
        with self._said:
            return self._last.get(writer, "")

    def marks(self, kind: str, writer: str | None = None) -> int:
        """How many marks of a kind it has printed, of one writer or of all."""
        with self._said:
            return self._count(kind) if writer is None else self._marks[kind, writer]

    def check(self) -> None:
        """CampaignError when it has ended, or is wrong."""
        with self._said:
            if self._ended or self._wrong:
                raise CampaignError(f"it goes on no more; {self.report()}")

    def halt(self) -> frozenset[str]:
        """Suspend it; returns the writers in a transaction whose commit they have not requested."""
        self.signal(signal.SIGSTOP)
        # Its output may still be in the pipe.
        time.sleep(TELLING_SECONDS)
        with self._said:
            mid = (writer for writer, mark in self._last.items() if mark in ("begin", "positions"))
            self._halted = frozenset(mid)
            self._ends = {}
        return self._halted

    def continue_as_zombie(self) -> list[str]:
        """Resume it, until these transactions have ended; returns the writers of those that were
        committed."""
        self.signal(signal.SIGCONT)
        self._await("how its transactions ended", lambda: self._ends.keys() >= self._halted)
        return [writer for writer in self._halted if self._ends[writer] == "done"]

    def holds(self, query: str) -> frozenset[int]:
        """The partitions of a query whose tasks are open there, as of some instants ago."""
        with self._said:
            return self._holds.get(query, frozenset())

    def _listen(self) -> None:
        assert self._process.stdout is not None
        with self._errors.with_suffix(".out").open("w", buffering=1) as file:
            for line in self._process.stdout:
                file.write(f"{time.time():.3f} {line}")
                with self._said:
                    self._hear(line.split())
                    self._said.notify_all()
        with self._said:
            self._ended = True
            self._said.notify_all()

    def _hear(self, words: list[str]) -> None:
        match words:
            case ["ready"]:
                self._ready = True
            case [mark, writer] if mark in _MARKS:
                self._marks[mark, writer] += 1
                self._last[writer] = mark
                if writer in self._halted and mark in ("done", "aborted", "begin", "unknown"):
                    self._ends.setdefault(writer, mark)
            case ["refused", *_]:
                self._marks["refused", "maker"] += 1
            case ["holds", query, *partitions]:
                self._holds[query] = frozenset(map(int, partitions))
            case ["state", _, state, *_]:
                if state in _FINAL:
                    self._wrong = " ".join(words)

    def _count(self, kind: str) -> int:
        return sum(count for (mark, _), count in self._marks.items() if mark == kind)

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        with self._said:
            stopped = self._said.wait_for(
                lambda: holds() or self._ended or bool(self._wrong),
                PATIENCE_SECONDS,
            )
            if not (stopped and holds()):
                raise CampaignError(f"it did not say {what}; {self.report()}")

    def report(self) -> str:
        """What it did last, and what it wrote on standard error, with the stacks of its threads."""
        if self._process.poll() is None:
            self.signal(signal.SIGUSR1)
            time.sleep(TELLING_SECONDS)
        errors = self._errors.read_text(errors="replace")[-6000:]
        return f"state: {self._wrong or 'as it should be'}\nlast marks: {self._last}\n{errors}"
