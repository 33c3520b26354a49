"""What is raised for schemas that cannot be used, and how large they may be."""

from __future__ import annotations

from dataclasses import dataclass

TYPES_MAX = 10_000
"""The types of a schema, each as often as it is named: of a few lines that name one another twice,
again and again, there would be more than any memory holds."""


class SchemaError(ValueError):
    """A text that is no schema, or a schema that does not fit columns."""


@dataclass(slots=True)
class Size:
    """Counts the types of a schema."""

    types: int = 0

    def count(self) -> None:
        """Count one more. Raises SchemaError for too many."""
        self.types += 1
        if self.types > TYPES_MAX:
            raise SchemaError(f"the schema has more than {TYPES_MAX} types")
