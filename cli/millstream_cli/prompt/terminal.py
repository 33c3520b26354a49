"""One shell: its session, its output, and its settings."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from millstream.model.errors import MillstreamError
from millstream_cli.screen.output import Output
from millstream_cli.screen.progress import Bars
from millstream_cli.screen.show import show, show_error
from millstream_cli.screen.tables import TableStyle
from millstream_cli.sessions.results import Session

PROMPT = "millstream> "
_VERTICAL = re.compile(r"\\G\s*;?\s*$")


@dataclass(slots=True)
class Terminal:
    """The state and output settings of one shell."""

    session: Session
    out: Output
    errors: Output
    """The same as `out` for an interactive terminal."""
    look: TableStyle = field(default_factory=TableStyle)
    history: Callable[[], Sequence[str]] = tuple
    """The lines typed so far, oldest first."""
    connect: Callable[[str], Session] | None = None
    """Opens a session with another server."""
    vi: bool = False
    leaving: bool = False
    timing: bool = False
    """Whether the duration of each text of statements is printed."""
    last: str = ""
    """The statements that ran last."""

    def execute(self, text: str) -> bool:
        """Run statements, printing each result or error; Ctrl-C ends a query. Returns whether all
        succeeded. A text that ends in `\\G` is shown vertically."""
        self.last = text
        look = replace(self.look, form="VERTICAL") if _VERTICAL.search(text) else self.look
        started = time.monotonic()
        try:
            with Bars(self.out) as bars:
                for result in self.session.run(_VERTICAL.sub(";", text), bars.done):
                    bars.end()
                    show(result, self.out, look)
        except MillstreamError as error:
            show_error(error, self.errors)
            return False
        except KeyboardInterrupt:
            self.out.line("Query terminated")
        finally:
            if self.timing:
                self.out.line(f"Time: {1000 * (time.monotonic() - started):.1f} ms")
        return True

    def echo(self, text: str) -> None:
        """Write the entry into the spool file."""
        self.out.keep([PROMPT + text])
