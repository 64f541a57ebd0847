"""Which of Weaviate's gRPC methods are ranked searches, and what a message of one says of where it searches.

One method makes every search there is: lists of objects, keyword searches and vector searches differ by what is in it.
"""

from __future__ import annotations

from vecsieve.adapters.contract import MalformedReplyError, Needs, Operation, Question, RequestHead
from vecsieve.adapters.wire.protobuf import (
    LENGTH,
    VARINT,
    Field,
    fields,
    head_fields,
    length_field,
    number_field,
    only,
    text,
    unsigned,
)

BACKEND = "weaviate"
SEARCH = "search"
_SERVICE = "/weaviate.v1.Weaviate/"
PATH = _SERVICE + "Search"

# Of one message each way. BatchStream is a stream in both directions, and is passed on as one.
UNARY = frozenset(
    {
        *(
            _SERVICE + name
            for name in ("Search", "BatchObjects", "BatchReferences", "BatchDelete", "TenantsGet", "Aggregate")
        ),
        "/grpc.health.v1.Health/Check",
    }
)

# SearchRequest.
COLLECTION, TENANT = 1, 10


def classify(head: RequestHead) -> Operation | None:
    """Name the ranked search a head stands for; None for everything else. Total."""
    if head.method != "POST" or head.path != PATH:
        return None
    return Operation(backend=BACKEND, name=SEARCH, collection=_place(head.message))


def named(message: bytes) -> tuple[Field | None, Field | None]:
    """Where a search names its collection, and its tenant. Raises ValueError."""
    found = head_fields(message)
    return only(found, COLLECTION, LENGTH), only(found, TENANT, LENGTH)


def _place(message: bytes) -> str:
    """What rules know the collection by, from the outside in: its name, or ``collection/tenant``; "" where it cannot be told,
    and is then not searched by us either.
    """
    try:
        said = [text(message, field) for field in named(message) if field is not None]
    except ValueError:
        return ""
    return "/".join(name for name in said if name)


# How many results Weaviate gives where a search names no limit: 10, unless its operator chose another number.
#
# No interface tells. The collection's plain list, asked without a limit, comes as long as that number; where it comes shorter
# than the server's own 10, it may be all that the collection has, and says nothing.

SERVERS_OWN = 10

# SearchRequest, MetadataRequest, SearchReply.
_LIMIT, _PROPERTIES, _METADATA, _USES_127 = 30, 20, 21, 102
_UUID = 1
_RESULTS = 2
# No properties but identifiers: the least there is to read.
_LEAST = length_field(_PROPERTIES, b"") + length_field(_METADATA, number_field(_UUID, 1)) + number_field(_USES_127, 1)


def question(message: bytes) -> Question | None:
    """The list that tells; None where the search names a limit, or no collection. Total."""
    try:
        limit = only(head_fields(message), _LIMIT, VARINT)
        collection, tenant = named(message)
    except ValueError:
        return None
    if collection is None or (limit is not None and unsigned(message, limit)):
        return None
    places = [message[field.start : field.end] for field in (collection, tenant) if field is not None]
    return Question(method="POST", target=PATH, body=b"".join(places) + _LEAST)


def told(body: bytes) -> int:
    """How long the list is. Raises MalformedReplyError, nothing else."""
    try:
        return sum(field.number == _RESULTS and field.wire == LENGTH for field in fields(body))
    except ValueError as error:
        raise MalformedReplyError(f"list: {error}") from None


def default_limit(needs: Needs) -> int | None:
    """What a search without a limit is given; None where that is not known."""
    if needs.known is None:
        return None
    if not isinstance(needs.known, int):
        raise TypeError("the list was read by another adapter")
    return needs.known if needs.known >= SERVERS_OWN else None
