"""A parsed Pinecone search: where its number stands, what else is asked for, and the same bytes asking for more.

Rule of this file: the client's bytes are spliced, never written anew. The three kinds of search are read in a file each.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Reason, UnsupportedError
from vecsieve.adapters.wire.json import Span, splice
from vecsieve.adapters.wire.json_requests import texts_of
from vecsieve.adapters.wire.json_vectors import Edit


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


# Which fields a Pinecone client asked for, and how its list is widened by what selection reads.
#
# Only what is missing is added, and what was added is remembered, so that it can be taken out again. What an unlisted
# selection means differs: of records it is every field, of documents none.

EVERY = "*"
OWN = frozenset({"_id", "_score"})  # always there, and no fields


@dataclass(frozen=True, slots=True)
class Selected:
    """How a list of fields changes, the names that are ours in it, and those of the wanted ones that will come along."""

    edit: Edit | None
    added: frozenset[str]
    readable: frozenset[str]


def of_records(text: bytes, span: Span | None, required: Sequence[str], optional: Sequence[str]) -> Selected:
    """``fields`` of a records search. Raises UnsupportedError."""
    if span is None:
        return _all(required, optional)
    names = texts_of(text, span)
    # What an empty list means is not documented: nothing, or as if it were absent.
    return _listed(text, span, names, required, optional, may_add=bool(names))


def of_documents(
    text: bytes, span: Span | None, brace: int, required: Sequence[str], optional: Sequence[str]
) -> Selected:
    """``include_fields`` of a documents search, to be put right behind ``brace`` when absent. Raises UnsupportedError."""
    if span is not None and text[span[0] : span[1]] != b"null":
        return _listed(text, span, texts_of(text, span), required, optional, may_add=True)
    added = _missing((*required, *optional), ())
    array = _array(added)
    edit = (brace + 1, brace + 1, b'"include_fields":%s,' % array) if span is None else (*span, array)
    return _selected(edit, added, added, required)


def _all(required: Sequence[str], optional: Sequence[str]) -> Selected:
    return Selected(None, frozenset(), frozenset((*required, *optional)))


def _listed(
    text: bytes, span: Span, names: Sequence[str], required: Sequence[str], optional: Sequence[str], *, may_add: bool
) -> Selected:
    if EVERY in names:
        return _all(required, optional)
    wanted = (*required, *optional)
    # A pattern, should the service know any, may stand for a field that would be taken out again.
    added = _missing(wanted, names) if may_add and not any(EVERY in name for name in names) else ()
    inside = text[span[0] : span[1] - 1] + (b"," if names else b"")
    readable = [name for name in wanted if name in names or name in added]
    return _selected((*span, inside + _array(added)[1:]), added, readable, required)


def _selected(edit: Edit, added: Sequence[str], readable: Sequence[str], required: Sequence[str]) -> Selected:
    if not set(required) <= set(readable):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return Selected(edit if added else None, frozenset(added), frozenset(readable))


def _missing(wanted: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The wanted names that are not there, each once. A name that could be a pattern is none that can be asked for."""
    return tuple(dict.fromkeys(n for n in wanted if n not in names and n not in OWN and EVERY not in n))


def _array(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


# How many candidates a reply can hold. Pinecone answers with at most 4 MB, whatever top_k says, and top_k ends at 10,000.
#
# Whether the 4 MB are of JSON or of its smaller binary form is not documented: JSON is the safe reading. A guess that was
# too bold is refused by upstream, and the client's own request is sent.

LARGEST_TOP_K = 10_000
REPLY_BYTES = 3_200_000  # 4 MB less a fifth: matches differ in size
NUMBER_BYTES = 14  # a float32 with its comma: 13.7 on average over 768 to 3,072 dimensions
MATCH_BYTES = 1024  # id, score and the metadata of a usual match
FIELDS_BYTES = 4096  # the same with a passage of text
UNKNOWN_NUMBERS = 3072  # of a vector that the request does not show: the largest of the common models
SPARSE_BYTES = 24_000  # the service's limit, 1,000 indices with their values


def most(*, numbers: int = 0, is_sparse: bool = False, has_texts: bool = False) -> int:
    """How many matches fit into a reply, when each has a vector of so many numbers."""
    each = FIELDS_BYTES if has_texts else MATCH_BYTES
    return min(REPLY_BYTES // (each + NUMBER_BYTES * numbers + SPARSE_BYTES * is_sparse), LARGEST_TOP_K)


def within(candidates: int | None, *, numbers: int, is_sparse: bool) -> int:
    """How many matches of a query may be asked for: what fits into a reply, and no more than ``candidates``, the number the
    client lets the index look at; the service wants top_k within that. ``numbers``: of the query's vector, 0 where it has none.
    """
    fitting = most(numbers=numbers if numbers or is_sparse else UNKNOWN_NUMBERS, is_sparse=is_sparse)
    return fitting if candidates is None else min(fitting, candidates)


def is_worthwhile(top_k: int) -> None:
    """Raises UnsupportedError for a search that has nothing to choose among."""
    if top_k == 0:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if top_k == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)
