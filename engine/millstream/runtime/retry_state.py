"""What is wrong with a query at the moment, and when it will try again."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.errors import MillstreamError
from millstream.runtime.spec import RuntimeSettings


@dataclass(slots=True)
class RetryState:
    """`error` and `code` are empty while all is well; `failures` counts those in a row."""

    error: str = ""
    code: str = ""
    failures: int = 0
    retry_at: int = 0

    def explain(self, error: Exception) -> None:
        """Keep why the query stopped or waits."""
        known = isinstance(error, MillstreamError)
        self.error = str(error) if known else f"{type(error).__name__}: {error}"
        self.code = error.code if isinstance(error, MillstreamError) else MillstreamError.code

    def also(self, error: Exception) -> None:
        """Add that not even the state could be given up."""
        self.error += f"\nNor could its state be discarded: {error}"

    def wait(self, now: int, error: Exception, settings: RuntimeSettings) -> None:
        """Try again later; longer after each failure in a row."""
        delay = settings.backoff_ms << min(self.failures, 10)
        self.retry_at = now + min(delay, settings.max_backoff_ms)
        self.failures += 1
        self.explain(error)

    def over(self) -> None:
        """Nothing is wrong any more; the count of failures ends with a commit only."""
        self.error = self.code = ""

    def retry_now(self) -> None:
        """Do not wait any longer."""
        self.retry_at = self.failures = 0
