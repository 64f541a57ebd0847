"""What a Milvus collection is like, as far as its searches do not say: its fields, and what a server shows unasked.

Rule of this file: what a description does not say plainly is absent here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from vecsieve.adapters.contract import MalformedReplyError, Needs
from vecsieve.adapters.milvus.dialect import check_status
from vecsieve.adapters.wire.protobuf import LENGTH, VARINT, Field, fields, only, text, unsigned

# DataType. Binary and sparse vectors, and lists of vectors, are not compared.
FLOAT, FLOAT16, BFLOAT16, INT8 = 101, 102, 103, 105
COMPARABLE = frozenset({FLOAT, FLOAT16, BFLOAT16, INT8})
_FIRST_VECTOR = 100  # every type from here on is a vector, or a structure of some

# DescribeCollectionResponse, CollectionSchema, FieldSchema.
_STATUS, _SCHEMA, _COLLECTION_ID = 1, 2, 3
_FIELDS, _IS_DYNAMIC = 4, 5
_NAME, _TYPE = 2, 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """``vectors``: the fields that can be compared. ``scalars``: the fields that are no vectors. ``is_dynamic``: rows may have
    keys beside them. ``shows_all``: a search that names no output fields is answered with all of them, as Milvus Lite does.
    """

    vectors: frozenset[str]
    scalars: frozenset[str]
    is_dynamic: bool = False
    shows_all: bool = False

    @property
    def only_vector(self) -> str | None:
        """The name of the one field that can be compared; None when there are several, or none."""
        return next(iter(self.vectors)) if len(self.vectors) == 1 else None


def schema_of(needs: Needs) -> Schema | None:
    """What the first step found out; None when it was not taken, or brought nothing."""
    if needs.known is None:
        return None
    if not isinstance(needs.known, Schema):
        raise TypeError("the collection was described by another adapter")
    return needs.known


def of_types(types: Mapping[str, int], *, is_dynamic: bool, shows_all: bool) -> Schema:
    """The schema of fields by name, each with its DataType."""
    return Schema(
        vectors=frozenset(name for name, kind in types.items() if kind in COMPARABLE),
        scalars=frozenset(name for name, kind in types.items() if 0 < kind < _FIRST_VECTOR),
        is_dynamic=is_dynamic,
        shows_all=shows_all,
    )


def read_description(body: bytes) -> Schema:
    """A DescribeCollectionResponse. Raises MalformedReplyError, nothing else."""
    try:
        return _described(body)
    except ValueError as error:
        raise MalformedReplyError(f"description: {error}") from None


def _described(body: bytes) -> Schema:
    found = fields(body)
    check_status(body, only(found, _STATUS, LENGTH))
    schema = only(found, _SCHEMA, LENGTH)
    if schema is None:
        raise ValueError("no schema")
    inside = fields(body, schema.span)
    dynamic = only(inside, _IS_DYNAMIC, VARINT)
    return of_types(
        dict(_typed(body, field) for field in inside if field.number == _FIELDS),
        is_dynamic=dynamic is not None and bool(unsigned(body, dynamic)),
        # Lite numbers neither collections nor fields.
        shows_all=only(found, _COLLECTION_ID, VARINT) is None,
    )


def _typed(body: bytes, field: Field) -> tuple[str, int]:
    if field.wire != LENGTH:
        raise ValueError(f"field at byte {field.start} is no message")
    inside = fields(body, field.span)
    name, kind = only(inside, _NAME, LENGTH), only(inside, _TYPE, VARINT)
    if name is None or kind is None:
        raise ValueError(f"field at byte {field.start} has no name or no type")
    return text(body, name), unsigned(body, kind)


# The description of a Milvus collection over REST: the same facts as over gRPC, in JSON.
#
# Vectors of half floats and of small integers are not compared over REST: how they are written there is not known.

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


def read_rest_description(body: bytes) -> Schema:
    """A reply to a description, of either version. Raises MalformedReplyError, nothing else."""
    try:
        read = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReplyError(f"description: {error}") from None
    if read.code not in _SUCCESS:
        raise MalformedReplyError(f"description: upstream answers with code {read.code}")
    types = {field.name: _kind(field.type) for field in read.data.fields}
    return of_types(types, is_dynamic=read.data.enableDynamicField, shows_all=False)


def _kind(name: str) -> int:
    """A DataType as far as it matters here. ``name``: in version 1 with the dimension behind it, as in FloatVector(4)."""
    bare = name.partition("(")[0]
    if bare == _VECTOR:
        return FLOAT
    return _OTHER if "Vector" in bare or "Struct" in bare else _SCALAR
