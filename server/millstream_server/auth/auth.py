"""Authentication: Basic, bearer and client certificates to a Principal or a Refusal.

Only the rare reading of signing keys uses the network; passwords cost a tenth of a second of CPU.
An event loop must call `authenticate` in a thread.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from fnmatch import fnmatchcase

from millstream_server.auth.backoff import Backoff
from millstream_server.auth.certificates import Subjects, subject_of
from millstream_server.auth.passwords import User, Users
from millstream_server.auth.principal import (
    ANONYMOUS,
    Credentials,
    Principal,
    Refusal,
    forbidden,
    too_many,
    unauthenticated,
)
from millstream_server.auth.scram import Verifier
from millstream_server.auth.tokens import TokenRefusedError, Tokens

HEADER_BYTES_MAX = 12_288
TRIES_AT_A_TIME = 4
"""Each uses 32 MiB of memory and a core."""
TRY_WAIT_S = 5.0
KNOWN_FOR_S = 60.0
KNOWN_MAX = 1_000
Headers = Iterable[tuple[bytes, bytes]]
PeerCertificate = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Rules:
    """The allowed users: `roles` (`**`: every user, `*`: users with any role, else names), and the
    paths (globs) without authentication."""

    roles: Sequence[str] = ("**",)
    skip_paths: Sequence[str] = ()
    realm: str = "millstream"


class Method(Enum):
    """A way to authenticate at a connection: not at all, by the client's certificate, by sending a
    token or a password, or by proving the password."""

    NONE = "none"
    CERTIFICATE = "certificate"
    TOKEN = "token"
    PASSWORD = "password"
    SCRAM = "scram"


class Authenticator:
    """The enabled methods; without any, every client is ANONYMOUS. Thread-safe."""

    def __init__(
        self,
        rules: Rules,
        clock: Callable[[], float],
        *,
        users: Users | None = None,
        tokens: Tokens | None = None,
        subjects: Subjects | None = None,
    ) -> None:
        """`clock`: monotonic seconds."""
        self._rules = rules
        self._users, self._tokens, self._subjects = users, tokens, subjects
        self._backoff = Backoff(clock)
        self._known = KnownPasswords(clock)
        self._tries = threading.BoundedSemaphore(TRIES_AT_A_TIME)

    def go_on(self, before: Authenticator) -> None:
        """Take over the failed attempts, and the bound on attempts, of the previous authenticator.
        The cache of correct passwords is not taken over, because passwords may have changed."""
        self._backoff, self._tries = before._backoff, before._tries

    @property
    def on(self) -> bool:
        """Whether authentication is on."""
        return any(m is not None for m in (self._users, self._tokens, self._subjects))

    def authenticate(
        self,
        headers: Headers,
        peer: PeerCertificate | None = None,
        *,
        path: str = "",
        address: str = "",
    ) -> Principal | Refusal:
        """`headers` as in an ASGI scope; `peer`: the verified certificate of the client as
        ssl.SSLSocket.getpeercert() gives it; `address`: of the other end of the connection."""
        if not self.on or self._skipped(path):
            return ANONYMOUS
        given = [value for name, value in headers if name.lower() == b"authorization"]
        if len(given) > 1 or (given and len(given[0]) > HEADER_BYTES_MAX):
            return self._refused("more than one Authorization header, or a very long one")
        return self._admitted(Credentials(given[0] if given else None, peer), address)

    def _skipped(self, path: str) -> bool:
        return any(fnmatchcase(path, glob) for glob in self._rules.skip_paths)

    def again(self, principal: Principal) -> Principal | Refusal:
        """Authenticate a client again by its earlier credentials, perhaps of another authenticator.
        A wrong password does not count as a failed attempt: it was right before."""
        if not self.on or principal.by is None:
            return principal
        return self._admitted(principal.by, None)

    def _admitted(self, shown: Credentials, address: str | None) -> Principal | Refusal:
        found = self._recognised(shown, address)
        if isinstance(found, Refusal):
            return found
        if not self._let_in(found):
            return forbidden("None of your roles may use this server.", reason=found.name)
        return replace(found, by=shown)

    def method(self, peer: PeerCertificate | None, path: str) -> Method:
        """How a client authenticates where it is asked once, at its connection."""
        if not self.on or self._skipped(path):
            return Method.NONE
        if self._subjects is not None and (peer or (self._users is None and self._tokens is None)):
            return Method.CERTIFICATE
        if self._users is None:
            return Method.TOKEN
        return Method.SCRAM if self._users.by_scram else Method.PASSWORD

    def verifier(self, name: str, address: str) -> Verifier | Refusal:
        """The verifier of a user, for SCRAM; of an unknown one it is one that nothing fits."""
        assert self._users is not None
        if (wait := self._backoff.wait(name, address)) > 0:
            return too_many("Too many failed attempts to authenticate.", wait, "E-AUTH-WAIT")
        return self._users.verifier(name)

    def proved(
        self, name: str, verifier: Verifier, address: str, *, right: bool
    ) -> Principal | Refusal:
        """Authenticate a client that has proved by SCRAM that it knows the password, or has not."""
        if not right:
            self._backoff.failed(name, address)
            return self._refused(f"wrong user or password: {name}")
        self._backoff.succeeded(name, address)
        return self._admitted(Credentials(proved=(name, verifier)), address)

    def _recognised(self, shown: Credentials, address: str | None) -> Principal | Refusal:
        if shown.proved is not None:
            name, verifier = shown.proved
            user = None if self._users is None else self._users.having(name, verifier)
            if user is None:
                return self._refused("the password was changed")
            return Principal(user.name, user.roles, "scram")
        if shown.authorization is None:
            return self._by_certificate(shown.certificate)
        scheme, _, rest = shown.authorization.decode("latin-1").partition(" ")
        match scheme.lower():
            case "basic" if self._users is not None:
                return self._by_password(rest.strip(), address, self._users)
            case "bearer" if self._tokens is not None:
                try:
                    return self._tokens.principal(rest.strip())
                except TokenRefusedError as error:
                    return self._refused(str(error))
        return self._refused("a scheme that is not accepted")

    def _by_certificate(self, peer: PeerCertificate | None) -> Principal | Refusal:
        if self._subjects is None or not peer:
            return self._refused("no credentials")
        subject = subject_of(peer)
        found = self._subjects.get(subject)
        return self._refused(f"unknown subject {subject}") if found is None else found

    def _by_password(self, text: str, address: str | None, users: Users) -> Principal | Refusal:
        """`address` is None for a client that was authenticated before."""
        try:
            decoded = base64.b64decode(text, validate=True).decode("utf-8")
        except (binascii.Error, UnicodeDecodeError):
            return self._refused("no base64 of UTF-8")
        name, _, password = decoded.partition(":")
        if (known := self._known.get(name, password)) is not None:
            return known
        if address is None:
            user = users.verified(name, password)
            return self._refused("wrong now") if user is None else self._known.put(user, password)
        if (wait := self._backoff.wait(name, address)) > 0:
            return too_many("Too many failed attempts to authenticate.", wait, "E-AUTH-WAIT")
        if not self._tries.acquire(timeout=TRY_WAIT_S):
            return too_many("Too many attempts to authenticate at a time.", 1.0, "E-AUTH-WAIT")
        try:
            user = users.verified(name, password)
        finally:
            self._tries.release()
        if user is None:
            self._backoff.failed(name, address)
            return self._refused(f"wrong user or password: {name}")
        self._backoff.succeeded(name, address)
        return self._known.put(user, password)

    def _let_in(self, principal: Principal) -> bool:
        roles = self._rules.roles
        if "**" in roles or ("*" in roles and principal.roles):
            return True
        return not principal.roles.isdisjoint(roles)

    def _refused(self, reason: str) -> Refusal:
        realm = self._rules.realm.replace("\\", "").replace('"', "")
        offered = []
        if self._users is not None:
            offered.append(f'Basic realm="{realm}", charset="UTF-8"')
        if self._tokens is not None:
            offered.append(f'Bearer realm="{realm}"')
        return unauthenticated(reason, ", ".join(offered) or "Mutual")


@dataclass(slots=True)
class KnownPasswords:
    """A cache of recently verified passwords, so that not each request costs a hash. It stores a
    keyed digest; the key is private to this process."""

    clock: Callable[[], float]
    _key: bytes = field(default_factory=lambda: secrets.token_bytes(32), repr=False)
    _found: OrderedDict[bytes, tuple[Principal, float]] = field(
        default_factory=OrderedDict, repr=False
    )
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def get(self, name: str, password: str) -> Principal | None:
        """The principal of a pair that was verified less than a minute ago."""
        digest = self._digest(name, password)
        with self._lock:
            principal, until = self._found.get(digest, (None, 0.0))
            return principal if self.clock() < until else None

    def put(self, user: User, password: str) -> Principal:
        """Store a verified pair."""
        principal = Principal(user.name, user.roles, "basic")
        with self._lock:
            until = self.clock() + KNOWN_FOR_S
            self._found[self._digest(user.name, password)] = principal, until
            while len(self._found) > KNOWN_MAX:
                self._found.popitem(last=False)
        return principal

    def _digest(self, name: str, password: str) -> bytes:
        text = f"{len(name)}:{name}{password}".encode("utf-8", "surrogatepass")
        return hmac.digest(self._key, text, hashlib.sha256)
