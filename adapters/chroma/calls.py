"""Which Chroma requests are ranked searches: raw path in, verdict out.

The server's router takes paths literally: a doubled or closing slash is another path, which it does not know. Collections
are named by their ids alone; which tenant and database stand before one is the client's word, the server looks at the id.
"""

from __future__ import annotations

import re
from urllib.parse import unquote_to_bytes

import msgspec

from vecsieve.adapters.contract import Called, Operation, RequestHead, Touched, Unsettled, may_be_json

BACKEND = "chroma"
QUERY = "query"

ID = r"[0-9A-Fa-f]{8}(?:-[0-9A-Fa-f]{4}){3}-[0-9A-Fa-f]{12}"
# Servers before 0.6 spoke version 1, where an id stands alone.
_QUERY = re.compile(rf"/api/(?:v2/tenants/([^/]+)/databases/([^/]+)|v1)/collections/({ID})/query")


def classify(head: RequestHead) -> Operation | None:
    """Name the ranked search a request head stands for; None for everything else. Total."""
    match = _QUERY.fullmatch(head.path)
    if head.method != "POST" or match is None or not may_be_json(head.content_type):
        return None
    before = scope(match[1], match[2])
    if before is None:
        return None
    identifier = match[3].lower()
    return Operation(backend=BACKEND, name=QUERY, collection=before + identifier, id=identifier)


def scope(tenant: str | None, database: str | None) -> str | None:
    """What stands before a collection's name, ``tenant/database/`` decoded; "" where a path names neither.

    None for parts that cannot be read, or that may lead to another path.
    """
    if tenant is None or database is None:
        return ""
    try:
        parts = [unquote_to_bytes(part).decode() for part in (tenant, database)]
    except UnicodeError:  # bytes that are no UTF-8, or a path that could not be encoded
        return None
    return None if {".", ".."} & set(parts) else "/".join([*parts, ""])


# What Chroma's collections are called: queries carry ids, the documents of collections both ids and names.
#
# A document says tenant and database itself, so that what a name stands in does not depend on a client's path.

_DATABASE = r"/api/v2/tenants/([^/]+)/databases/([^/]+)"
# create and list; get; by id; a copy under another name.
_DESCRIBING = re.compile(
    rf"(?:{_DATABASE}|/api/v1)/collections(?:/[^/]+(?:/fork)?|/by-id/[^/]+)?|/api/v2/collections/[^/]+"
)
_ONE = re.compile(rf"{_DATABASE}/collections/([^/]+)")
_ALL = re.compile(_DATABASE)
# Version 1 says tenant and database in the query string, which is not looked at; a reset removes everything.
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
    """The three verbs. Holds nothing."""

    def describes(self, head: RequestHead) -> bool:
        """Whether the answer is a collection's document, or a list of them."""
        return head.method in {"GET", "POST"} and _DESCRIBING.fullmatch(head.path) is not None

    def described(self, body: bytes) -> tuple[Called, ...]:
        """The collections of an answer, in its order."""
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
        """A collection that is renamed (by its id) or deleted (by its name), a database that is deleted, a reset."""
        if _ANY.fullmatch(head.path) and head.method in _CHANGING | {"POST"}:
            return Unsettled(scope="")
        if head.method not in _CHANGING:
            return None
        one, every = _ONE.fullmatch(head.path), _ALL.fullmatch(head.path)
        if one is not None:
            return Unsettled(scope="") if (before := scope(one[1], one[2])) is None else _of_one(before, one[3])
        return None if every is None else Unsettled(scope=scope(every[1], every[2]) or "")


def _of_one(before: str, said: str) -> Unsettled:
    """``said``: an id or a name. Percent-encoding in a name is not undone: no name holds what needs it."""
    return Unsettled(key=said.lower() if _ID.fullmatch(said) else before + said)


# Which Chroma requests may change what a collection is like: its space, its dimension, or which one has its name.

# Their bodies say which collection is made, or becomes the copy of another.
_MAKING = re.compile(r"/api/(?:v2/tenants/[^/]+/databases/[^/]+|v1)/collections(?:/[^/]+/fork)?")
_NAMES = ChromaNames()


def reshaped(head: RequestHead) -> Touched | None:
    """What the request may give another shape; None for one that gives none. Total.

    Changes name a collection by its id or by its name, and searches are known by either: they are few, so it may be any.
    """
    is_making = head.method == "POST" and _MAKING.fullmatch(head.path) is not None
    return Touched(collection=None) if is_making or _NAMES.unsettles(head) is not None else None
