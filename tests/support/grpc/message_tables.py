"""Messages of a service from a table, in a descriptor pool of their own: no client's package has to be there.

By the message's name its fields, `number name kind`, between bars. `*` is repeated, `?` has presence, braces are a map from strings.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from google.protobuf import struct_pb2
from google.protobuf.descriptor_pb2 import DescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass

_SCALARS: Mapping[str, Any] = {
    "string": 9, "bytes": 12, "float": 2, "double": 1, "bool": 8, "int32": 5, "int64": 3, "uint32": 13, "uint64": 4,
}  # fmt: skip
_MESSAGE, _OPTIONAL, _REPEATED = 11, 1, 3


def classes(service: str, table: Mapping[str, str]) -> Callable[[str], type[Any]]:
    """The class of a message, by its name."""

    @functools.cache
    def pool() -> DescriptorPool:
        file = FileDescriptorProto(name=service, syntax="proto3", dependency=[struct_pb2.DESCRIPTOR.name])
        for name, row in table.items():
            declared = file.message_type.add(name=name)
            for column in filter(None, row.split(" | ")):
                _declare(declared, *column.split())
        made = DescriptorPool()
        made.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
        made.AddSerializedFile(file.SerializeToString())
        return made

    @functools.cache
    def message_type(name: str) -> type[Any]:
        return GetMessageClass(pool().FindMessageTypeByName(name))

    return message_type


def _declare(message: DescriptorProto, number: str, name: str, kind: str) -> None:
    field = message.field.add(name=name, number=int(number), label=_REPEATED if kind[-1] in "*}" else _OPTIONAL)
    bare = kind.strip("*?{}")
    if kind.endswith("?"):
        # What protoc makes of `optional`: a oneof of its own around the field.
        field.proto3_optional = True
        field.oneof_index = len(message.oneof_decl)
        message.oneof_decl.add(name=f"_{name}")
    if kind.endswith("}"):
        entry = message.nested_type.add(name=name.title().replace("_", "") + "Entry")
        entry.options.map_entry = True
        _declare(entry, "1", "key", "string")
        _declare(entry, "2", "value", bare)
        bare = f"{message.name}.{entry.name}"
    field.type = _SCALARS.get(bare, _MESSAGE)
    if bare not in _SCALARS:
        field.type_name = ".google.protobuf.Struct" if bare == "Struct" else f".{bare}"
