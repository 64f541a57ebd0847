"""Which of Weaviate's gRPC methods are ranked searches, and what a message of one says of where it searches.

One method makes every search there is: lists of objects, keyword searches and vector searches differ by what is in it.
"""

from __future__ import annotations

from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.proto_wire import LENGTH, Field, head_fields, only, text

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
