"""What is raised for schemas that cannot be used."""

from __future__ import annotations


class SchemaError(ValueError):
    """A text that is no schema, or a schema that does not fit columns."""
