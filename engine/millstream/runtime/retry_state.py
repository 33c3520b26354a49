"""The current error of a query, and when it retries."""

from __future__ import annotations

from dataclasses import dataclass

from millstream.model.errors import MillstreamError
from millstream.runtime.spec import RuntimeSettings


@dataclass(slots=True)
class RetryState:
    """`error` and `code` are empty without an error; `failures` counts consecutive ones."""

    error: str = ""
    code: str = ""
    failures: int = 0
    retry_at: int = 0

    def explain(self, error: Exception) -> None:
        """Record why the query stopped or waits."""
        known = isinstance(error, MillstreamError)
        self.error = str(error) if known else f"{type(error).__name__}: {error}"
        self.code = error.code if isinstance(error, MillstreamError) else MillstreamError.code

    def also(self, error: Exception) -> None:
        """Add that releasing the state failed too."""
        self.error += f"\nNor could its state be discarded: {error}"

    def wait(self, now: int, error: Exception, settings: RuntimeSettings) -> None:
        """Retry later; the delay grows with each consecutive failure."""
        delay = settings.backoff_ms << min(self.failures, 10)
        self.retry_at = now + min(delay, settings.max_backoff_ms)
        self.failures += 1
        self.explain(error)

    def over(self) -> None:
        """Clear the error; only a commit resets the count of failures."""
        self.error = self.code = ""

    def retry_now(self) -> None:
        """Retry at once."""
        self.retry_at = self.failures = 0
