"""Error messages of statements that are refused or fail: one template for each condition."""

from __future__ import annotations

from millstream.model.refusals import ConflictTemplate, Template, templates_in

RUN_SCRIPT = Template("RUN SCRIPT reads a local file; send the statements instead")
BACKUP_OVER_NETWORK = Template("BACKUP writes files where the database is, not over a network")
SUBSCRIBED_KIND = Template("Only a push query has rows to subscribe to")
SPOOL = Template("SPOOL is a command of the shell, not of the engine")
QUERIES_FILE_DIFFERS = ConflictTemplate(
    "The queries file {path} does not go on from what the database holds."
)
QUERIES_FILE_STATEMENT = Template("A {what} cannot hold this statement: {statement}")
CATALOG_FROM_FILE = Template("Streams, tables and queries come from {path} and from nowhere else.")

TEMPLATES = templates_in(globals())
"""All templates by name."""
