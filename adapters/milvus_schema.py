"""What a Milvus collection is like, as far as its searches do not say: its fields, and what a server shows unasked.

Rule of this file: what a description does not say plainly is absent here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vecsieve.adapters.contract import Malformed, Needs
from vecsieve.adapters.milvus_status import check_status
from vecsieve.adapters.proto_wire import LENGTH, VARINT, Field, fields, only, text, unsigned

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
    """A DescribeCollectionResponse. Raises Malformed, nothing else."""
    try:
        return _described(body)
    except ValueError as error:
        raise Malformed(f"description: {error}") from None


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
