"""The results of SHOW FUNCTIONS and DESCRIBE FUNCTION."""

from __future__ import annotations

from typing import Any

from millstream.functions.function import Catalogue
from millstream.functions.signatures import Parameter, parse_signature
from millstream.model.errors import StatementError
from millstream.model.nearest import did_you_mean

Entity = dict[str, Any]


def function_names(catalogue: Catalogue) -> list[Entity]:
    """All functions."""
    return [
        {"name": name, "type": found.kind, "category": found.category}
        for name, found in sorted(catalogue.named().items())
    ]


def described_function(name: str, text: str, catalogue: Catalogue) -> Entity:
    """The entity of DESCRIBE FUNCTION; raises StatementError for an unknown name."""
    found = catalogue.find(name)
    if found is None:
        raise StatementError(
            f"Can't find any functions with the name '{name}'",
            hint=did_you_mean(name, catalogue.named(), "SHOW FUNCTIONS lists all of them."),
        )
    return {
        "@type": "describe_function",
        "statementText": text,
        "name": found.name,
        "description": found.description,
        "author": "Millstream",
        "version": "",
        "path": "internal",
        "type": found.kind,
        "functions": [_variation(one, found.description) for one in found.signatures],
        "warnings": [],
    }


def _variation(signature: str, description: str) -> Entity:
    parsed = parse_signature(signature)
    return {
        "arguments": [_argument(index, item) for index, item in enumerate(parsed.parameters, 1)],
        "returnType": str(parsed.result),
        "description": description,
    }


def _argument(index: int, parameter: Parameter) -> Entity:
    return {
        "name": parameter.name or f"arg{index}",
        "type": str(parameter.type),
        "description": "",
        "isVariadic": parameter.variadic,
    }
