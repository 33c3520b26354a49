"""Ids of schemas in the headers of records, in place of bytes before the payload.

Confluent's serialisers do so if they are told to (`header_schema_id_serializer`): a header has the
global id of the schema, which all registries that copy it agree on, behind a 1, or its id behind a
0; of Protobuf also which message it is. What is read is then as if it stood before the payload.
"""

from __future__ import annotations

import uuid

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from millstream.formats.header_columns import header_values
from millstream.formats.payload import Bytes, present_rows
from millstream.formats.registered import PREFIX, prefix_of
from millstream.model.errors import RecordError
from millstream.model.schema import Role
from millstream.model.schema_text import Schemas

NAMES = {Role.KEY: "__key_schema_id", Role.VALUE: "__value_schema_id"}
_ID, _GLOBAL_ID = 0, 1
_GLOBAL = 17
"""The bytes of a global id, with what is before it."""


def with_prefixes(
    payload: Bytes, headers: pa.Array, role: Role, schemas: Schemas
) -> tuple[Bytes, dict[int, str]]:
    """The payloads, with the ids before them that their headers name, and why others name none.
    Raises UnavailableError while the registry does not know a global id, or does not answer."""
    if headers.null_count == len(headers):
        return payload, {}
    named = header_values(headers, NAMES[role])
    rows = np.flatnonzero(present_rows(named) & present_rows(payload))
    if not len(rows):
        return payload, {}
    known: dict[bytes, bytes | RecordError] = {}
    prefixes: list[bytes | None] = [b""] * len(payload)
    bad: dict[int, str] = {}
    for row, header in zip(rows.tolist(), named.take(pa.array(rows)).to_pylist(), strict=True):
        if header not in known:
            known[header] = _prefix(header, NAMES[role], schemas)
        match known[header]:
            case bytes() as prefix:
                prefixes[row] = prefix
            case error:
                prefixes[row], bad[row] = None, error.message
    before = pa.array(prefixes, pa.binary())
    return pc.binary_join_element_wise(before, payload, pa.scalar(b"", pa.binary())), bad


def without_ids(headers: pa.Array) -> pa.Array:
    """The headers that go on with the results: they are not of the payload that these have."""
    if headers.null_count == len(headers):
        return headers
    flat = pc.list_flatten(headers)
    kept = pc.invert(pc.is_in(flat.field("key"), pa.array(NAMES.values(), pa.string())))
    if pc.all(kept).as_py() is not False:
        return headers
    parents = pc.list_parent_indices(headers).filter(kept).to_numpy()
    counts = np.bincount(parents, minlength=len(headers))
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    mask = None if not headers.null_count else headers.is_null()
    rest = pa.concat_arrays([flat.filter(kept)])
    return pa.ListArray.from_arrays(pa.array(offsets), rest, type=headers.type, mask=mask)


def _prefix(header: bytes, name: str, schemas: Schemas) -> bytes | RecordError:
    match header[:1]:
        case b"\0" if len(header) >= PREFIX:
            return header
        case b"\1" if len(header) >= _GLOBAL:
            given = uuid.UUID(bytes=header[1:_GLOBAL])
            return prefix_of(schemas.id_of_guid(str(given))) + header[_GLOBAL:]
    return RecordError(f"its header {name} does not begin as the id of a schema")
