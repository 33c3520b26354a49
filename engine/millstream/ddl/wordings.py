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
SCHEMA_MISSING = Template(
    "Schema for message {side} on topic '{topic}' does not exist in the Schema Registry.\n"
    "Subject: {subject}"
)
SCHEMA_OF_OTHER_FORMAT = Template(
    "The schema of the {side} of topic '{topic}' is {kind}, which is not the format {format}."
)
SCHEMA_UNREADABLE = Template("The schema of the {side} of topic '{topic}' is invalid: {reason}")
SCHEMA_OF_OTHER_COLUMNS = Template(
    "The following {side} columns are changed, missing or reordered: {columns}. Schema from schema"
    " registry is {schema}"
)
SCHEMA_WITHOUT_COLUMNS = Template(
    "The schema of the {side} of topic '{topic}' has nothing that a column can have."
)
SCHEMA_NOT_WRAPPED = Template(
    "The schema of the {side} of topic '{topic}' is {type}, not a record with fields."
)
TEMPLATES = templates_in(globals())
"""All templates by name."""
