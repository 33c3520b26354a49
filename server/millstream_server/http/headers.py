"""The headers of every response in addition to its own, including protocol errors."""

from __future__ import annotations

HSTS_SECONDS = 31_536_000
_EVERY = (
    (b"x-content-type-options", b"nosniff"),
    # What the console needs, and nothing inline: other responses are no pages and load nothing.
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
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
