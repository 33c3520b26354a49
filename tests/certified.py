"""Certificates made for one test: an authority, and what it signs."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)
from cryptography.x509.oid import NameOID


@dataclass(frozen=True)
class Authority:
    """A key that signs, and its certificate in a file."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    file: Path

    def signed(self, name: str, folder: Path, password: str = "") -> Path:
        """A PEM file with a new key and its certificate for `name` and this machine."""
        key = ec.generate_private_key(ec.SECP256R1())
        made = _certificate(name, key, self.certificate.subject, self.key, authority=False)
        encryption = BestAvailableEncryption(password.encode()) if password else NoEncryption()
        file = folder / f"{name}.pem"
        file.write_bytes(
            key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption)
            + made.public_bytes(Encoding.PEM)
        )
        file.chmod(0o600)
        return file


def authority(name: str, folder: Path) -> Authority:
    """A new one."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(name)
    made = _certificate(name, key, subject, key, authority=True)
    file = folder / f"{name}.pem"
    file.write_bytes(made.public_bytes(Encoding.PEM))
    return Authority(key, made, file)


def _name(name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _certificate(
    name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Name,
    signing: ec.EllipticCurvePrivateKey,
    *,
    authority: bool,
) -> x509.Certificate:
    now = datetime.now(UTC)
    here = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    return (
        x509.CertificateBuilder()
        .subject_name(_name(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(x509.BasicConstraints(authority, None), critical=True)
        .add_extension(x509.SubjectAlternativeName(here), critical=False)
        .sign(signing, hashes.SHA256())
    )
