"""An engine in a process of its own, and what it has said so far (see kafka_workload.py)."""

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
PATIENCE_SECONDS = 120.0
"""A busy machine, a bounced broker and a transaction to be given up all take their time."""
FINISH_SECONDS = 600.0
TELLING_SECONDS = 1.0
_MARKS = frozenset({"begin", "positions", "commit", "done", "aborted"})
_FINAL = ("ERROR", "FENCED")


class CampaignError(Exception):
    """What must not happen has happened."""


class EngineProcess:
    """Started when made; a thread listens until its output ends."""

    def __init__(self, arguments: Sequence[str], errors: Path) -> None:
        command = [sys.executable, "-m", "tests.crash.kafka_workload", *arguments]
        self._errors = errors
        with errors.open("wb") as file:
            self._process = subprocess.Popen(
                command, cwd=ROOT, stdout=subprocess.PIPE, stderr=file, text=True
            )
        self._said = threading.Condition()
        self._ended = False
        self._ready = False
        self._zombie = False
        self._marks: Counter[tuple[str, str]] = Counter()
        self._last: dict[str, str] = {}
        """The last mark of each writer."""
        self._stopped: dict[str, str] = {}
        self._wrong = ""
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def await_ready(self) -> None:
        """Return when the engine runs its queries."""
        self._await("that it is ready", lambda: self._ready)

    def await_marks(self, kind: str, count: int) -> None:
        """Return after so many further marks of a kind."""
        target = self._count(kind) + count
        self._await(f"{count} times '{kind}'", lambda: self._count(kind) >= target)

    def await_stopped(self, queries: int) -> Counter[str]:
        """Return when so many queries have stopped for good; how many in which state."""
        self._await(f"that {queries} have stopped", lambda: len(self._stopped) >= queries)
        return Counter(self._stopped.values())

    def await_end(self) -> None:
        """Return when the process has ended well by itself."""
        try:
            status = self._process.wait(FINISH_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise CampaignError(f"it does not finish; {self._report()}") from None
        if status or self._wrong:
            raise CampaignError(f"it finished with {status}; {self._report()}")

    def signal(self, number: signal.Signals) -> None:
        """Send a signal."""
        self._process.send_signal(number)

    def kill(self) -> str:
        """Kill it; where in its work it was, as far as it could say."""
        if self._process.poll() is not None:
            raise CampaignError(
                f"it ended by itself with {self._process.returncode}; {self._report()}"
            )
        self.signal(signal.SIGKILL)
        self._process.wait()
        self._listener.join()
        if self._wrong and not self._zombie:
            raise CampaignError(self._report())
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

    def continue_as_zombie(self) -> dict[str, int]:
        """Let it go on after a SIGSTOP; how many commits it may have told of in the end: those it
        had, and the one that it had asked for before it was stopped."""
        with self._said:
            self._zombie = True
            allowed = {
                writer: self._marks["done", writer] + (mark == "commit")
                for writer, mark in self._last.items()
            }
        self.signal(signal.SIGCONT)
        return allowed

    def late_commits(self, allowed: dict[str, int]) -> list[str]:
        """The writers that have committed more than they were allowed."""
        with self._said:
            counts = {writer: n for (kind, writer), n in self._marks.items() if kind == "done"}
        return [writer for writer, count in counts.items() if count > allowed.get(writer, 0)]

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
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
            case ["state", query, state, *_]:
                if state in _FINAL:
                    self._stopped[query] = state
                    self._wrong = " ".join(words)

    def _count(self, kind: str) -> int:
        return sum(count for (mark, _), count in self._marks.items() if mark == kind)

    def _await(self, what: str, holds: Callable[[], bool]) -> None:
        with self._said:
            stopped = self._said.wait_for(
                lambda: holds() or self._ended or bool(self._wrong and not self._zombie),
                PATIENCE_SECONDS,
            )
            if not (stopped and holds()):
                raise CampaignError(f"it did not say {what}; {self._report()}")

    def _report(self) -> str:
        if self._process.poll() is None:
            self.signal(signal.SIGUSR1)
            time.sleep(TELLING_SECONDS)
        errors = self._errors.read_text(errors="replace")[-6000:]
        return f"state: {self._wrong or 'as it should be'}\nlast marks: {self._last}\n{errors}"
