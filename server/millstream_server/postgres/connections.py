"""Connections of PostgreSQL's clients: their encryption, who they are, and their sessions."""

from __future__ import annotations

import asyncio
import base64
import logging
import secrets
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from millstream_server.auth.auth import Method
from millstream_server.auth.endpoint_needs import POSTGRES
from millstream_server.auth.principal import ANONYMOUS, Principal
from millstream_server.auth.scram import MECHANISM, ScramError, challenge
from millstream_server.failures import RefusedError
from millstream_server.http.admission import Admission
from millstream_server.http.connections import PEER
from millstream_server.postgres import messages as m
from millstream_server.postgres.message_transport import STARTUP_BYTES_MAX, MessageTransport, Reader
from millstream_server.postgres.refusals import (
    INTERNAL,
    NOT_SUPPORTED,
    PROTOCOL_VIOLATION,
    SHUTDOWN,
    PgError,
    of_refusal,
)
from millstream_server.postgres.session import Session
from millstream_server.postgres.session_state import SessionState
from millstream_server.postgres.settings import REPORTED, changed
from millstream_server.server import Server

_LOG = logging.getLogger("millstream.server.postgres")
_REFUSED = "28000"


@dataclass(frozen=True, slots=True)
class PostgresLimits:
    """`start_s`: until a client is authenticated; `stall_s`: how long it may read nothing.
    `only_tls`: connections without encryption are refused."""

    start_s: float = 10.0
    stall_s: float = 60.0
    only_tls: bool = False


@dataclass(slots=True, eq=False)
class _Connection:
    """One connection, as admission sees it."""

    transport: MessageTransport
    authenticated: bool = False
    serving: bool = False

    @property
    def idle(self) -> bool:
        """Whether it may be closed to make room, as its client is not authenticated yet."""
        return not self.serving

    def close(self) -> None:
        """See `Admitted`."""
        self.transport.abort()


@dataclass(slots=True, eq=False)
class PostgresConnections:
    """All connections to the listener. Used in the event loop's thread."""

    server: Server
    admission: Admission
    limits: PostgresLimits = field(default_factory=PostgresLimits)
    tls: Callable[[], ssl.SSLContext] | None = None
    _sessions: dict[m.CancelKey, Session] = field(default_factory=dict)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def opened(self) -> asyncio.StreamReaderProtocol:
        """The protocol of a new connection."""
        return asyncio.StreamReaderProtocol(Reader(), self._connected)

    async def end(self, patience_s: float) -> None:
        """End all sessions."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=patience_s)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, Reader)
        bytes_max = self.server.settings.body_bytes_max
        transport = MessageTransport(reader, writer, bytes_max, self.limits.stall_s)
        connection, task = _Connection(transport), asyncio.current_task()
        assert task is not None
        if not self.admission.admit(connection, transport.address):
            transport.abort()
            return
        self._tasks.add(task)
        try:
            await self._served(connection)
        except (ConnectionError, ssl.SSLError, TimeoutError):
            transport.abort()
        except asyncio.CancelledError:
            transport.write(_fatal(PgError("terminating connection", code=SHUTDOWN)))
        except Exception:
            _LOG.exception("A session of PostgreSQL's protocol failed")
            transport.write(
                _fatal(PgError("The session failed; see the server's log", code=INTERNAL))
            )
        finally:
            self._tasks.discard(task)
            self.admission.remove(connection)
            await transport.close()

    async def _served(self, connection: _Connection) -> None:
        transport = connection.transport
        try:
            async with asyncio.timeout(self.limits.start_s):
                client = await self._started(connection)
            if client is not None:
                await self._session(client, transport)
        except m.ProtocolError as error:
            transport.write(_fatal(PgError(f"Not the protocol: {error}", code=PROTOCOL_VIOLATION)))
        except RefusedError as error:
            transport.write(_fatal(of_refusal(error)))
        except PgError as error:
            transport.write(_fatal(error))

    async def _session(self, client: SessionState, transport: MessageTransport) -> None:
        key = m.CancelKey(1 + secrets.randbelow((1 << 31) - 1), secrets.randbits(31))
        session = Session(client, transport)
        self._sessions[key] = session
        try:
            for name, told in REPORTED.items():
                transport.write(m.parameter_status(told, client.settings[name]))
            transport.write(m.key_data(key) + m.ready("I"))
            await session.serve()
        finally:
            del self._sessions[key]

    async def _started(self, connection: _Connection) -> SessionState | None:
        """The client, once it is known who it is; None if it only wanted to cancel."""
        transport = connection.transport
        startup = await self._startup(transport)
        if startup is None:
            return None
        user = startup.parameters.get("user", "")
        if not user:
            raise PgError("no PostgreSQL user name specified in startup packet", code=_REFUSED)
        if self.limits.only_tls and not transport.encrypted:
            raise PgError(
                "Connections without encryption are refused here.",
                hint="Connect with sslmode=require, or verify-full.",
                code=_REFUSED,
            )
        unknown = [name for name in startup.parameters if name.startswith("_pq_.")]
        if startup.minor or unknown:
            transport.write(m.negotiated(0, unknown))
        principal = await self._authenticated(transport, user)
        if principal is not ANONYMOUS:
            self.admission.authenticate(connection)
        connection.serving = True
        transport.write(m.AUTHENTICATED)
        return self._client(principal, user, startup)

    async def _startup(self, transport: MessageTransport) -> m.Startup | None:
        # A client may ask once for each kind of encryption.
        for _ in range(3):
            match await transport.first():
                case m.Negotiation(tls=True) if self.tls is not None and not transport.encrypted:
                    await transport.encrypt(self.tls())
                case m.Negotiation():
                    transport.write(b"N")
                    await transport.drain()
                case m.CancelKey() as key:
                    if (session := self._sessions.get(key)) is not None:
                        session.cancel()
                    return None
                case m.Startup() as startup:
                    return startup
                case None:
                    return None
        raise m.ProtocolError("encryption was asked for again and again")

    def _client(self, principal: Principal, user: str, startup: m.Startup) -> SessionState:
        client = SessionState(self.server, principal, user)
        client.settings["session_authorization"] = user
        given = dict(startup.parameters)
        if given.pop("replication", "false").lower() not in ("false", "off", "no", "0"):
            raise PgError("There is no replication here.", code=NOT_SUPPORTED)
        for name, value in (*given.items(), *_options(given.get("options", ""))):
            new = changed(name.lower(), value, strict=False)
            if new is not None:
                client.settings[new[0]] = new[1]
            elif "." in name and not name.startswith("_pq_."):
                client.properties[name] = value
        return client

    # --- who the client is

    async def _authenticated(self, transport: MessageTransport, user: str) -> Principal:
        """Raises RefusedError, PgError, ProtocolError."""
        guard, scope = self.server.guard, _scope(transport)
        match guard.method(scope):
            case Method.NONE | Method.CERTIFICATE:
                return await guard.authenticate(scope)
            case Method.SCRAM:
                return await self._proved(transport, user, scope)
            case Method.TOKEN:
                header = b"Bearer " + (await self._password(transport)).encode()
            case Method.PASSWORD:
                pair = f"{user}:{await self._password(transport)}".encode()
                header = b"Basic " + base64.b64encode(pair)
        return await guard.authenticate({**scope, "headers": [(b"authorization", header)]})

    async def _password(self, transport: MessageTransport) -> str:
        transport.write(m.ASK_PASSWORD)
        return m.decoded((await _secret(transport)).removesuffix(b"\0"))

    async def _proved(
        self, transport: MessageTransport, user: str, scope: dict[str, Any]
    ) -> Principal:
        guard = self.server.guard
        verifier = guard.verifier(user, scope)
        transport.write(m.ask_sasl([MECHANISM]))
        try:
            asked = challenge(m.sasl_first(await _secret(transport), MECHANISM), verifier)
            transport.write(m.sasl_step(asked.first.encode(), last=False))
            last = asked.proved(m.decoded(await _secret(transport)))
        except ScramError as error:
            raise m.ProtocolError(str(error)) from error
        principal = guard.proved(user, verifier, scope, right=last is not None)
        assert last is not None
        transport.write(m.sasl_step(last.encode(), last=True))
        return principal


async def _secret(transport: MessageTransport) -> bytes:
    await transport.drain()
    match await transport.message(STARTUP_BYTES_MAX):
        case m.Secret(body):
            return body
        case None:
            raise ConnectionResetError("the client has left")
    raise m.ProtocolError("another message instead of a password")


def _scope(transport: MessageTransport) -> dict[str, Any]:
    """What the guard knows requests by."""
    return {
        "type": "postgres",
        "path": POSTGRES,
        "headers": [],
        "client": (transport.address, 0),
        PEER: transport.certificate(),
    }


def _options(text: str) -> list[tuple[str, str]]:
    """`-c name=value` and `--name=value` in the options of a client, `\\ ` being a space."""
    words = [word.replace("\0", " ") for word in text.replace("\\ ", "\0").split()]
    found = []
    for number, word in enumerate(words):
        given = words[number + 1] if word == "-c" and number + 1 < len(words) else word
        if word == "-c" or (word.startswith(("-c", "--")) and "=" in word):
            name, separator, value = given.removeprefix("-c").removeprefix("--").partition("=")
            if separator:
                found.append((name.replace("-", "_"), value))
    return found


def _fatal(error: PgError) -> bytes:
    return m.failed(error.fields("FATAL"))
