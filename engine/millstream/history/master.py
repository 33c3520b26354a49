"""The location of Spark's cluster, derived from its master URL."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from contextlib import suppress

from millstream.model.errors import UnavailableError

_LOOPBACK = ("127.", "localhost", "[::1]")
_STANDALONE = "spark://"
_PORT = 7077
_PATIENCE_SECONDS = 5.0


def retrying(master: str) -> str:
    """The master URL with retries: in local mode, Spark attempts a task only once by default."""
    found = re.fullmatch(r"local\[([0-9*]+)\]", master)
    return f"local[{found[1]},4]" if found else master


def in_process(master: str) -> bool:
    """Whether tasks run in the JVM that this process starts."""
    return master.split("[")[0] == "local"


def on_this_machine(master: str) -> bool:
    """Whether no other machine must connect to this process."""
    hosts = [host for host, _ in _addresses(master)]
    near = bool(hosts) and all(host.startswith(_LOOPBACK) for host in hosts)
    return near or master.split("[")[0] in ("local", "local-cluster")


def check_master(master: str) -> None:
    """Raise UnavailableError if a standalone cluster does not respond, which Spark itself detects
    only after minutes; other kinds are not checked."""
    addresses = tuple(_addresses(master))
    failed = ""
    for host, port in addresses:
        try:
            with (
                suppress(ValueError),
                socket.create_connection((host.strip("[]"), int(port or _PORT)), _PATIENCE_SECONDS),
            ):
                return
        except OSError as error:
            failed = failed or f"{host}: {error.strerror or error}"
    if failed:
        raise UnavailableError(
            f"No Spark master answers at {master}",
            detail=failed,
            hint="Is the cluster up (sbin/start-master.sh, start-worker.sh), and is this its URL,"
            " as its log and its page tell it?",
            code="E-SPARK",
        )


def _addresses(master: str) -> Iterator[tuple[str, str]]:
    """Host and port of each master of a standalone cluster."""
    if master.startswith(_STANDALONE):
        for address in master.removeprefix(_STANDALONE).split(","):
            host, colon, port = address.rpartition(":")
            yield (host, port) if colon else (port, "")
