"""What SHOW FUNCTIONS and DESCRIBE FUNCTION give."""

from __future__ import annotations

from typing import Any

from millstream.functions.function import (
    AggregateFunction,
    Catalogue,
    ScalarFunction,
    TableFunction,
)
from millstream.functions.signatures import Parameter, parse_signature
from millstream.model.errors import StatementError

Entity = dict[str, Any]


def function_names(catalogue: Catalogue) -> list[Entity]:
    """All functions."""
    found = [(name, "SCALAR", item.category) for name, item in catalogue.scalar.items()]
    found += [(name, "AGGREGATE", "AGGREGATE") for name in catalogue.aggregate]
    found += [(name, "TABLE", "TABLE") for name in catalogue.table]
    return [
        {"name": name, "type": kind, "category": category} for name, kind, category in sorted(found)
    ]


def described_function(name: str, text: str, catalogue: Catalogue) -> Entity:
    """The entity of DESCRIBE FUNCTION; StatementError where there is none of the name."""
    found = catalogue.find(name)
    match found:
        case ScalarFunction():
            kind, signatures = "SCALAR", [variant.signature for variant in found.variants]
        case AggregateFunction():
            kind, signatures = "AGGREGATE", [variant.signature for variant in found.variants]
        case TableFunction():
            kind, signatures = "TABLE", [part.strip() for part in found.signature.split(";")]
        case None:
            raise StatementError(f"Can't find any functions with the name '{name}'")
    return {
        "@type": "describe_function",
        "statementText": text,
        "name": found.name,
        "description": found.description,
        "author": "Millstream",
        "version": "",
        "path": "internal",
        "type": kind,
        "functions": [_variation(signature, found.description) for signature in signatures],
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
