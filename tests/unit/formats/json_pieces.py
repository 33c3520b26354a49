"""Payloads that begin with a JSON value, or nearly so, followed by anything."""

from __future__ import annotations

from hypothesis import strategies as st

FIRSTS = [
    *(b"1", b"12", b"-7", b"0", b"-0", b"1.5", b"1e2", b"01", b"1.", b"-", b"+1", b".5", b"NaN"),
    *(b"true", b"false", b"null", b"nul", b'"a"', b'"\xc3\xa9"', b'""', b'"a', b'"\xff"', b"'a'"),
    *(b'"\x01"', b'"\\x"', b'"\\n"', b"{}", b"[]", b"[1,2]", b"[1,]", b"[1 2]", b'{"a":1}'),
    *(b'{"a":1', b'{"a":1,}', b'{"a":[true,null]}', b'{"a":"\xff"}', b"", b" ", b"1e400"),
]
RESTS = [
    *(b"", b" ", b"\n", b"\r", b"\t", b"\x00", b",", b"]", b"}", b"{", b"[", b"12", b"abc", b'"x"'),
    *(
        b".",
        b"e",
        b"E5",
        b"-",
        b"+",
        b"_",
        b"$",
        b"\x7f",
        b":",
        b"/",
        b"\\",
        b"#",
        b"`",
        b"^",
        b"@",
    ),
    *(b"~", b"|", b"true", b"null", b"\xff\xfe", b"\xc3\xa9", b"\xe2\x86\x92", b"\xc3", b"\xa0"),
    *(b"\xef\xbb\xbf", b"\x0c", b"\x1f", b"//c", b"\x00\x00\x01\x8b\xcf\xe5h\x00"),
]
MARKS = [b"", b"", b"", b" ", b"\x0c", b"\xef\xbb\xbf", b"\xfe\xff", b"\xff\xfe", b"\x00", b","]
ENCODINGS = ["utf-8", "utf-8", "utf-8", "utf-16", "utf-16-le", "utf-16-be", "utf-32-le"]


@st.composite
def payloads(draw: st.DrawFn) -> bytes:
    """A payload."""
    pieces = draw(st.lists(st.sampled_from(RESTS + FIRSTS), max_size=3))
    found = draw(st.sampled_from(MARKS)) + draw(st.sampled_from(FIRSTS)) + b"".join(pieces)
    encoding = draw(st.sampled_from(ENCODINGS))
    try:
        return found.decode().encode(encoding)
    except UnicodeDecodeError:
        return found
