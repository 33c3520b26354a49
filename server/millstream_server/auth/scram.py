"""SCRAM-SHA-256 (RFC 5802, RFC 7677): the server's half, and what it stores of a password.

A verifier is written as PostgreSQL stores it, `SCRAM-SHA-256$<iterations>:<salt>$<stored>:<server>`
(base64): one may be copied from there. Without channel binding.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets
import stringprep
import unicodedata
from dataclasses import dataclass, field

MECHANISM = "SCRAM-SHA-256"
ITERATIONS = 100_000
"""The clients of most languages compute so many in some 0.1 s."""
ITERATIONS_MIN, ITERATIONS_MAX = 4_096, 1_000_000
_SALT_BYTES, _NONCE_BYTES = 16, 18
_TEXT = re.compile(r"SCRAM-SHA-256\$([0-9]{1,7}):([^$:]+)\$([^$:]+):([^$:]+)")
_FIRST = re.compile(r"(?:([ny]),(?:a=[^,]*)?,)(n=([^,]*),r=([!-+\--~]+)(?:,[a-z]=[^,]*)*)")
_FINAL = re.compile(r"(c=([A-Za-z0-9+/=]+),r=([!-+\--~]+)(?:,[a-z]=[^,]*)*),p=([A-Za-z0-9+/=]+)")


class ScramError(Exception):
    """A message that is none of SCRAM."""


@dataclass(frozen=True, slots=True)
class Verifier:
    """What is stored of a password: it does not suffice to authenticate."""

    iterations: int
    salt: bytes = field(repr=False)
    stored: bytes = field(repr=False)
    server: bytes = field(repr=False)

    def text(self) -> str:
        """Its format in the file."""
        salt, stored, server = map(_encoded, (self.salt, self.stored, self.server))
        return f"{MECHANISM}${self.iterations}:{salt}${stored}:{server}"

    def fits(self, password: str) -> bool:
        """Whether this is the password, compared in constant time."""
        made = _derived(password, self.salt, self.iterations)
        return hmac.compare_digest(made.stored, self.stored)


def verifier_of(password: str, iterations: int = ITERATIONS) -> Verifier:
    """A new verifier of a password, with a new salt."""
    return _derived(password, secrets.token_bytes(_SALT_BYTES), iterations)


def read_verifier(text: str) -> Verifier:
    """The verifier of a text; raises ValueError for another text."""
    found = _TEXT.fullmatch(text)
    if found is None:
        raise ValueError("no verifier of SCRAM")
    try:
        salt, stored, server = (
            base64.b64decode(part, validate=True) for part in found.groups()[1:]
        )
    except binascii.Error as error:
        raise ValueError("no base64") from error
    iterations, digest = int(found[1]), hashlib.sha256().digest_size
    if not ITERATIONS_MIN <= iterations <= ITERATIONS_MAX or len(salt) < 8:
        raise ValueError("too weak, or too costly")
    if len(stored) != digest or len(server) != digest:
        raise ValueError("keys of another length")
    return Verifier(iterations, salt, stored, server)


def decoy(name: str, secret: bytes, iterations: int) -> Verifier:
    """The verifier of a user that does not exist: the same each time, and no password fits."""
    salt = hmac.digest(secret, name.encode("utf-8", "surrogatepass"), "sha256")[:_SALT_BYTES]
    return Verifier(iterations, salt, secrets.token_bytes(32), secrets.token_bytes(32))


@dataclass(frozen=True, slots=True)
class Challenge:
    """The state between the two messages of a client. `first` is the server's answer to the
    first."""

    verifier: Verifier
    first: str
    nonce: str
    bare: str
    header: str

    def proved(self, message: str) -> str | None:
        """The last answer if the client's last message proves the password, None if not; raises
        ScramError."""
        found = _FINAL.fullmatch(message)
        if found is None:
            raise ScramError("the last message of SCRAM is none")
        signed, binding, nonce, proof = found.groups()
        try:
            given, header = base64.b64decode(proof, validate=True), base64.b64decode(binding)
        except binascii.Error as error:
            raise ScramError("the last message of SCRAM has no base64") from error
        if header != self.header.encode() or not hmac.compare_digest(nonce, self.nonce):
            raise ScramError("the messages of SCRAM do not belong together")
        text = f"{self.bare},{self.first},{signed}".encode()
        signature = hmac.digest(self.verifier.stored, text, "sha256")
        key = bytes(a ^ b for a, b in zip(given, signature, strict=False))
        right = len(given) == len(signature) and hmac.compare_digest(
            hashlib.sha256(key).digest(), self.verifier.stored
        )
        return f"v={_encoded(hmac.digest(self.verifier.server, text, 'sha256'))}" if right else None


def challenge(message: str, verifier: Verifier) -> Challenge:
    """The answer to a client's first message; raises ScramError. The name in it is not used: a
    session has its user from its start."""
    found = _FIRST.fullmatch(message)
    if found is None:
        raise ScramError("the first message of SCRAM is none, or asks for channel binding")
    flag, bare, _, nonce = found.groups()
    whole = nonce + base64.b64encode(secrets.token_bytes(_NONCE_BYTES)).decode()
    first = f"r={whole},s={_encoded(verifier.salt)},i={verifier.iterations}"
    header = message[: len(message) - len(bare)]
    assert header.startswith(flag)
    return Challenge(verifier, first, whole, bare, header)


def _derived(password: str, salt: bytes, iterations: int) -> Verifier:
    raw = prepared(password).encode("utf-8", "surrogatepass")
    salted = hashlib.pbkdf2_hmac("sha256", raw, salt, iterations)
    stored = hashlib.sha256(hmac.digest(salted, b"Client Key", "sha256")).digest()
    return Verifier(iterations, salt, stored, hmac.digest(salted, b"Server Key", "sha256"))


def prepared(password: str) -> str:
    """A password by SASLprep (RFC 4013); as PostgreSQL, what that forbids stays as it is."""
    if password.isascii():
        return password
    mapped = "".join(
        " " if stringprep.in_table_c12(char) else char
        for char in password
        if not stringprep.in_table_b1(char)
    )
    found = unicodedata.normalize("NFKC", mapped)
    forbidden = (
        *(stringprep.in_table_c12, stringprep.in_table_c21_c22, stringprep.in_table_c3),
        *(stringprep.in_table_c4, stringprep.in_table_c5, stringprep.in_table_c6),
        *(stringprep.in_table_c7, stringprep.in_table_c8, stringprep.in_table_c9),
    )
    if not found or any(test(char) for char in found for test in forbidden):
        return password
    if any(map(stringprep.in_table_d1, found)):
        ends = stringprep.in_table_d1(found[0]) and stringprep.in_table_d1(found[-1])
        if not ends or any(map(stringprep.in_table_d2, found)):
            return password
    return found


def _encoded(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
