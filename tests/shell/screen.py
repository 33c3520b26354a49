"""A terminal without a window: a real command in a pty, and what its screen shows."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import pyte

from tests.patience import PATIENCE_S

PROMPT = "millstream>"
_PIECE = 512
"""Bytes read at a time: what is on the screen for a moment only is not to be missed."""
UP, DOWN, TAB, ENTER, ESCAPE = "\x1b[A", "\x1b[B", "\t", "\r", "\x1b"
CTRL_C, CTRL_D, CTRL_R = "\x03", "\x04", "\x12"


class Screen:
    """A command that believes to be in a terminal. `text` is what one would see."""

    def __init__(
        self,
        command: list[str],
        folder: Path,
        *,
        rows: int = 30,
        columns: int = 100,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.screen = pyte.HistoryScreen(columns, rows, history=5000, ratio=0.5)
        self.screen.write_process_input = self._answer
        self.stream = pyte.ByteStream(self.screen)
        self.fd, inner = pty.openpty()
        fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.process = subprocess.Popen(
            command,
            stdin=inner,
            stdout=inner,
            stderr=inner,
            cwd=folder,
            env={
                **os.environ,
                "TERM": "xterm-256color",
                "HOME": str(folder),
                "COLUMNS": "",
                "LINES": "",
                **(environment or {}),
            },
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(inner)

    @property
    def text(self) -> str:
        """The lines of the screen, without blanks at their ends."""
        return "\n".join(line.rstrip() for line in self.screen.display).rstrip()

    @property
    def everything(self) -> str:
        """What has scrolled away, and the screen."""
        above = [
            "".join(line[x].data for x in range(self.screen.columns)).rstrip()
            for line in self.screen.history.top
        ]
        return "\n".join([*above, self.text])

    def type(self, text: str) -> None:
        """Press keys."""
        data = text.encode()
        while data:
            data = data[os.write(self.fd, data[:512]) :]
            self._read(0.0)

    def line(self, text: str) -> None:
        """Type a line and press Enter; the candidates on the screen are not meant."""
        self.type(text + ENTER)

    def enter(self, text: str) -> str:
        """Type a line and wait for the prompt behind what it does."""
        before = self.everything.count(PROMPT)
        self.line(text)
        return self.until(lambda s: s.everything.count(PROMPT) > before and s.at_prompt)

    @property
    def at_prompt(self) -> bool:
        """Whether the last line above the bar is an empty prompt."""
        lines = [line for line in self.text.splitlines() if line.strip()]
        return len(lines) > 1 and lines[-2].rstrip() == PROMPT

    def until(self, wanted: str | Callable[[Screen], bool]) -> str:
        """Wait until the screen shows a text, or satisfies a condition."""
        end = time.monotonic() + PATIENCE_S
        while not (wanted in self.text if isinstance(wanted, str) else wanted(self)):
            assert time.monotonic() < end, f"never came: {wanted!r}\n{self.everything}"
            alive = self._read(0.5)
            assert alive or self._seen(wanted), f"ended without {wanted!r}\n{self.everything}"
        return self.text

    def exit_code(self) -> int:
        """Wait for the end of the command."""
        while self._read(PATIENCE_S):
            pass
        return self.process.wait(PATIENCE_S)

    def close(self) -> None:
        """End the command, if it has not ended."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self.fd)

    def _answer(self, text: str) -> None:
        """The terminal's own responses, such as the cursor position."""
        os.write(self.fd, text.encode())

    def _seen(self, wanted: str | Callable[[Screen], bool]) -> bool:
        return wanted in self.text if isinstance(wanted, str) else wanted(self)

    def _read(self, seconds: float) -> bool:
        """Read the command's output; returns False at its end."""
        if not select.select([self.fd], [], [], seconds)[0]:
            return True
        try:
            data = os.read(self.fd, _PIECE)
        except OSError:
            return False
        self.stream.feed(data)
        return bool(data)


def millstream(*arguments: str) -> list[str]:
    """The command line of the shell."""
    return [sys.executable, "-m", "millstream_cli.main", *arguments]
