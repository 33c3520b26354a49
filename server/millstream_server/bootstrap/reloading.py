"""Reads files again on SIGHUP: users, tokens' keys, subjects, rules, certificates, the audit
log."""

from __future__ import annotations

import logging
import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from millstream.model.errors import MillstreamError, StatementError
from millstream_server.auth.audit import Audit, Event
from millstream_server.auth.gate import Gate
from millstream_server.bootstrap.config import ServerConfig
from millstream_server.bootstrap.wiring import policy
from millstream_server.http.listening import Tls

_LOG = logging.getLogger("millstream.server")


class AuditFile:
    """The file of the audit log, which may be rotated."""

    def __init__(self, path: str) -> None:
        """Raises StatementError (E-CONFIG) if the file cannot be opened."""
        self._path = path
        self._descriptor = _opened(path)

    def write(self, line: str) -> None:
        """Append a line."""
        os.write(self._descriptor, line.encode("ascii"))

    def reopen(self) -> None:
        """Continue in the file that has the name now; a StatementError leaves the old one in
        use."""
        new = _opened(self._path)
        try:
            # In one step, so that no line is lost between the two files.
            os.dup2(new, self._descriptor, inheritable=False)
        finally:
            os.close(new)

    def close(self) -> None:
        """Close the file."""
        os.close(self._descriptor)


def _opened(path: str) -> int:
    try:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StatementError(
            f"Cannot write the audit log to '{path}': {error.strerror}.", code="E-CONFIG"
        ) from error


class Certificate:
    """The certificate for new connections."""

    def __init__(self, tls: Tls) -> None:
        """Raises StatementError (E-CONFIG) for invalid files."""
        self._tls = tls
        self._context = tls.context()

    def context(self) -> ssl.SSLContext:
        """The TLS context of a new connection."""
        return self._context

    def reload(self) -> None:
        """Read the files again; a StatementError leaves the old ones in use."""
        self._context = self._tls.context()


@dataclass(frozen=True, slots=True)
class Reloading:
    """The parts of a running server that depend on files."""

    config: ServerConfig
    gate: Gate
    log: Audit
    certificate: Certificate | None = None
    audit_file: AuditFile | None = None
    recheck: Callable[[], None] = lambda: None
    """Ends ongoing operations that are no longer allowed."""

    def reload(self) -> tuple[str, ...]:
        """Read all files again, each kind as a whole, and report it in the log and the audit log.
        Invalid ones stay unchanged and are returned. May block on the network."""
        kinds: list[tuple[str, Callable[[], None]]] = [("users and rules", self._policy)]
        if self.certificate is not None:
            kinds.append(("certificates", self.certificate.reload))
        if self.audit_file is not None:
            kinds.append(("audit log", self.audit_file.reopen))
        return tuple(kind for kind, read in kinds if not self._read(kind, read))

    def _policy(self) -> None:
        self.gate.policy = policy(self.config, self.gate.engine, before=self.gate.policy)
        self.recheck()

    def _read(self, kind: str, read: Callable[[], None]) -> bool:
        try:
            read()
        except (MillstreamError, OSError, ValueError) as error:
            _LOG.error("Cannot reload the %s, which stay as they were: %s", kind, error)
            self.log.event(Event.ADMIN, action="reload", kind=kind, error=str(error))
            return False
        _LOG.info("Reloaded the %s", kind)
        self.log.event(Event.ADMIN, action="reload", kind=kind)
        return True
