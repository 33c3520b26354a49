"""Sources with records that cannot be used, and which of their records can be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from millstream import Database
from millstream.log.log import Appended
from millstream.model.batch import raw_batch

Sides = tuple[bytes | None, bytes | None]
WINDOW = bytes.fromhex("0000018bcfe56800")


@dataclass(frozen=True, slots=True)
class BadRecords:
    """A source, valid and invalid records. `empty`: valid ones without a value, which a stream
    forwards and does not count. `key_format`: the default one, if no column is a key."""

    name: str
    columns: str
    formats: str
    good: tuple[Sides, ...]
    bad: tuple[Sides, ...]
    empty: tuple[Sides, ...] = ()
    key_format: str = ""

    def records(self, times: int) -> list[Sides]:
        """All of them, mixed, so many times."""
        return [*self.good, *self.bad, *self.empty, *self.good] * times

    def usable(self, times: int) -> list[int]:
        """The positions of those that produce rows with a value."""
        good = set(self.good)
        return [at for at, record in enumerate(self.records(times)) if record in good]

    def create(self, kind: str = "STREAM") -> str:
        """The statement that creates the source."""
        columns = self.columns if kind == "STREAM" else self.columns.replace(" KEY", " PRIMARY KEY")
        default = f"SET 'ksql.persistence.default.format.key' = '{self.key_format}';"
        return (
            f"{default if self.key_format else ''}"
            f"CREATE {kind} {self.name} ({columns}) "
            f"WITH (KAFKA_TOPIC='{self.name}', PARTITIONS=1, {self.formats});"
        )

    def send(self, db: Database, times: int) -> None:
        """Records as another program would write them; the event time of each is its position."""
        listed = [(key, value, at) for at, (key, value) in enumerate(self.records(times))]
        db.engine.writer.append([Appended(self.name, 0, raw_batch(listed), len(listed))])


class Records(TypedDict):
    """What a source can use of its records, and what it cannot."""

    good: tuple[Sides, ...]
    bad: tuple[Sides, ...]


def values(good: tuple[bytes, ...], bad: tuple[bytes, ...]) -> Records:
    """Records that differ by their values."""
    return Records(good=tuple((b"k", v) for v in good), bad=tuple((b"k", v) for v in bad))


def keys(good: tuple[bytes, ...], bad: tuple[bytes, ...]) -> Records:
    """Records that differ by their keys."""
    return Records(good=tuple((k, b'"v"') for k in good), bad=tuple((k, b'"v"') for k in bad))


NO_VALUE: Sides = (b"k", None)
JSON_COLUMNS = "k STRING KEY, a INT, b STRING, c DECIMAL(4,2), d ARRAY<INT>"
JSON_GOOD = b'{"A":1,"B":"x","C":1.5,"D":[1]}'
STREAMS = (
    BadRecords(
        "json_values",
        JSON_COLUMNS,
        "VALUE_FORMAT='JSON'",
        **values(
            (JSON_GOOD, JSON_GOOD + WINDOW, b'{"B":{"x":[1]}}', b'{"A":"7"} {'),
            (
                *(b"\xff\xfe\x00", b'{"A":1', b'{"A":true}', b'{"A":2147483648}', b'{"C":1.234}'),
                *(b'{"D":[1,"x"]}', b"12", b'"x"', b"12x", b"{nonsense", b'{"B":"\xff"}', b"[]"),
            ),
        ),
        empty=(NO_VALUE, (b"k", b"null"), (b"k", b""), (b"k", b" \n")),
    ),
    BadRecords(
        "bare_json_values",
        "k STRING KEY, a INT",
        "VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false",
        **values((b"1", b'"2"', b"3 x"), (b"x", b"true", b"2147483648", b"1,", b"{}", b"12\x00")),
        empty=(NO_VALUE, (b"k", b"null"), (b"k", b"null\x00")),
    ),
    BadRecords(
        "json_keys",
        "k INT KEY, v STRING",
        "KEY_FORMAT='JSON', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false",
        **keys((b"1", b'"2"', b"3 \x00", b"null"), (b"x", b"1" + WINDOW, b"true", b"\xff", b"[1]")),
        empty=((b"1", None),),
    ),
    BadRecords(
        "windowed_json_keys",
        "k STRING KEY, v STRING",
        "KEY_FORMAT='JSON', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false",
        **keys((b'"a"' + WINDOW, b'{"x":1}' + WINDOW, b'"a"'), (b'"a' + WINDOW, b'a"' + WINDOW)),
    ),
    BadRecords(
        "json_key_records",
        "k INT KEY, l STRING KEY, v STRING",
        "KEY_FORMAT='JSON', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false",
        **keys((b'{"K":1,"L":"x"}' + WINDOW, b"{}"), (b'{"K":"x"}', b"1", b'{"L":"x"')),
    ),
    BadRecords(
        "no_key_columns",
        "v STRING",
        "VALUE_FORMAT='DELIMITED'",
        good=((b"{nonsense", b"v"), (b"\xff" + WINDOW, b"v"), (None, b"v")),
        bad=((b"1", b"\xff"),),
        key_format="JSON",
    ),
    BadRecords(
        "none_keys",
        "v INT",
        "VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=true",
        good=((b"\xff", b'{"V":1}'), (None, b"{}")),
        bad=((None, b'{"V":"x"}'), (b"k", b"{")),
        key_format="NONE",
    ),
    BadRecords(
        "delimited_values",
        "k STRING KEY, a INT, b STRING, c DECIMAL(4,2), d BYTES",
        "VALUE_FORMAT='DELIMITED'",
        **values(
            (b"1,x,1.5,IQ==", b",,,"),
            (b"x,x,1.5,", b"1,x,1.234,", b"1,x", b"1,x,1,,", b"1,x,1,?", b'1,"x,1,', b"1,\xff,1,"),
        ),
        empty=(NO_VALUE,),
    ),
    BadRecords(
        "delimited_keys",
        "k INT KEY, v STRING",
        "KEY_FORMAT='DELIMITED', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false",
        **keys((b"1", b"-7"), (b"x", b"1,2", b"2147483648", b"\xff")),
    ),
    BadRecords(
        "kafka_sides",
        "k INT KEY, v BIGINT",
        "KEY_FORMAT='KAFKA', VALUE_FORMAT='KAFKA'",
        good=((b"\0\0\0\1", b"\0" * 8), (None, b"\0" * 8)),
        bad=(
            (b"\0\0\0", b"\0" * 8),
            (b"\0\0\0\1", b"\0" * 7),
            (b"\0\0\0\1", b""),
            (b"", b"\0" * 8),
        ),
        empty=((b"\0\0\0\1", None),),
    ),
    BadRecords(
        "msgpack_values",
        "k STRING KEY, a INT, b STRING",
        "VALUE_FORMAT='MSGPACK'",
        **values(
            (
                b"\x82\xa1A\x03\xa1b\xa1x",
                b"\x80",
                b"\x81\xa1z\x91\x90",
                b"\x81\xa1a\xcb" + b"\0" * 8,
            ),
            (b"\x82\xa1A\x03", b"\x81\xa1A\xa1x", b"\x03", b"\x80\x80", b"\x81\x01\x02", b"\xc1"),
        ),
        empty=(NO_VALUE,),
    ),
    BadRecords(
        "msgpack_keys",
        "k INT KEY, v STRING",
        "KEY_FORMAT='MSGPACK', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false",
        **keys((b"\x07", b"\xff"), (b"\x91\x07", b"\xce\xff\xff\xff\xff", b"\x80", b"\xd4\x05a")),
    ),
    BadRecords(
        "protobuf_values",
        "k STRING KEY, a INT, b STRING",
        "VALUE_FORMAT='PROTOBUF_NOSR'",
        **values(
            (b"\x08\x03\x12\x01a", b"", b"\x1a\x01\xff"),
            (b"\x08", b"\x12\x05a", b"\x12\x01\xff", b"\x0a\x01a", b"\x10\x01", b"\xff" * 11),
        ),
        empty=(NO_VALUE,),
    ),
    BadRecords(
        "protobuf_keys",
        "k INT KEY, v STRING",
        "KEY_FORMAT='PROTOBUF_NOSR', VALUE_FORMAT='JSON', WRAP_SINGLE_VALUE=false",
        **keys((b"\x08\x03", b""), (b"\x08", b"\x0a\x01a")),
    ),
)
TABLES = tuple(source for source in STREAMS if source.columns.count(" KEY,") == 1)
