"""Text <-> statements of the dialect: `parse` and `print_statement` are each other's inverse."""

from . import statements
from .failure import SyntaxFailure
from .script import parse, parse_expression, parse_type

__all__ = [
    "SyntaxFailure",
    "parse",
    "parse_expression",
    "parse_type",
    "statements",
]
