"""What Chroma's collections are called: queries carry ids, the documents of collections both ids and names.

A document says tenant and database itself, so that what a name stands in does not depend on a client's path.
"""

from __future__ import annotations

import re

import msgspec

from vecsieve.adapters.chroma_paths import ID, scope
from vecsieve.adapters.contract import RequestHead
from vecsieve.adapters.naming import Called, Unsettled

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
