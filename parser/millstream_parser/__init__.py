"""Text <-> statements of the dialect: `parse` and `print_statement` are each other's inverse."""

from . import statements
from .continuation import without_continuations
from .durations import LONGEST_MS, read_duration
from .failure import SyntaxFailure
from .parameters import Parameters, Values, literal_text, parameter_keys
from .print_expressions import print_expression, print_type
from .printer import print_statement
from .script import parse, parse_expression, parse_type, split
from .variables import substitute

__all__ = [
    "LONGEST_MS",
    "Parameters",
    "SyntaxFailure",
    "Values",
    "literal_text",
    "parameter_keys",
    "parse",
    "parse_expression",
    "parse_type",
    "print_expression",
    "print_statement",
    "print_type",
    "read_duration",
    "split",
    "statements",
    "substitute",
    "without_continuations",
]
