"""The parser's exception, with the position and a hint."""

from __future__ import annotations

from .span import Span


class SyntaxFailure(Exception):  # noqa: N818 - the public name in every error listing
    """A script is not in the language.

    `message` starts with `line L:C:`; `detail` shows the line with a caret below the offending
    token; `hint` says what to change and may be empty. `unexpected`: the token has no place where
    it stands; otherwise the language is able to read it, and refuses it.
    """

    code = "E-SYNTAX"

    def __init__(
        self,
        message: str,
        span: Span,
        hint: str = "",
        detail: str = "",
        *,
        unexpected: bool = False,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.span = span
        self.hint = hint
        self.detail = detail
        self.unexpected = unexpected

    def __str__(self) -> str:
        return "\n".join(part for part in (self.message, self.detail, self.hint) if part)
