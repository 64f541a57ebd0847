"""How the private partial schemas of adapters are compared with whole ones."""

from __future__ import annotations

from typing import Any

from google.protobuf.descriptor import FieldDescriptor

# Kinds that have one form on the wire: opaque bytes are texts, bytes, messages or packed numbers.
_OF_LENGTH = {"string", "bytes", "message"}
_VARINTS = {"enum", "bool", "uint32", "int32", "int64", "uint64"}


def numbers(message: Any) -> dict[str, int]:
    return {field.name: field.number for field in message.DESCRIPTOR.fields}


def kind_of(field: Any) -> str:
    names = {"TYPE_" + kind.upper(): kind for kind in (*_OF_LENGTH, *_VARINTS, "float", "double")}
    return next(names[name] for name in names if getattr(FieldDescriptor, name) == field.type)


def check_part(mine: Any, theirs: Any) -> None:
    """Each field has the number, the name and the form on the wire of the whole message's."""
    for field in mine.DESCRIPTOR.fields:
        other = theirs.DESCRIPTOR.fields_by_number[field.number]
        assert field.name == other.name
        kind, whole = kind_of(field), kind_of(other)
        is_opaque = kind == "bytes" and (whole in _OF_LENGTH or other.is_packed)
        assert kind == whole or {kind, whole} <= _VARINTS or is_opaque
        # What is opaque may be in several parts.
        assert field.is_repeated == other.is_repeated or is_opaque
