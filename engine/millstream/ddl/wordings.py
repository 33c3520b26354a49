"""The wording of refusals of statements that change the catalog: a template for each condition."""

from __future__ import annotations

from millstream.model.refusals import Template, templates_in

REPLACING_DISABLED = Template("Cannot replace {kind} '{statement}': CREATE OR REPLACE is disabled.")
REPLACED_WITHOUT_QUERY = Template(
    "Cannot add {noun} '{existing}': it was made without a query, so that none can take over."
)
QUERY_OF_SOURCE_TABLE = Template("{wanted} belongs to a SOURCE TABLE: DROP TABLE ends it")
INTERNAL_TOPIC = Template("Cannot {action} topic '{topic}': it is internal to the service.")
STREAM_MADE_ANEW = Template(
    "The past of stream {name} cannot be made anew: its records have been read, and none "
    "can be taken back"
)
TABLE_OUT_OF_ITSELF = Template("Table {name} cannot be made anew out of itself")
UPGRADE_OF_STATE = Template(
    "Cannot upgrade '{sink}': upgrades not yet supported for queries whose kept state changes."
)
TEMPLATES = templates_in(globals())
"""All of them by name."""
