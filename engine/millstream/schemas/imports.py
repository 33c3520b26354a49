"""What a schema imports, itself and by what it imports."""

from __future__ import annotations

from collections.abc import Callable

from millstream.model.schema_text import Reference, SchemaText


def imported_by(
    schema: SchemaText, version_of: Callable[[Reference], SchemaText]
) -> dict[str, str]:
    """The texts of all that a schema imports, by their names; each behind those that it imports
    itself. `version_of` finds one. It is called once for each reference: a chain of schemas that
    import the one before them twice would otherwise take 2^n calls. Cycles, which a registry
    elsewhere may contain, end there too."""
    found: dict[str, str] = {}
    seen: set[Reference] = set()
    # What is left to do: a reference to look at, or, once its own are done, its text to note.
    left: list[Reference | tuple[str, str]] = [*reversed(schema.references)]
    while left:
        match left.pop():
            case (name, text):
                found.setdefault(name, text)
            case Reference() as reference if reference not in seen:
                seen.add(reference)
                other = version_of(reference)
                left += [(reference.name, other.text), *reversed(other.references)]
    return found
