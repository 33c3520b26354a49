"""Users, their password hashes and roles: a file of lines `user: hash[, role…]`.

A hash is `scrypt:<log2 n>:<r>:<p>:<salt>:<key>` (base64 without padding), made by `hashed`, or a
verifier of SCRAM, see `scram`. All users of a file have the same kind: how long an answer takes, or
what is asked for, would tell which users there are.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from millstream.model.errors import StatementError
from millstream_server.auth.scram import MECHANISM, Verifier, decoy, read_verifier, verifier_of
from millstream_server.bootstrap.secret import numbered

SALT_BYTES, KEY_BYTES = 16, 32
COST = (15, 8, 1)
"""log2 n, r, p: 32 MiB and some 0.1 s for each try (OWASP's choice for an interactive login)."""
COST_MAX = (17, 8, 3)
PASSWORD_BYTES_MAX = 1024
_MEMORY_MAX = 200 << 20


@dataclass(frozen=True, slots=True)
class ScryptHash:
    """The stored hash of a password."""

    cost: tuple[int, int, int]
    salt: bytes = field(repr=False)
    key: bytes = field(repr=False)

    def text(self) -> str:
        """Its format in the file."""
        encoded = (base64.b64encode(part).decode().rstrip("=") for part in (self.salt, self.key))
        return ":".join(("scrypt", *map(str, self.cost), *encoded))

    def fits(self, password: str) -> bool:
        """Whether this is the password, compared in constant time."""
        raw = password.encode("utf-8", "surrogatepass")
        key = _derived(raw[:PASSWORD_BYTES_MAX], self.salt, self.cost)
        return hmac.compare_digest(key, self.key) and len(raw) <= PASSWORD_BYTES_MAX


@dataclass(frozen=True, slots=True)
class User:
    """One line of the file."""

    name: str
    hash: ScryptHash | Verifier
    roles: frozenset[str]


class Users:
    """All users, immutable. An unknown name takes as much time as a known one."""

    def __init__(self, users: Sequence[User]) -> None:
        self._users: Mapping[str, User] = {user.name: user for user in users}
        hashes = [user.hash for user in users]
        self._secret = secrets.token_bytes(32)
        self._iterations = max((h.iterations for h in hashes if isinstance(h, Verifier)), default=0)
        costs = [h.cost for h in hashes if isinstance(h, ScryptHash)]
        self._decoy: ScryptHash | Verifier = (
            decoy("", self._secret, self._iterations)
            if self._iterations
            else hashed(secrets.token_hex(16), max(costs, default=COST))
        )

    @property
    def by_scram(self) -> bool:
        """Whether the users have verifiers of SCRAM."""
        return self._iterations > 0

    def verifier(self, name: str) -> Verifier:
        """The verifier of a user, or one that no password fits; with `by_scram` only."""
        user = self._users.get(name)
        if user is not None and isinstance(user.hash, Verifier):
            return user.hash
        return decoy(name, self._secret, self._iterations)

    def having(self, name: str, verifier: Verifier) -> User | None:
        """The user, if this is its verifier."""
        user = self._users.get(name)
        return user if user is not None and user.hash == verifier else None

    def verified(self, name: str, password: str) -> User | None:
        """The user, if the password is theirs."""
        user = self._users.get(name)
        fits = (self._decoy if user is None else user.hash).fits(password)
        return user if fits else None


def hashed(password: str, cost: tuple[int, int, int] = COST) -> ScryptHash:
    """A new hash of a password, with a new salt."""
    raw = password.encode("utf-8", "surrogatepass")
    if not 0 < len(raw) <= PASSWORD_BYTES_MAX:
        raise StatementError(f"A password has 1 to {PASSWORD_BYTES_MAX} bytes.")
    salt = secrets.token_bytes(SALT_BYTES)
    return ScryptHash(cost, salt, _derived(raw, salt, cost))


def hashed_for_scram(password: str) -> Verifier:
    """The same as a verifier of SCRAM, for clients of PostgreSQL."""
    if not 0 < len(password.encode("utf-8", "surrogatepass")) <= PASSWORD_BYTES_MAX:
        raise StatementError(f"A password has 1 to {PASSWORD_BYTES_MAX} bytes.")
    return verifier_of(password)


def read_users(text: str) -> Users:
    """The users of a file's text; raises StatementError for an invalid line."""
    users: dict[str, User] = {}
    for number, line in numbered(text):
        name, separator, rest = line.partition(": ")
        hashtext, *roles = (part.strip() for part in rest.split(","))
        name = name.strip()
        if not separator or not name or ":" in name:
            raise _wrong(number, "write `user: hash, role, …`")
        if name in users:
            raise _wrong(number, "the user is in the file already")
        try:
            known = _read_hash(hashtext)
        except (ValueError, binascii.Error):
            raise _wrong(number, "the hash is none that is accepted") from None
        if users and type(known) is not type(next(iter(users.values())).hash):
            raise _wrong(number, "all hashes are of scrypt, or all are verifiers of SCRAM")
        users[name] = User(name, known, frozenset(filter(None, roles)))
    return Users(tuple(users.values()))


def _read_hash(text: str) -> ScryptHash | Verifier:
    if text.startswith(MECHANISM):
        return read_verifier(text)
    scheme, *numbers, salt, key = text.split(":")
    n, r, p = map(int, numbers)
    most_n, most_r, most_p = COST_MAX
    if scheme != "scrypt" or not (14 <= n <= most_n and r == most_r and 1 <= p <= most_p):
        raise ValueError(scheme)
    raw_salt, raw_key = _decoded(salt), _decoded(key)
    if len(raw_salt) < SALT_BYTES or len(raw_key) != KEY_BYTES:
        raise ValueError(scheme)
    return ScryptHash((n, r, p), raw_salt, raw_key)


def _decoded(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)


def _derived(password: bytes, salt: bytes, cost: tuple[int, int, int]) -> bytes:
    n, r, p = cost
    return hashlib.scrypt(
        password, salt=salt, n=1 << n, r=r, p=p, maxmem=_MEMORY_MAX, dklen=KEY_BYTES
    )


def _wrong(number: int, why: str) -> StatementError:
    # The line itself is not shown: it may contain a plain password.
    return StatementError(f"Line {number} of the users' file: {why}.", code="E-CONFIG")
