"""A parsed Pinecone search: where its number stands, what else is asked for, and the same bytes asking for more.

Rule of this file: the client's bytes are spliced, never written anew. The three kinds of search are read in a file each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.json_kept import Edit
from vecsieve.adapters.json_spans import Span, splice


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Where a kind of reply keeps what: the members that lead to its list, and those of an element of it.

    ``payload``: the member that holds metadata or fields; None where an element holds them itself.
    """

    path: tuple[str, ...]
    id: str
    score: str
    payload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One search.

    ``limit``: where the number of results stands. ``edits``: what a widened request says differently beside that.
    ``vector``: the member that holds a candidate's dense vector, ``sparse``: its sparse one; None where there is none.
    ``emptied``: the member ``vector`` was asked for by us alone, and the service writes ``[]`` for it then.
    ``added``: the fields that were asked for by us alone. ``self_id``: what the search was made by; "" for none.
    """

    body: bytes
    layout: Layout
    top_k: int
    limit: Span
    edits: tuple[Edit, ...]
    vector: str | None = None
    sparse: str | None = None
    emptied: bool = False
    added: frozenset[str] = frozenset()
    self_id: str = ""


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request that asks for ``fetch_k[0]`` candidates, with what selection compares. 0 leaves it as it came."""
    (count,) = fetch_k
    if not count:
        return document.body
    raised: list[Edit] = [] if count == document.top_k else [(*document.limit, str(count).encode())]
    return splice(document.body, [*raised, *document.edits])
