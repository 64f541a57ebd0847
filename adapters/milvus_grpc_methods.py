"""Which methods of Milvus's gRPC service are ranked searches: method path in, operation out."""

from __future__ import annotations

from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.first_step import Question
from vecsieve.adapters.proto_wire import LENGTH, Field, head_fields, only, text

BACKEND = "milvus"
SEARCH, HYBRID_SEARCH = "search", "hybrid_search"
SERVICE = "/milvus.proto.milvus.MilvusService/"
DESCRIBE = SERVICE + "DescribeCollection"
METHODS = {SERVICE + "Search": SEARCH, SERVICE + "HybridSearch": HYBRID_SEARCH}

# In both requests, and in those that make, change and drop a collection.
DATABASE, COLLECTION = 2, 3
DEFAULT_DATABASE = "default"


def classify(head: RequestHead) -> Operation | None:
    """Name the ranked search a head stands for; None for everything else. Total."""
    name = METHODS.get(head.path) if head.method == "POST" else None
    if name is None:
        return None
    return Operation(backend=BACKEND, name=name, collection=collection_of(head))


def question(message: bytes) -> Question | None:
    """What describes the collection that a search names; None where it names none. Total."""
    try:
        fields_named = [field for field in named(message) if field is not None]
    except ValueError:
        return None
    if not any(field.number == COLLECTION for field in fields_named):
        return None
    # Both messages have database and collection under the same numbers.
    return Question(method="POST", target=DESCRIBE, body=b"".join(message[f.start : f.end] for f in fields_named))


def named(data: bytes) -> tuple[Field | None, Field | None]:
    """Where a search names its database, and its collection. Raises ValueError."""
    found = head_fields(data)
    return only(found, DATABASE, LENGTH), only(found, COLLECTION, LENGTH)


def place(database: str, collection: str) -> str:
    """What rules know a collection by; "" where it is not named."""
    return f"{database or DEFAULT_DATABASE}/{collection}" if collection else ""


def collection_of(head: RequestHead) -> str:
    """The collection that a message names, as far as it can be told: what cannot be read is not searched by us either."""
    try:
        database, collection = named(head.message)
        said = "" if database is None else text(head.message, database)
        return place(said or head.database, "" if collection is None else text(head.message, collection))
    except ValueError:
        return ""
