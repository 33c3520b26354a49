"""The headers of every response in addition to its own, including protocol errors."""

from __future__ import annotations

HSTS_SECONDS = 31_536_000
_EVERY = (
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"referrer-policy", b"no-referrer"),
    (b"cache-control", b"no-store"),
)


def common_headers(*, secure: bool) -> list[tuple[bytes, bytes]]:
    """The headers of every response; `secure`: for responses over TLS."""
    if secure:
        hsts = b"max-age=%d; includeSubDomains" % HSTS_SECONDS
        return [*_EVERY, (b"strict-transport-security", hsts)]
    return list(_EVERY)
