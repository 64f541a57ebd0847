"""What a Weaviate client wants to see of each result, and what is asked for beside it: metadata, vectors and properties.

What is asked for in addition stands behind the client's bytes and is merged with them by the server, as protobuf does. The
server refuses the name of a property that is not there: only those that a policy insists on are asked for by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Needs, Reason, Unsupported
from vecsieve.adapters.proto_request import Found, Shape, message, messages, number_of, read, text_of
from vecsieve.adapters.proto_wire import Field, length_field, number_field
from vecsieve.adapters.weaviate_grpc_query import Ranking

# MetadataRequest.
_UUID, _VECTOR, _DISTANCE, _SCORE, _VECTORS = 1, 2, 5, 7, 10
METADATA = Shape(frozenset({1, 2, 3, 4, 5, 6, 7, 8, 9, 11}), frozenset({_VECTORS}))
# PropertiesRequest, and in its references and objects the name.
_NAMES, _REFERENCES, _OBJECTS, _ALL = 1, 2, 3, 11
PROPERTIES = Shape(frozenset({_ALL}), frozenset({_NAMES, _REFERENCES, _OBJECTS}))
_OWN_NAME = 1
_REFERENCE = Shape(frozenset({_OWN_NAME, 2, 3, 4}))
_OBJECT = Shape(frozenset({_OWN_NAME}), frozenset({2, 3}))

# MetadataResult: what comes of each switch.
_SHOWN_BY = {_UUID: frozenset({1, 20}), _DISTANCE: frozenset({7, 8}), _SCORE: frozenset({11, 12})}
LEGACY_FLOATS, LEGACY_BYTES, NAMED = 2, 19, 23


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """``asked``: what the metadata request must say beside what it says. ``hidden``: the fields of a result's metadata that
    come of it. ``listed``: the vectors that the client asked for by name, where another was added to them; else None.
    ``compared``: the name of the vector to compare, "" being the unnamed one; None lets the reply tell. ``properties``: those
    that are asked for.
    """

    asked: bytes
    hidden: frozenset[int]
    listed: frozenset[str] | None
    compared: str | None
    properties: tuple[str, ...] = ()


def plan_shown(data: bytes, metadata: Field | None, properties: Field | None, ranking: Ranking, needs: Needs) -> Shown:
    """How the two requests must change so that all that selection reads comes along. Raises Unsupported."""
    found: Found = {} if metadata is None else read(data, metadata.span, METADATA)
    missing = [
        switch for switch in (_UUID, _DISTANCE if ranking.is_measured else _SCORE) if not number_of(data, found, switch)
    ]
    hidden = frozenset[int]().union(*(_SHOWN_BY[switch] for switch in missing))
    asked = b"".join(number_field(switch, 1) for switch in missing)
    compared = ranking.target if needs.vector_name is None else needs.vector_name
    listed = frozenset(text_of(data, name) for name in messages(found, _VECTORS))
    is_added = False
    # Where the client lists some and none is known to be missing, those are what there is to compare.
    if not number_of(data, found, _VECTOR):
        if compared and compared not in listed:
            is_added = bool(listed)
            asked += length_field(_VECTORS, compared.encode())
            hidden |= frozenset() if listed else {NAMED}
        elif not listed:
            asked += number_field(_VECTOR, 1)
            hidden |= {LEGACY_FLOATS, LEGACY_BYTES, NAMED}
    names = _missing(data, properties, needs.payload_fields)
    return Shown(asked=asked, hidden=hidden, listed=listed if is_added else None, compared=compared, properties=names)


def widen_shown(metadata: int, properties: int, shown: Shown) -> bytes:
    """What must be said in addition, as fields of these numbers; b"" where that is nothing."""
    names = b"".join(length_field(_NAMES, name.encode()) for name in shown.properties)
    return (length_field(metadata, shown.asked) if shown.asked else b"") + (
        length_field(properties, names) if names else b""
    )


def spelled(name: str) -> str:
    """A property's name as the server keeps it."""
    return name[:1].lower() + name[1:]


def _missing(data: bytes, field: Field | None, wanted: Sequence[str]) -> tuple[str, ...]:
    """Those of the wanted properties that do not come by themselves. Raises Unsupported."""
    if field is None:  # all come
        return ()
    found = read(data, field.span, PROPERTIES)
    if number_of(data, found, _ALL):
        return ()
    listed = {spelled(text_of(data, name)) for name in messages(found, _NAMES)}
    parts = {spelled(_own_name(data, part)) for part in (*messages(found, _REFERENCES), *messages(found, _OBJECTS))}
    names = tuple(dict.fromkeys(spelled(name) for name in wanted if spelled(name) not in listed))
    if parts.intersection(names):  # a part of it is chosen: the rest could not be told apart
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    return names


def _own_name(data: bytes, part: Field) -> str:
    shape = _REFERENCE if part.number == _REFERENCES else _OBJECT
    return text_of(data, message(read(data, part.span, shape), _OWN_NAME))
