"""Secrets: values that no log, error or repr shows, and references to their storage."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from millstream.model.errors import StatementError

MASK = "***"
FILE_BYTES_MAX = 1 << 20
_REFERENCE = re.compile(r"\$\{(env|file):([^}]*)\}")
_SECRET_KEY = re.compile(
    r"pass(word|phrase|wd)?|\bpwd\b|secret|credential|token|jaas|private|api[._-]?key|ssl[._-]key$"
    r"|(sasl|ssl)\.(username|key\.pem)|user[._-]?info|authorization|cookie",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Secret:
    """A text that only `reveal()` returns. Two secrets are equal when their texts are."""

    _value: str = field(repr=False)

    def reveal(self) -> str:
        """The text itself: for the library that needs it, never in a message."""
        return self._value

    def __bool__(self) -> bool:
        return bool(self._value)

    def __repr__(self) -> str:
        return MASK

    def __str__(self) -> str:
        return MASK

    def __format__(self, spec: str) -> str:
        return MASK

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a secret is not written down")


def is_secret_key(name: str) -> bool:
    """Whether the value of a setting of this name must not appear in logs and responses."""
    return _SECRET_KEY.search(name) is not None


def is_reference(text: str) -> bool:
    """Whether a text refers to a value that is stored elsewhere."""
    return _REFERENCE.search(text) is not None


@dataclass(frozen=True, slots=True)
class References:
    """Resolves `${env:NAME}`, `${file:path}` and `${file:path:key}`."""

    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    read: Callable[[str], str] = field(default=lambda path: read_private(path), repr=False)

    def resolve(self, text: str) -> Secret:
        """The text with its references replaced; raises StatementError for an unresolvable one.
        Replaced text is not searched again."""
        return Secret(_REFERENCE.sub(self._value, text))

    def _value(self, match: re.Match[str]) -> str:
        kind, where = match.groups()
        if kind == "env":
            if where not in self.environment:
                raise StatementError(
                    f"The reference {match[0]} leads nowhere: there is no variable {where}."
                )
            return self.environment[where]
        path, _, key = where.partition(":")
        text = self.read(path)
        if not key:
            return text.strip()
        values = parse_properties(text)
        if key not in values:
            raise StatementError(f"The reference {match[0]} leads nowhere: no key {key} there.")
        return values[key]


def read_private(path: str) -> str:
    """The text of a small file that only its owner may read or write.

    Raises StatementError for one that is accessible to others, too large, not a regular file, or
    missing.
    """
    return _read(path, private=True)


def read_settings(path: str) -> str:
    """The text of a small file that may be public; raises StatementError if it cannot be read."""
    return _read(path, private=False)


def _read(path: str, *, private: bool) -> str:
    try:
        # Do not block on a pipe: the file type is known only after opening.
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise StatementError(f"Cannot read '{path}': it is no plain file.")
            if private and found.st_mode & 0o077:
                raise StatementError(
                    f"'{path}' holds secrets, and others than its owner may use it.",
                    hint=f"chmod 600 {path}",
                )
            if found.st_size > FILE_BYTES_MAX:
                raise StatementError(f"Cannot read '{path}': it is larger than 1 MiB.")
            return os.read(descriptor, FILE_BYTES_MAX).decode("utf-8")
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StatementError(f"Cannot read '{path}': {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise StatementError(f"Cannot read '{path}': it is no UTF-8 text.") from error


def numbered(text: str) -> Iterator[tuple[int, str]]:
    """The lines of a file with their numbers, without blank lines and `#` comments."""
    for number, line in enumerate(text.splitlines(), 1):
        said = line.strip()
        if said and not said.startswith("#"):
            yield number, said


def parse_properties(text: str) -> dict[str, str]:
    """The settings of a properties file: `key=value` or `key: value`, `#` comments, lines continued
    by a final backslash. The last of several values of a key wins."""
    found: dict[str, str] = {}
    joined = re.sub(r"\\\r?\n[ \t]*", "", text)
    for line in joined.splitlines():
        line = line.strip()
        if line and line[0] not in "#!":
            key, separator, value = line.partition("=")
            if not separator:
                key, _, value = line.partition(":")
            found[key.strip()] = value.strip()
    return found
