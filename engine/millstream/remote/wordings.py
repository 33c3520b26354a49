"""Error messages of databases on servers: one template for each condition."""

from __future__ import annotations

from millstream.model.refusals import Template, templates_in

ONLY_ON_SERVER = Template("{what} is not for a database on a server: {why}")
SEVERAL_WITH_PARAMETERS = Template(
    "On a server, a query with parameters is a text of its own, not one of {count} statements"
)
TEMPLATES = templates_in(globals())
"""All templates by name."""
