"""Which Chroma requests are ranked searches, which alter collections, and which have names of collections.

The server matches paths literally: a doubled or trailing slash is another, unknown path. Queries name a collection by its id alone; the
server ignores the tenant and the database in their paths.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

import msgspec

from vecsieve.adapters.contract import Called, Operation, RequestHead, Touched, Unsettled, may_be_json

BACKEND = "chroma"
QUERY = "query"

ID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# Version 1, of servers before 0.6, has neither tenant nor database.
_QUERY = re.compile(rf"/api/(?:v2/tenants/([^/]+)/databases/([^/]+)|v1)/collections/({ID})/query")


def classify(head: RequestHead) -> Operation | None:
    """The ranked search of a request; None for any other. Never raises."""
    match = _QUERY.fullmatch(head.path)
    if head.method != "POST" or match is None or not may_be_json(head.content_type):
        return None
    before = scope(match[1], match[2])
    if before is None:
        return None
    identifier = match[3].lower()
    return Operation(backend=BACKEND, name=QUERY, collection=before + identifier, id=identifier)


def scope(tenant: str | None, database: str | None) -> str | None:
    """``tenant/database/``, decoded; "" where a path names neither; None for invalid UTF-8 and for segments of dots."""
    if tenant is None or database is None:
        return ""
    try:
        parts = [unquote_to_bytes(part).decode() for part in (tenant, database)]
    except UnicodeError:
        return None
    return None if {".", ".."} & set(parts) else "/".join([*parts, ""])


# Names. Queries have ids; the documents of collections have ids and names, with tenant and database.

_DATABASE = r"/api/v2/tenants/([^/]+)/databases/([^/]+)"
# create and list; get; by id; a copy under another name.
_DESCRIBING = re.compile(
    rf"(?:{_DATABASE}|/api/v1)/collections(?:/[^/]+(?:/fork)?|/by-id/[^/]+)?|/api/v2/collections/[^/]+"
)
_ONE = re.compile(rf"{_DATABASE}/collections/([^/]+)")
_ALL = re.compile(_DATABASE)
# Version 1 has tenant and database in the query string, which is not parsed; a reset removes everything.
_ANY = re.compile(r"/api/v1/(?:collections|databases)/[^/]+|/api/v[12]/reset")
_ID = re.compile(ID)
_CHANGING = frozenset({"PUT", "DELETE", "PATCH"})


class _Collection(msgspec.Struct):
    id: str
    name: str
    tenant: str
    database: str


_DECODER = msgspec.json.Decoder(_Collection | list[_Collection])


class ChromaNames:
    """Stateless."""

    def describes(self, head: RequestHead) -> bool:
        """Whether the reply is a collection's document, or a list of them."""
        return head.method in {"GET", "POST"} and _DESCRIBING.fullmatch(head.path) is not None

    def described(self, body: bytes) -> tuple[Called, ...]:
        """The collections of a reply, in its order."""
        try:
            read = _DECODER.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return ()
        documents = read if isinstance(read, list) else [read]
        return tuple(
            Called(id=each.id.lower(), name=f"{each.tenant}/{each.database}/{each.name}")
            for each in documents
            if _ID.fullmatch(each.id)
        )

    def unsettles(self, head: RequestHead) -> Unsettled | None:
        """For a collection renamed (by its id) or deleted (by its name), a deleted database, a reset."""
        if _ANY.fullmatch(head.path) and head.method in _CHANGING | {"POST"}:
            return Unsettled(scope="")
        if head.method not in _CHANGING:
            return None
        one, every = _ONE.fullmatch(head.path), _ALL.fullmatch(head.path)
        if one is not None:
            return Unsettled(scope="") if (before := scope(one[1], one[2])) is None else _of_one(before, one[3])
        return None if every is None else Unsettled(scope=scope(every[1], every[2]) or "")


def _of_one(before: str, said: str) -> Unsettled:
    """``said``: an id or a name, which has no characters that need percent-encoding."""
    return Unsettled(key=said.lower() if _ID.fullmatch(said) else before + said)


# Requests that create a collection, or copy one; its name is in the body.
_MAKING = re.compile(r"/api/(?:v2/tenants/[^/]+/databases/[^/]+|v1)/collections(?:/[^/]+/fork)?")
_NAMES = ChromaNames()


def reshaped(head: RequestHead) -> Touched | None:
    """Any collection for a request that creates, alters or deletes one; else None. Never raises.

    Such requests are rare, and name a collection by its id or by its name.
    """
    is_making = head.method == "POST" and _MAKING.fullmatch(head.path) is not None
    return Touched(collection=None) if is_making or _NAMES.unsettles(head) is not None else None
