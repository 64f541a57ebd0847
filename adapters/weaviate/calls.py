"""Which gRPC methods are ranked searches, the collection that a message names, and the default limit of a search.

One method serves lists of objects, keyword searches and vector searches.
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
from vecsieve.adapters.wire.protobuf_requests import methods

BACKEND = "weaviate"
SEARCH = "search"
PATH = "/weaviate.v1.Weaviate/Search"

# Unary methods. BatchStream is a stream in both directions, and is passed on as one.
UNARY = methods(
    "weaviate.v1.Weaviate", "Search BatchObjects BatchReferences BatchDelete TenantsGet Aggregate"
) | methods("grpc.health.v1.Health", "Check")

# SearchRequest.
COLLECTION, TENANT = 1, 10


def classify(head: RequestHead) -> Operation | None:
    """The ranked search of a call; None for any other. Never raises."""
    if head.method != "POST" or head.path != PATH:
        return None
    return Operation(backend=BACKEND, name=SEARCH, collection=_place(head.message))


def named(message: bytes) -> tuple[Field | None, Field | None]:
    """The fields of the collection and of the tenant. Raises ValueError."""
    found = head_fields(message)
    return only(found, COLLECTION, LENGTH), only(found, TENANT, LENGTH)


def _place(message: bytes) -> str:
    """The collection in rules: its name, or ``collection/tenant``; "" where the message cannot be parsed, and then the search is unsupported
    as well.
    """
    try:
        said = [text(message, field) for field in named(message) if field is not None]
    except ValueError:
        return ""
    return "/".join(name for name in said if name)


# The default limit of a search: 10, unless the operator chose another. No request returns it, but a list of a collection without a limit
# has that length. A list shorter than 10 may be the whole collection, and does not show the limit.

SERVERS_OWN = 10

# SearchRequest, MetadataRequest, SearchReply.
_LIMIT, _PROPERTIES, _METADATA, _USES_127 = 30, 20, 21, 102
_UUID = 1
_RESULTS = 2
# The smallest reply: identifiers and no properties.
_LEAST = length_field(_PROPERTIES, b"") + length_field(_METADATA, number_field(_UUID, 1)) + number_field(_USES_127, 1)


def describe(_: Operation, message: bytes) -> Question | None:
    """The request for that list; None where the search has a limit, or no collection. Never raises."""
    try:
        limit = only(head_fields(message), _LIMIT, VARINT)
        collection, tenant = named(message)
    except ValueError:
        return None
    if collection is None or (limit is not None and unsigned(message, limit)):
        return None
    places = [message[field.start : field.end] for field in (collection, tenant) if field is not None]
    return Question(method="POST", target=PATH, body=b"".join(places) + _LEAST)


def parse_description(body: bytes) -> int:
    """The length of the list. Raises MalformedReplyError, nothing else."""
    try:
        return sum(field.number == _RESULTS and field.wire == LENGTH for field in fields(body))
    except ValueError as error:
        raise MalformedReplyError(f"list: {error}") from None


def default_limit(needs: Needs) -> int | None:
    """The default limit; None for unknown. Raises TypeError for another adapter's description."""
    if needs.known is None:
        return None
    if not isinstance(needs.known, int):
        raise TypeError("the list was read by another adapter")
    return needs.known if needs.known >= SERVERS_OWN else None
