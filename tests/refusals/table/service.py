"""What is refused for where it comes from, one statement or more for each template."""

from __future__ import annotations

from tests.refusals.table.row import Refused

ROWS = (
    Refused(
        "SPOOL OFF;",
        "service.SPOOL",
        {},
    ),
    Refused(
        "BACKUP TO '/x';",
        "service.BACKUP_OVER_NETWORK",
        {},
        local=False,
    ),
    Refused(
        "RUN SCRIPT 'x.sql';",
        "service.RUN_SCRIPT",
        {},
        local=False,
    ),
)
