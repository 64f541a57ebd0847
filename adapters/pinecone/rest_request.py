"""``POST /query``: what it asks for.

The service's edge maps JSON to protobuf, so a hand-written request may use either spelling of a member, and the two are
one field. A search by vector, by the id of a record, by a sparse vector, or by a dense and a sparse one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Needs, Reason, Search, UnsupportedError
from vecsieve.adapters.pinecone import request
from vecsieve.adapters.pinecone import request as pinecone_request
from vecsieve.adapters.pinecone.request import Document, Layout
from vecsieve.adapters.wire.json import Members, Span
from vecsieve.adapters.wire.json_requests import (
    integer,
    items_of,
    present,
    read_object,
    required,
    spelled_once,
    switch,
    text_of,
    texts_of,
    usable,
    vector_of,
)
from vecsieve.adapters.wire.json_vectors import Edit

QUERY_LAYOUT = Layout(path=("matches",), id="id", score="score", payload="metadata")

# Each with its other spelling. The legacy ``queries`` is not among them: such a request goes through.
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
    """Read a request. Raises UnsupportedError, nothing else."""
    found = read_object(body, span, _NAMES, reason=Reason.NOT_JSON)
    used = spelled_once(found, _NAMES)
    value = {name: present(body, found, spelling) for name, spelling in used.items()}
    limit = required(body, found, used.get("topK"))
    top_k = integer(body, limit)
    request.is_worthwhile(top_k)
    if needs.payload_fields and not switch(body, value.get("includeMetadata")):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    vector, self_id = vector_of(body, value.get("vector")), text_of(body, value.get("id"))
    is_sparse = _is_sparse(body, value.get("sparseVector"))
    only_one_ranking(is_dense=bool(len(vector)), is_by_id=bool(self_id), is_sparse=is_sparse)
    is_forced = not switch(body, value.get("includeValues")) and needs.vectors
    search = Search(
        top_k=top_k, offset=0, pages=False, query=usable(vector), partition=_raw(body, value.get("namespace")),
        most=request.within(_count(body, value.get("maxCandidates")), numbers=len(vector), is_sparse=is_sparse),
    )  # fmt: skip
    document = Document(
        body=body, layout=QUERY_LAYOUT, top_k=top_k, limit=limit, vector="values", sparse="sparseValues",
        edits=(_forced(found, used, span),) if is_forced else (), emptied=is_forced, self_id=self_id,
    )  # fmt: skip
    return search, document


def only_one_ranking(*, is_dense: bool, is_by_id: bool, is_sparse: bool) -> None:
    """Raises UnsupportedError for what the service refuses, or may rank in its own way."""
    if is_dense and is_by_id:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if not (is_dense or is_by_id or is_sparse):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)


def _count(body: bytes, span: Span | None) -> int | None:
    return None if span is None else integer(body, span)


def _raw(body: bytes, span: Span | None) -> bytes:
    return b"" if span is None else body[span[0] : span[1]]


def _is_sparse(body: bytes, span: Span | None) -> bool:
    if span is not None and body[span[0] : span[0] + 1] != b"{":
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return span is not None


def _forced(found: Members, used: Mapping[str, str], span: Span) -> Edit:
    """Ask for the values: in place of what the client says about them, or in the spelling that it uses."""
    spelling = used.get("includeValues")
    if spelling is not None:
        return found[spelling].value, found[spelling].end, b"true"
    spelling = "includeValues" if used["topK"] == "topK" else "include_values"
    return span[0] + 1, span[0] + 1, b'"%s":true,' % spelling.encode()


# ``POST /records/namespaces/{ns}/search``: what it asks for. It brings no vectors, so results are compared by their fields,
# or by vectors that are looked up.
#
# A reranked search asks the service for more of what it ranked already: ``query.top_k`` stays, ``rerank.top_n`` is
# raised up to it. So the candidates, their scores and the price are those of the client's own search.

RECORDS_LAYOUT = Layout(path=("result", "hits"), id="_id", score="_score", payload="fields")

_RECORDS_ROOT = ("query", "fields", "rerank")
_QUERY = ("top_k", "inputs", "vector", "id", "filter", "match_terms")
_RERANK = ("model", "rank_fields", "top_n", "parameters", "query")


def parse_records(body: bytes, span: Span, needs: Needs) -> tuple[Search, Document]:
    """Read a request. Raises UnsupportedError, nothing else."""
    root = read_object(body, span, _RECORDS_ROOT, reason=Reason.NOT_JSON)
    inside = present(body, root, "query")
    if inside is None:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    query = read_object(body, inside, _QUERY)
    limit, most = required(body, query, "top_k"), pinecone_request.most(has_texts=True)
    top_k = integer(body, limit)
    rerank = present(body, root, "rerank")
    if rerank is not None:
        limit, most = _reranked(body, rerank, top_k), min(top_k, most)
        top_k = integer(body, limit)
    pinecone_request.is_worthwhile(top_k)
    listed = present(body, root, "fields")
    selected = request.of_records(body, listed, needs.payload_fields, needs.optional_fields)
    if not needs.lookups and not selected.readable.intersection(needs.optional_fields):
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    search = Search(top_k=top_k, offset=0, pages=False, query=None, most=most)
    document = Document(
        body=body, layout=RECORDS_LAYOUT, top_k=top_k, limit=limit, edits=(selected.edit,) if selected.edit else (),
        added=selected.added, self_id=text_of(body, present(body, query, "id")),
    )  # fmt: skip
    return search, document


def _reranked(body: bytes, span: Span, top_k: int) -> Span:
    """Where ``top_n`` stands. Raises UnsupportedError when it leaves out nothing, so that there is nothing to choose from."""
    limit = present(body, read_object(body, span, _RERANK), "top_n")
    if limit is None or integer(body, limit) >= top_k:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return limit


# ``POST /namespaces/{ns}/documents/search`` of the 2026-07 API: what it asks for.
#
# A search by a dense vector names the field that holds it, so that field can be asked for without knowing the schema.
# Every other ranking (words, sparse vectors, text embedded by the service) is compared by its texts.

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
    """Read a request. Raises UnsupportedError, nothing else."""
    root = read_object(body, span, _DOCUMENTS_ROOT, reason=Reason.NOT_JSON)
    limit = required(body, root, "top_k")
    top_k = integer(body, limit)
    pinecone_request.is_worthwhile(top_k)
    field, vector = _ranking(body, present(body, root, "score_by"))
    # Where vectors can be compared, texts are not fetched for it: a field the schema lacks may be refused.
    must = needs.payload_fields if field is None else (field, *needs.payload_fields)
    may = needs.optional_fields if field is None else ()
    listed = root.get("include_fields")
    selected = request.of_documents(body, None if listed is None else (listed.value, listed.end), span[0], must, may)
    if field is None and not selected.readable.intersection(may):
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    most = pinecone_request.most(numbers=len(vector), has_texts=True)
    search = Search(top_k=top_k, offset=0, pages=False, query=usable(vector), most=most)
    document = Document(
        body=body, layout=DOCUMENTS_LAYOUT, top_k=top_k, limit=limit, edits=(selected.edit,) if selected.edit else (),
        vector=field, added=selected.added,
    )  # fmt: skip
    return search, document


def _ranking(body: bytes, span: Span | None) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The field of the dense vector that decides, and the query's own; None and (0,) where none does. Raises UnsupportedError."""
    clauses = [] if span is None else items_of(body, span)
    if not clauses:
        raise UnsupportedError(Reason.ORDERING_CHOSEN)
    dense = [clause for clause in clauses if _type(body, clause) == _DENSE]
    if not dense:
        return None, vector_of(body, None)
    if len(clauses) > 1:  # the service takes a vector alone only
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    found = read_object(body, dense[0], _CLAUSES[_DENSE])
    vector = vector_of(body, present(body, found, "values"))
    many = present(body, found, "fields")
    names = [name for name in (text_of(body, present(body, found, "field")),) if name]
    names += texts_of(body, many) if many is not None else ()
    if len(names) != 1 or names[0] in request.OWN or request.EVERY in names[0]:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return names[0], vector


def _type(body: bytes, clause: Span) -> str:
    known = {name for names in _CLAUSES.values() for name in names}
    found = read_object(body, clause, known)
    name = text_of(body, present(body, found, "type"))
    if not found.keys() <= set(_CLAUSES.get(name, ())):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return name
