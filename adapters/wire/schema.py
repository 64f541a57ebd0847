"""Partial schemas of protobuf messages, compiled when they are imported, for protobuf's own parser.

A schema names only the fields that are read or changed. All others survive as unknown fields, behind the named ones, when a message is
written again. A message inside another may be declared as ``bytes*``: opaque, and kept whole where it is set twice, because concatenated
messages are merged messages (https://protobuf.dev/programming-guides/encoding/#last-one-wins).

Texts are declared as ``bytes``: the parser neither checks nor refuses them, and who reads one decodes it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.unknown_fields import UnknownFieldSet

from ..contract import Reason, UnsupportedError

_NUMBERS = {
    "float": FieldDescriptorProto.TYPE_FLOAT,
    "double": FieldDescriptorProto.TYPE_DOUBLE,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint32": FieldDescriptorProto.TYPE_UINT32,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
    "bool": FieldDescriptorProto.TYPE_BOOL,
}
_SCALARS = {"bytes": FieldDescriptorProto.TYPE_BYTES, **_NUMBERS}
_KEY, _VALUE = 1, 2


def compiled(package: str, table: Mapping[str, str]) -> Mapping[str, Any]:
    """The message types of a table: name -> fields, separated by commas: number, name, kind. A kind is a scalar, a message of the table, or
    ``map:`` with the kind of its values; its keys are texts. ``*`` behind it: repeated.
    """
    # proto2: a number that is set to zero is written as one.
    file = FileDescriptorProto(name=f"{package}.proto", package=package, syntax="proto2")
    for name, fields in table.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            number, label, kind = field.split(" ")
            _add(message, int(number), label, kind, package)
    pool = DescriptorPool()  # of its own: the official clients register the whole messages in the default one
    pool.AddSerializedFile(file.SerializeToString())
    return {name: GetMessageClass(pool.FindMessageTypeByName(f"{package}.{name}")) for name in table}


def _add(message: DescriptorProto, number: int, name: str, kind: str, package: str) -> None:
    base = kind.removesuffix("*").removeprefix("map:")
    is_map = kind.startswith("map:")
    label = FieldDescriptorProto.LABEL_REPEATED if is_map or kind.endswith("*") else FieldDescriptorProto.LABEL_OPTIONAL
    field = message.field.add(name=name, number=number, label=label)
    if is_map:
        entry = message.nested_type.add(name=f"{name.title().replace('_', '')}Entry")
        entry.options.map_entry = True
        once = FieldDescriptorProto.LABEL_OPTIONAL
        entry.field.add(name="key", number=_KEY, label=once, type=FieldDescriptorProto.TYPE_STRING)
        _add(entry, _VALUE, "value", base, package)
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{message.name}.{entry.name}"
    elif base in _SCALARS:
        field.type = _SCALARS[base]
        if base in _NUMBERS and kind.endswith("*"):
            field.options.packed = True
    else:
        field.type = FieldDescriptorProto.TYPE_MESSAGE
        field.type_name = f".{package}.{base}"


def counted(kinds: Mapping[str, Any]) -> dict[str, dict[int, str]]:
    """The messages in messages that the parser reads, for `check_size`: name -> number of a field -> name. Entries of maps are not counted."""
    inner = {name: [field for field in kind.DESCRIPTOR.fields if field.message_type] for name, kind in kinds.items()}
    return {
        name: {field.number: field.message_type.name for field in fields if field.message_type.name in kinds}
        for name, fields in inner.items()
    }


def parsed(kind: Any, data: bytes) -> Any:
    """The message of that type. Raises ValueError."""
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise ValueError(str(error)) from None


def serialized(message: Any) -> bytes:
    written: bytes = message.SerializeToString()
    return written


def members(message: Any, names: Collection[str]) -> dict[str, Any]:
    """The fields with these names that are set."""
    return {field.name: value for field, value in message.ListFields() if field.name in names}


def is_mistyped(message: Any) -> bool:
    """Whether a field came with another wire type than its schema has."""
    unknown, known = UnknownFieldSet(message), message.DESCRIPTOR.fields_by_number
    return bool(len(unknown)) and any(unknown[place].field_number in known for place in range(len(unknown)))


def has_unknown(message: Any) -> bool:
    """Whether the message has a field that its schema does not name, or names with another wire type."""
    return bool(len(UnknownFieldSet(message)))


def is_exact(message: Any, data: bytes) -> bool:
    """Whether nothing was merged, at any depth: no single field is set twice. Numbers that are longer than they must be are not exact either."""
    return bool(message.ByteSize() == len(data))


def check_certain(messages: Iterable[Any], packed: Iterable[bytes]) -> None:
    """Raises ValueError if a single field of a reply's messages is set twice, or a field has another wire type, at any depth. Fields that
    their schema does not name are discarded. ``packed``: their bytes.
    """
    for message, data in zip(messages, packed, strict=True):
        message.DiscardUnknownFields()
        if not is_exact(message, data):
            again = parsed(type(message), data)
            if not is_exact(again, data):
                raise ValueError("a field is set twice")
            _check_types(again)


def _check_types(message: Any) -> None:
    if is_mistyped(message):
        raise ValueError("a field has another wire type")
    for field, value in message.ListFields():
        if field.message_type is not None:
            for inner in value if field.is_repeated else (value,):
                _check_types(inner)


def known(message: Any) -> Any:
    """A request's message without unknown fields: a newer server may know them, as MMR once was. Raises UnsupportedError."""
    if has_unknown(message):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return message


def read(kind: Any, data: bytes) -> Any:
    """A request's message. What is set twice is merged as the server merges it. Raises UnsupportedError."""
    try:
        return known(parsed(kind, data))
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


def text_of(value: bytes) -> str:
    """Raises UnsupportedError."""
    try:
        return value.decode()
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None


def checked(kind: Any, data: bytes) -> Any:
    """A request's message without unknown fields, and without single ones that are set twice, which readers may merge by other rules, at any
    depth. Raises UnsupportedError.
    """
    try:
        message = parsed(kind, data)
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    message.DiscardUnknownFields()
    if not is_exact(message, data):
        is_merged = not is_exact(parsed(kind, data), data)
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD if is_merged else Reason.UNSUPPORTED_FIELD)
    return message
