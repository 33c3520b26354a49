"""For all tests: no property test has a deadline for an example, or for finding one."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

from tests.draws import draws

settings.register_profile(
    "untimed",
    parent=settings(),
    max_examples=draws(100),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("untimed")
