"""For all tests: no property test has a deadline for an example, or for finding one."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    parent=settings(),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")
