"""Error messages of statements that change the catalog: one template for each condition."""

from __future__ import annotations

from millstream.model.refusals import Template, templates_in

REPLACING_DISABLED = Template("Cannot replace {kind} '{statement}': CREATE OR REPLACE is disabled.")
REPLACED_WITHOUT_QUERY = Template(
    "Cannot add {noun} '{existing}': it was created without a query, so no query can replace it."
)
QUERY_OF_SOURCE_TABLE = Template("{wanted} belongs to a SOURCE TABLE: DROP TABLE ends it")
INTERNAL_TOPIC = Template("Cannot {action} topic '{topic}': it is internal to the service.")
STREAM_RECOMPUTED = Template(
    "The past of stream {name} cannot be recomputed: its records may have been read, and a "
    "stream has no deletions"
)
TABLE_FROM_ITSELF = Template("Table {name} cannot be recomputed from itself")
UPGRADE_OF_STATE = Template(
    "Cannot upgrade '{sink}': upgrades not yet supported for queries whose kept state changes."
)
NO_ORDER_OF_ARRIVAL = Template(
    "A query over topic {topic} cannot process its records in order of arrival: the topic does "
    "not number them"
)
WALL_CLOCK_BY_ARRIVAL = Template(
    "A processor with schedules by the clock of the wall cannot be in a query that takes records in"
    " order of arrival: what a schedule makes has not arrived."
)
IDLE_WINDOWS_BY_ARRIVAL = Template(
    "A query that processes its records in order of arrival cannot close windows when it is idle: "
    "the result would depend on when they were read"
)
DEAD_LETTERS_OF_ITSELF = Template(
    "Topic {topic} cannot be the dead letter topic of a query that reads or writes it"
)
TEMPLATES = templates_in(globals())
"""All templates by name."""
