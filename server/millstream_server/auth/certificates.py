"""Client certificates: the subject as text, and the principals of subjects."""

from __future__ import annotations

import re
from collections.abc import Mapping

from millstream.model.errors import StatementError
from millstream_server.auth.principal import Principal
from millstream_server.bootstrap.secret import numbered

_SHORT = {
    "commonName": "CN",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "countryName": "C",
    "localityName": "L",
    "stateOrProvinceName": "ST",
    "userId": "UID",
    "domainComponent": "DC",
}
Subjects = Mapping[str, Principal]
"""Principals by the subjects of their certificates."""


def subject_of(peer: Mapping[str, object]) -> str:
    """The subject of a certificate (as ssl gives it) as `CN=…,OU=…`, in the certificate's order.

    Separators within a value are escaped by a backslash, so that no value can be read as two.
    """
    parts = []
    names = peer.get("subject", ())
    assert isinstance(names, tuple)
    for relative in names:
        for name, value in relative:
            escaped = re.sub(r'([\\,+"<>;=#:\x00-\x1f])', r"\\\1", value)
            parts.append(f"{_SHORT.get(name, name)}={escaped}")
    return ",".join(parts)


def read_subjects(text: str) -> Subjects:
    """The principals of a file of lines `subject: principal, role, …`."""
    found: dict[str, Principal] = {}
    for number, line in numbered(text):
        subject, separator, rest = line.partition(": ")
        name, *roles = (part.strip() for part in rest.split(","))
        if not separator or not subject.strip() or not name or subject.strip() in found:
            raise StatementError(
                f"Line {number} of the subjects' file is none of the form "
                "`CN=name,O=organisation: principal, role, …`, or its subject stands twice.",
                code="E-CONFIG",
            )
        found[subject.strip()] = Principal(name, frozenset(filter(None, roles)), "mtls")
    return found
