"""Parses and widens the three searches over REST: query, records search, documents search. The client's bytes are spliced."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ..base import check_page
from ..contract import Needs, Reason, Search, UnsupportedError
from ..wire.json import Members, Span, splice
from ..wire.json_requests import (
    integer,
    items_of,
    present,
    read_object,
    required,
    spelled_once,
    switch,
    text_of,
    texts_of,
    vector_of,
)
from ..wire.json_vectors import Edit
from ..wire.vectors import usable


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The members of a kind of reply: the path to its list, and the members of an element.

    ``payload``: of metadata or fields; None if they are members of the element.
    """

    path: tuple[str, ...]
    id: str
    score: str
    payload: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """One search. ``limit``: the span of the number of results. ``edits``: the other changes of a widened request.

    ``vector``, ``sparse``: the members with a candidate's dense and sparse vector; None for none. ``emptied``: the client did not request
    ``vector``, and gets ``[]``. ``added``: the fields that the client did not select. ``is_bare``: it did not request metadata either.
    ``self_id``: the record by which it searches.
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
    is_bare: bool = False
    self_id: str = ""


def widen(document: Document, fetch_k: Sequence[int]) -> bytes:
    """The request for ``fetch_k[0]`` candidates, with the members to compare; 0 leaves it unchanged."""
    (count,) = fetch_k
    if not count:
        return document.body
    raised: list[Edit] = [] if count == document.top_k else [(*document.limit, str(count).encode())]
    return splice(document.body, [*raised, *document.edits])


# Selections of fields. An absent selection means every field of records, and none of documents.

EVERY = "*"
ALWAYS_PRESENT = frozenset({"_id", "_score"})  # members that are always present, and are no fields


@dataclass(frozen=True, slots=True)
class Selected:
    """The edit of a list of fields, the names added to it, and the wanted names in the reply."""

    edit: Edit | None
    added: frozenset[str]
    readable: frozenset[str]


def of_records(text: bytes, span: Span | None, required: Sequence[str], optional: Sequence[str]) -> Selected:
    """``fields`` of a records search. Raises UnsupportedError."""
    if span is None:
        return _all(required, optional)
    names = texts_of(text, span)
    # The meaning of an empty list is not documented.
    return _listed(text, span, names, required, optional, may_add=bool(names))


def of_documents(
    text: bytes, span: Span | None, brace: int, required: Sequence[str], optional: Sequence[str]
) -> Selected:
    """``include_fields`` of a documents search, inserted after ``brace`` if absent. Raises UnsupportedError."""
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
    needed = (*required, *optional)
    # A pattern, if the service has any, may select a field that would be removed again.
    added = _missing(needed, names) if may_add and not any(EVERY in name for name in names) else ()
    inside = text[span[0] : span[1] - 1] + (b"," if names else b"")
    readable = [name for name in needed if name in names or name in added]
    return _selected((*span, inside + _array(added)[1:]), added, readable, required)


def _selected(edit: Edit, added: Sequence[str], readable: Sequence[str], required: Sequence[str]) -> Selected:
    if not set(required) <= set(readable):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    return Selected(edit if added else None, frozenset(added), frozenset(readable))


def _missing(needed: Sequence[str], names: Sequence[str]) -> tuple[str, ...]:
    """The wanted names that are absent, except those that may be patterns."""
    return tuple(dict.fromkeys(n for n in needed if n not in names and n not in ALWAYS_PRESENT and EVERY not in n))


def _array(names: Sequence[str]) -> bytes:
    return json.dumps(list(names), ensure_ascii=False, separators=(",", ":")).encode(errors="replace")


# The largest fetch_k. A reply has at most 4 MB, and top_k is at most 10,000. It is not documented whether the 4 MB are of JSON or of the
# smaller binary form, so JSON is assumed. If upstream refuses, the client's request is sent.

LARGEST_TOP_K = 10_000
REPLY_BYTES = 3_200_000  # 4 MB less a fifth: matches differ in size
NUMBER_BYTES = 14  # a float32 with its comma: 13.7 on average over 768 to 3,072 dimensions
MATCH_BYTES = 1024  # id, score and the metadata of a usual match
FIELDS_BYTES = 4096  # the same with a passage of text
UNKNOWN_NUMBERS = 3072  # numbers of a vector that the request does not show: as in the largest of the common models
SPARSE_BYTES = 24_000  # the service's limit, 1,000 indices with their values


def most_matches(*, numbers: int = 0, is_sparse: bool = False, has_texts: bool = False) -> int:
    """The number of matches that fit into a reply, with vectors of this many numbers."""
    size = FIELDS_BYTES if has_texts else MATCH_BYTES
    return min(REPLY_BYTES // (size + NUMBER_BYTES * numbers + SPARSE_BYTES * is_sparse), LARGEST_TOP_K)


def within(candidates: int | None, *, numbers: int, is_sparse: bool, has_texts: bool = False) -> int:
    """The largest fetch_k of a query: as many as fit into a reply, at most ``candidates``, the client's limit for the index. ``numbers``:
    of the query's vector; 0 for none.
    """
    known = numbers if numbers or is_sparse else UNKNOWN_NUMBERS
    fitting = most_matches(numbers=known, is_sparse=is_sparse, has_texts=has_texts)
    return fitting if candidates is None else min(fitting, candidates)


QUERY_LAYOUT = Layout(path=("matches",), id="id", score="score", payload="metadata")

# Both spellings of each member: the service maps JSON to protobuf and accepts either. Not supported: the legacy ``queries``.
_SPELLINGS: Mapping[str, str] = {
    "topK": "top_k",
    "vector": "vector",
    "id": "id",
    "sparseVector": "sparse_vector",
    "namespace": "namespace",
    "filter": "filter",
    "includeValues": "include_values",
    "includeMetadata": "include_metadata",
    "scanFactor": "scan_factor",
    "maxCandidates": "max_candidates",
}
_NAMES = {spelling: name for name, other in _SPELLINGS.items() for spelling in (name, other)}


def parse_query(body: bytes, span: Span, needs: Needs) -> tuple[Search, Document]:
    root = read_object(body, span, _NAMES, reason=Reason.NOT_JSON)
    used = spelled_once(root, _NAMES)
    value = {name: present(body, root, spelling) for name, spelling in used.items()}
    limit = required(body, root, used.get("topK"))
    top_k = integer(body, limit)
    check_page(top_k, 0)
    has_metadata = switch(body, value.get("includeMetadata"))
    if needs.payload_fields and not has_metadata:
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    is_bare = not has_metadata and bool(needs.whole or needs.seen_fields)
    vector, self_id = vector_of(body, value.get("vector")), text_of(body, value.get("id"))
    is_sparse = _is_sparse(body, value.get("sparseVector"))
    only_one_ranking(is_dense=bool(len(vector)), is_by_id=bool(self_id), is_sparse=is_sparse)
    is_forced = not switch(body, value.get("includeValues")) and needs.vectors
    candidates, namespace = value.get("maxCandidates"), value.get("namespace")
    limited = None if candidates is None else integer(body, candidates)
    edits = [_forced(root, used, span, "includeValues", "include_values")] if is_forced else []
    edits += [_forced(root, used, span, "includeMetadata", "include_metadata")] if is_bare else []
    search = Search(
        top_k=top_k, offset=0, pages=False, query=usable(vector), partition=b"" if namespace is None else body[slice(*namespace)],
        most=within(limited, numbers=len(vector), is_sparse=is_sparse, has_texts=is_bare),
    )  # fmt: skip
    document = Document(
        body=body, layout=QUERY_LAYOUT, top_k=top_k, limit=limit, vector="values", sparse="sparseValues",
        edits=tuple(edits), emptied=is_forced, is_bare=is_bare, self_id=self_id,
    )  # fmt: skip
    return search, document


def only_one_ranking(*, is_dense: bool, is_by_id: bool, is_sparse: bool) -> None:
    """Raises UnsupportedError for a query that the service refuses, or without a ranking."""
    if is_dense and is_by_id:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if not (is_dense or is_by_id or is_sparse):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)


def _is_sparse(body: bytes, span: Span | None) -> bool:
    if span is not None and body[span[0] : span[0] + 1] != b"{":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return span is not None


def _forced(members: Members, used: Mapping[str, str], span: Span, name: str, other: str) -> Edit:
    """Switch values or metadata on: replaces the client's switch, or uses its spelling. ``name``, ``other``: both spellings."""
    spelling = used.get(name)
    if spelling is not None:
        return members[spelling].value, members[spelling].end, b"true"
    spelling = name if used["topK"] == "topK" else other
    return span[0] + 1, span[0] + 1, b'"%s":true,' % spelling.encode()


# Records search: ``POST /records/namespaces/{ns}/search``. It returns no vectors: results are compared by their fields, or by vectors
# fetched by id. Of a reranked search only ``rerank.top_n`` is raised, up to ``query.top_k``, so that candidates, scores and price are
# those of the client's search.

RECORDS_LAYOUT = Layout(path=("result", "hits"), id="_id", score="_score", payload="fields")

_RECORDS_ROOT = ("query", "fields", "rerank")
_QUERY = ("top_k", "inputs", "vector", "id", "filter", "match_terms")
_RERANK = ("model", "rank_fields", "top_n", "parameters", "query")


def parse_records(body: bytes, span: Span, needs: Needs) -> tuple[Search, Document]:
    root = read_object(body, span, _RECORDS_ROOT, reason=Reason.NOT_JSON)
    inside = present(body, root, "query")
    if inside is None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    query = read_object(body, inside, _QUERY)
    limit, most = required(body, query, "top_k"), most_matches(has_texts=True)
    top_k = integer(body, limit)
    rerank = present(body, root, "rerank")
    if rerank is not None:
        limit, most = _reranked(body, rerank, top_k), min(top_k, most)
        top_k = integer(body, limit)
    check_page(top_k, 0)
    listed = present(body, root, "fields")
    selected = of_records(body, listed, needs.payload_fields, needs.optional_fields)
    if not needs.lookups and not selected.readable.intersection(needs.optional_fields):
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    search = Search(top_k=top_k, offset=0, pages=False, query=None, most=most)
    document = Document(
        body=body, layout=RECORDS_LAYOUT, top_k=top_k, limit=limit, edits=(selected.edit,) if selected.edit else (),
        added=selected.added, self_id=text_of(body, present(body, query, "id")),
    )  # fmt: skip
    return search, document


def _reranked(body: bytes, span: Span, top_k: int) -> Span:
    """The span of ``top_n``. Raises UnsupportedError unless it is below ``top_k``."""
    limit = present(body, read_object(body, span, _RERANK), "top_n")
    if limit is None or integer(body, limit) >= top_k:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return limit


# Documents search: ``POST /namespaces/{ns}/documents/search`` of the 2026-07 API. A search by a dense vector names its field, which can
# therefore be requested without the schema. Other rankings (words, sparse vectors, text embedded by the service) are compared by texts.

DOCUMENTS_LAYOUT = Layout(path=("matches",), id="_id", score="_score", payload=None)

_DOCUMENTS_ROOT = ("score_by", "top_k", "include_fields", "filter")
_DENSE = "dense_vector"
_CLAUSES = {
    _DENSE: ("type", "field", "fields", "values"),
    "sparse_vector": ("type", "field", "fields", "sparse_values"),
    "text": ("type", "field", "fields", "query"),
    "query_string": ("type", "field", "fields", "query"),
    "embed": ("type", "field", "fields", "query"),
    "sparse_embed": ("type", "field", "fields", "query"),
}


def parse_documents(body: bytes, span: Span, needs: Needs) -> tuple[Search, Document]:
    root = read_object(body, span, _DOCUMENTS_ROOT, reason=Reason.NOT_JSON)
    limit = required(body, root, "top_k")
    top_k = integer(body, limit)
    check_page(top_k, 0)
    field, vector = _ranking(body, present(body, root, "score_by"))
    # If there are vectors to compare, only texts that documents have had are requested: a field that the schema lacks may be refused.
    must = needs.payload_fields if field is None else (field, *needs.payload_fields)
    may = needs.optional_fields if field is None else needs.seen_fields
    listed = root.get("include_fields")
    selected = of_documents(body, None if listed is None else listed.span, span[0], must, may)
    if field is None and not selected.readable.intersection(may):
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    most = most_matches(numbers=len(vector), has_texts=True)
    search = Search(top_k=top_k, offset=0, pages=False, query=usable(vector), most=most)
    document = Document(
        body=body, layout=DOCUMENTS_LAYOUT, top_k=top_k, limit=limit, edits=(selected.edit,) if selected.edit else (),
        vector=field, added=selected.added,
    )  # fmt: skip
    return search, document


def _ranking(body: bytes, span: Span | None) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The field of the dense vector, and the query's vector; None and (0,) for another ranking. Raises UnsupportedError."""
    clauses = [] if span is None else items_of(body, span)
    if not clauses:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    dense = [clause for clause in clauses if _type(body, clause) == _DENSE]
    if not dense:
        return None, vector_of(body, None)
    if len(clauses) > 1:  # the service accepts only a single vector
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    clause = read_object(body, dense[0], _CLAUSES[_DENSE])
    vector = vector_of(body, present(body, clause, "values"))
    many = present(body, clause, "fields")
    names = [name for name in (text_of(body, present(body, clause, "field")),) if name]
    names += texts_of(body, many) if many is not None else ()
    if len(names) != 1 or names[0] in ALWAYS_PRESENT or EVERY in names[0]:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return names[0], vector


def _type(body: bytes, clause: Span) -> str:
    known = {name for names in _CLAUSES.values() for name in names}
    fields = read_object(body, clause, known)
    name = text_of(body, present(body, fields, "type"))
    if not fields.keys() <= set(_CLAUSES.get(name, ())):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return name
