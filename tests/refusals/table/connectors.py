"""Refusals of statements about connectors."""

from __future__ import annotations

from tests.refusals.table.row import Refused

TWICE = (
    "CREATE SOURCE CONNECTOR twice WITH (CONNECTOR='datagen', QUICKSTART='users',"
    " KAFKA_TOPIC='made_up', ITERATIONS=0)"
)
ROWS = (
    Refused(
        "CREATE SOURCE CONNECTOR c WITH («'connector.class'='org.example.Nothing'»);",
        "connectors.CONNECTOR_INVALID",
        {
            "name": "C",
            "setting": "connector.class",
            "problem": "cannot be 'org.example.Nothing'",
        },
    ),
    Refused(
        "CREATE SOURCE CONNECTOR c WITH (CONNECTOR='datagen', KAFKA_TOPIC='t',"
        " «QUICKSTART='weather'»);",
        "connectors.CONNECTOR_INVALID",
        {"name": "C", "setting": "quickstart", "problem": "cannot be 'weather'"},
    ),
    Refused(
        f"{TWICE}; {TWICE.replace('twice', '«twice»')};",
        "connectors.CONNECTOR_TAKEN",
        {"name": "TWICE"},
    ),
    Refused(
        "DROP CONNECTOR «c»;",
        "connectors.UNKNOWN_CONNECTOR",
        {"name": "C"},
    ),
)
