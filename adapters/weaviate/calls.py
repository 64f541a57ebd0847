"""Which Weaviate requests are ranked searches, and which change collections; the default limit of a search, the description of a
collection; and HTTP, which has no supported searches.

One gRPC method serves lists of objects, keyword searches and vector searches. Clients search over gRPC since version 4; older ones use
GraphQL, which is passed through.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from ..base import RestAdapter, RestDialect, json_text
from ..contract import (
    GRPC_SERVICES,
    SAFE_METHODS,
    MalformedReplyError,
    NativeAnswer,
    Needs,
    Operation,
    RequestHead,
    Touched,
)
from ..wire.protobuf import methods, text_at

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


def _place(message: bytes) -> str:
    """The collection in rules: its name, or ``collection/tenant``; "" if the message cannot be parsed, in which case the search is
    unsupported as well.
    """
    return "/".join(filter(None, (text_at(message, COLLECTION), text_at(message, TENANT))))


# The default limit of a search: 10, unless the operator set another. No request returns it, but a list of a collection without a limit has
# that length. A list shorter than 10 may be the whole collection and does not show the limit.

SERVER_DEFAULT = 10


def spelled(name: str) -> str:
    """A property's name as the server stores it."""
    return name[:1].lower() + name[1:]


def default_limit(needs: Needs) -> int | None:
    """The default limit; None for unknown. Raises TypeError for another adapter's description."""
    if needs.known is None:
        return None
    if not isinstance(needs.known, int):
        raise TypeError("the list was read by another adapter")
    return needs.known if needs.known >= SERVER_DEFAULT else None


class WeaviateDialect(RestDialect):
    """Over REST, where no search is widened."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        body = b'{"error":[{"message":%s}]}' % json_text(message)
        return NativeAnswer(status=status, content_type="application/json", body=body)


# ``METHOD path`` of reads, and of writes that a later reply shows: values come with each reply, and its scores prove the vectors. A new tenant is
# empty, and to activate one changes no value; applications repeat both. All other requests may change collections, or are those of a
# newer server: any collection, because a search may write the first letter of its name in lower case, or name it by an alias.
_HARMLESS = re.compile(
    r"POST /v1/graphql(?:/batch)?|\w+ /v1/objects(?:/.*)?|\w+ /v1/batch/(?:objects|references)"
    r"|(?:POST|PUT) /v1/schema/[^/]+/tenants|POST /v1/backups/[^/]+"
)
_HARMLESS_METHODS = methods(
    "weaviate.v1.Weaviate", "Search BatchObjects BatchReferences BatchDelete BatchStream TenantsGet Aggregate"
)


def reshaped(head: RequestHead) -> Touched | None:
    """The collections whose objects, vectors or properties the request may change; None for none. Total."""
    is_harmless = head.method in SAFE_METHODS or _HARMLESS.fullmatch(f"{head.method} {head.path}") is not None
    return None if is_harmless else Touched(collection=None)


def reshaped_over_grpc(head: RequestHead) -> Touched | None:
    """The same for a call. Total."""
    is_harmless = head.path in _HARMLESS_METHODS or head.path.startswith(GRPC_SERVICES)
    return None if is_harmless else Touched(collection=None)


class WeaviateRest(RestAdapter[object, object]):
    """Classifies nothing, so that no other verb is called."""

    def classify(self, _: RequestHead) -> Operation | None:
        return None


# The description of a collection, from REST: its properties and their types, its vectors and their distances.

UNNAMED = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """``types``: of the properties by name. ``distances``: of the vectors by name, with UNNAMED for the unnamed one. ``replicas``: nodes that have
    each object.
    """

    name: str
    types: Mapping[str, str]
    distances: Mapping[str, str]
    replicas: int = 1

    def target(self, name: str) -> str | None:
        """The vector that objects name this way: the unnamed one may be the only named one. None if unknown."""
        if name == UNNAMED and name not in self.distances and len(self.distances) == 1:
            return next(iter(self.distances))
        return name if name in self.distances else None


class _Property(msgspec.Struct):
    name: str
    dataType: list[str]  # noqa: N815 - the name on the wire


class _Index(msgspec.Struct):
    distance: str = ""


class _Vector(msgspec.Struct):
    vectorIndexConfig: _Index | None = None  # noqa: N815 - the name on the wire


class _Replication(msgspec.Struct):
    factor: int = 1


class _Class(msgspec.Struct, rename={"name": "class"}):
    name: str
    properties: list[_Property] | None = None
    vectorIndexConfig: _Index | None = None  # noqa: N815 - the name on the wire
    vectorConfig: dict[str, _Vector] | None = None  # noqa: N815 - the name on the wire
    replicationConfig: _Replication | None = None  # noqa: N815 - the name on the wire


_DECODER = msgspec.json.Decoder(_Class)


def read_schema(body: bytes) -> Schema:
    try:
        read = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReplyError(f"description: {type(error).__name__}") from None
    named = {name: vector.vectorIndexConfig or _Index() for name, vector in (read.vectorConfig or {}).items()}
    if read.vectorIndexConfig is not None or not named:
        named[UNNAMED] = read.vectorIndexConfig or _Index()
    return Schema(
        name=read.name,
        types={prop.name: prop.dataType[0] for prop in read.properties or () if len(prop.dataType) == 1},
        distances={name: index.distance for name, index in named.items()},
        replicas=1 if read.replicationConfig is None else read.replicationConfig.factor,
    )
