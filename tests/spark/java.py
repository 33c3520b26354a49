"""Whether Spark can run here, and what becomes of its tests where it cannot."""

from __future__ import annotations

import os

from millstream.history.session import check_java
from millstream.model.errors import UnavailableError

REQUIRED = "MILLSTREAM_REQUIRE_SPARK"
QUICK = {"spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"}
"""Options of a session that starts fast, for little work."""


def missing() -> str:
    """Why there is no Spark here; "" where there is. Where it is required, that is an error."""
    try:
        check_java()
    except UnavailableError as error:
        if os.environ.get(REQUIRED):
            raise
        return f"SKIPPED, nothing was tested on Spark ({REQUIRED} is not set): {error}"
    return ""
