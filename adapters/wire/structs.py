"""google.protobuf.Struct: some of its members, or all of them, as JSON. A struct is opaque in the message that has it: many are never read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .protobuf import Messages
from .protobuf_values import GOOGLE, Wanted, chosen_of, object_of_json
from .schema import compiled, parsed

# To find some members, of which only the text is parsed, which most are; and all of them in their order, which a parsed map does not keep.
MESSAGES = compiled(
    "vecsieve.structs",
    {
        "Struct": "1 fields map:Value",
        "Value": "3 string_value bytes",
        "Members": "1 fields Entry*",
        "Entry": "1 key bytes, 2 value bytes",
    },
)
_STRUCT: Any = MESSAGES["Struct"]
_MEMBERS: Any = MESSAGES["Members"]
# What is counted of large messages.
COUNTED: Messages = {"struct": {}}


def members_of(structs: Iterable[bytes], wanted: Wanted) -> tuple[tuple[bytes | None, ...], ...]:
    """Per struct the JSON of each wanted member, None if absent. Raises ValueError."""
    if not wanted.keys:
        return tuple([() for _ in structs])
    return tuple([chosen_of(parsed(_STRUCT, struct).fields, wanted, GOOGLE) for struct in structs])


def pairs_of(struct: bytes) -> list[tuple[bytes, bytes]]:
    """The keys, and the messages of their values, in the order of the wire. Raises ValueError."""
    return [(member.key, member.value) for member in parsed(_MEMBERS, struct).fields]


def struct_json(struct: bytes) -> bytes:
    """All members. Raises ValueError, also for numbers without a JSON form."""
    return object_of_json(pairs_of(struct), GOOGLE)
