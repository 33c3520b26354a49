"""Properties and variables of a session with a server: SET, UNSET, DEFINE, UNDEFINE."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from millstream.model.errors import StatementError
from millstream.scripts.text import parse_text
from millstream_cli.sessions.results import Message, Outcome, ResultTable
from millstream_parser.statements import DefineVariable, Listing, SetProperty, Show


@dataclass(slots=True)
class Settings:
    """The settings that are sent with each statement. Names of variables are in upper case."""

    properties: dict[str, str] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    @staticmethod
    def knows(words: Sequence[str]) -> bool:
        """Whether a statement that begins with these words is about the settings."""
        match list(words[:2]):
            case ["SET" | "UNSET" | "DEFINE" | "UNDEFINE", *_]:
                return True
            case ["SHOW" | "LIST", "VARIABLES"]:
                return True
            case _:
                return False

    def apply(self, statement: str, check: Callable[[str], None]) -> Outcome:
        """Carry out a statement; `check` raises an error for a property that the server does not
        support."""
        [piece] = parse_text(statement)
        match piece.statement:
            case SetProperty(name, str(value)):
                check(name)
                before = self.properties.get(name)
                self.properties[name] = value
                was = f" from '{before}'" if before is not None else ""
                return Message(f"Successfully changed local property '{name}'{was} to '{value}'.")
            case SetProperty(name, None):
                if self.properties.pop(name, None) is None:
                    raise StatementError(f"Cannot unset {name}: it was not set in this session")
                return Message(f"Successfully unset local property '{name}'.")
            case DefineVariable(name, str(value)):
                self.variables[name] = value
                return Message(f"Variable {name} defined")
            case DefineVariable(name, None):
                if self.variables.pop(name, None) is None:
                    return Message(f"Cannot find variable with name '{name}'", warning=True)
                return Message(f"Variable {name} undefined")
            case Show(listing=Listing.VARIABLES):
                return ResultTable(["Variable Name", "Value"], sorted(self.variables.items()))
        raise StatementError("This is no setting.")
