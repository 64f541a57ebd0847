"""The description of a Milvus collection over REST: the same facts as over gRPC, in JSON.

Vectors of half floats and of small integers are not compared over REST: how they are written there is not known.
"""

from __future__ import annotations

import msgspec

from vecsieve.adapters.contract import Malformed
from vecsieve.adapters.milvus_schema import FLOAT, Schema, of_types

_SUCCESS = frozenset({0, 200})
_SCALAR, _OTHER = 1, 0
_VECTOR = "FloatVector"


class _Field(msgspec.Struct):
    name: str
    type: str


class _Collection(msgspec.Struct):
    fields: list[_Field]
    enableDynamicField: bool = False  # noqa: N815 - it is called so on the wire


class _Description(msgspec.Struct):
    code: int
    data: _Collection


_DECODER = msgspec.json.Decoder(_Description)


def read_description(body: bytes) -> Schema:
    """A reply to a description, of either version. Raises Malformed, nothing else."""
    try:
        read = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise Malformed(f"description: {error}") from None
    if read.code not in _SUCCESS:
        raise Malformed(f"description: upstream answers with code {read.code}")
    types = {field.name: _kind(field.type) for field in read.data.fields}
    return of_types(types, is_dynamic=read.data.enableDynamicField, shows_all=False)


def _kind(name: str) -> int:
    """A DataType as far as it matters here. ``name``: in version 1 with the dimension behind it, as in FloatVector(4)."""
    bare = name.partition("(")[0]
    if bare == _VECTOR:
        return FLOAT
    return _OTHER if "Vector" in bare or "Struct" in bare else _SCALAR
