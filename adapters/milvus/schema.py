"""The description of a collection: its fields, and whether a search returns them without being asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import msgspec

from vecsieve.adapters.contract import MalformedReplyError, Needs
from vecsieve.adapters.milvus.calls import check_status
from vecsieve.adapters.wire.protobuf import LENGTH, VARINT, Field, fields, only, text, unsigned

# DataType. Binary and sparse vectors, and lists of vectors, are not compared.
FLOAT, FLOAT16, BFLOAT16, INT8 = 101, 102, 103, 105
VARCHAR, JSON = 21, 23
COMPARABLE = frozenset({FLOAT, FLOAT16, BFLOAT16, INT8})
_FIRST_VECTOR = 100  # types from here on are vectors, or structures of vectors

# DescribeCollectionResponse, CollectionSchema, FieldSchema.
_STATUS, _SCHEMA, _COLLECTION_ID = 1, 2, 3
_FIELDS, _IS_DYNAMIC = 4, 5
_NAME, _IS_PRIMARY, _TYPE, _MAKES_IDS = 2, 3, 5, 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """``vectors``: the comparable fields. ``scalars``: the fields that are no vectors; ``documents``: those of type JSON. ``is_dynamic``: rows may have further keys.
    ``shows_all``: a search without output fields returns all of them, as in Milvus Lite. ``primary``: the field of the ids, which gRPC
    returns apart; "" for unknown. ``has_texts``: whether they are texts; REST may write numbers as texts, too. ``metrics``: pairs of a
    field and the metric of its index, where the description names it (REST). ``is_restorable``: whether rows that are read over this
    transport can be stored again as they were: clients give the ids, and REST words no value otherwise than it is written.
    """

    vectors: frozenset[str]
    scalars: frozenset[str]
    documents: frozenset[str] = frozenset()
    is_dynamic: bool = False
    shows_all: bool = False
    primary: str = ""
    has_texts: bool = False
    metrics: frozenset[tuple[str, str]] = frozenset()
    is_restorable: bool = True

    def metric_of(self, field: str) -> str | None:
        """In capitals; None where it is not known."""
        found = {metric.upper() for name, metric in self.metrics if name == field}
        return found.pop() if len(found) == 1 else None

    @property
    def only_vector(self) -> str | None:
        """The only comparable field; None when there are several, or none."""
        return next(iter(self.vectors)) if len(self.vectors) == 1 else None


def schema_of(needs: Needs) -> Schema | None:
    """``Needs.known``. Raises TypeError for another adapter's."""
    if needs.known is None:
        return None
    if not isinstance(needs.known, Schema):
        raise TypeError("the collection was described by another adapter")
    return needs.known


def of_types(
    types: Mapping[str, int], *, is_dynamic: bool, shows_all: bool, primary: str = "", has_texts: bool = False
) -> Schema:
    """``types``: name -> DataType."""
    return Schema(
        vectors=frozenset(name for name, kind in types.items() if kind in COMPARABLE),
        scalars=frozenset(name for name, kind in types.items() if 0 < kind < _FIRST_VECTOR),
        documents=frozenset(name for name, kind in types.items() if kind == JSON),
        is_dynamic=is_dynamic,
        shows_all=shows_all,
        primary=primary,
        has_texts=has_texts,
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
    described = [_typed(body, field) for field in inside if field.number == _FIELDS]
    primary = next(((name, kind) for name, kind, is_primary in described if is_primary), ("", 0))
    makes_ids = [_is_set(body, fields(body, field.span), _MAKES_IDS) for field in inside if field.number == _FIELDS]
    known = of_types(
        {name: kind for name, kind, _ in described},
        primary=primary[0],
        has_texts=primary[1] == VARCHAR,
        is_dynamic=dynamic is not None and bool(unsigned(body, dynamic)),
        # Lite gives no ids to collections.
        shows_all=only(found, _COLLECTION_ID, VARINT) is None,
    )
    return replace(known, is_restorable=not any(makes_ids))


def _is_set(body: bytes, found: Sequence[Field], number: int) -> bool:
    """A boolean. Raises ValueError."""
    field = only(found, number, VARINT)
    return field is not None and bool(unsigned(body, field))


def _typed(body: bytes, field: Field) -> tuple[str, int, bool]:
    """Name and type of a field, and whether it has the ids."""
    if field.wire != LENGTH:
        raise ValueError(f"field at byte {field.start} is no message")
    inside = fields(body, field.span)
    name, kind = only(inside, _NAME, LENGTH), only(inside, _TYPE, VARINT)
    if name is None or kind is None:
        raise ValueError(f"field at byte {field.start} has no name or no type")
    return text(body, name), unsigned(body, kind), _is_set(body, inside, _IS_PRIMARY)


# Over REST. Vectors of half floats and of int8 are not compared: their JSON form is not documented.

_SUCCESS = frozenset({0, 200})
_SCALAR, _OTHER = 1, 0
_VECTOR = "FloatVector"
# Types of values that queries show as they are written. Documents are shown as text, arrays as messages.
_AS_WRITTEN = frozenset({"Bool", "Int8", "Int16", "Int32", "Int64", "Float", "Double", "VarChar", _VECTOR})


class _Field(msgspec.Struct):
    name: str
    type: str
    primaryKey: bool = False  # noqa: N815 - the name on the wire
    autoId: bool = False  # noqa: N815 - the name on the wire


class _Index(msgspec.Struct):
    fieldName: str | None = None  # noqa: N815 - the name on the wire
    metricType: str | None = None  # noqa: N815 - the name on the wire


class _Collection(msgspec.Struct):
    fields: list[_Field]
    enableDynamicField: bool = False  # noqa: N815 - the name on the wire
    indexes: list[_Index] | None = None
    collectionID: int | str | None = None  # noqa: N815 - the name on the wire


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
    primary = next((field for field in read.data.fields if field.primaryKey), _Field("", ""))
    known = of_types(
        types,
        is_dynamic=read.data.enableDynamicField,
        shows_all=read.data.collectionID == 0,  # as over gRPC: Lite, behind what speaks REST for it
        primary=primary.name,
        has_texts=primary.type.startswith("VarChar"),
    )
    indexes = read.data.indexes or ()
    metrics = {(index.fieldName, index.metricType) for index in indexes if index.fieldName and index.metricType}
    is_restorable = all(not field.autoId and _bare(field.type) in _AS_WRITTEN for field in read.data.fields)
    return replace(known, metrics=frozenset(metrics), is_restorable=is_restorable)


def _bare(name: str) -> str:
    """A type without the dimension that version 1 adds, as in FloatVector(4)."""
    return name.partition("(")[0]


def _kind(name: str) -> int:
    """A DataType, as far as it is needed."""
    bare = _bare(name)
    if bare == _VECTOR:
        return FLOAT
    if bare == "JSON":
        return JSON
    return _OTHER if "Vector" in bare or "Struct" in bare else _SCALAR
