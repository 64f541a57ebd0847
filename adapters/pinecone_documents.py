"""``POST /namespaces/{ns}/documents/search`` of the 2026-07 API: what it asks for.

A search by a dense vector names the field that holds it, so that field can be asked for without knowing the schema.
Every other ranking (words, sparse vectors, text embedded by the service) is compared by its texts.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from vecsieve.adapters import pinecone_fields, pinecone_sizes
from vecsieve.adapters.contract import Needs, Reason, Search, Unsupported
from vecsieve.adapters.json_members import (
    integer,
    items_of,
    present,
    read_object,
    required,
    text_of,
    texts_of,
    usable,
    vector_of,
)
from vecsieve.adapters.json_spans import Span
from vecsieve.adapters.pinecone_request import Document, Layout

LAYOUT = Layout(path=("matches",), id="_id", score="_score", payload=None)

_ROOT = ("score_by", "top_k", "include_fields", "filter")
_DENSE = "dense_vector"
_CLAUSES = {
    _DENSE: ("type", "field", "fields", "values"),
    "sparse_vector": ("type", "field", "fields", "sparse_values"),
    "text": ("type", "field", "fields", "query"),
    "query_string": ("type", "field", "fields", "query"),
    "embed": ("type", "field", "fields", "query"),
    "sparse_embed": ("type", "field", "fields", "query"),
}


def parse(body: bytes, span: Span, needs: Needs) -> tuple[Search, Document]:
    """Read a request. Raises Unsupported, nothing else."""
    root = read_object(body, span, _ROOT, reason=Reason.NOT_JSON)
    limit = required(body, root, "top_k")
    top_k = integer(body, limit)
    pinecone_sizes.is_worthwhile(top_k)
    field, vector = _ranking(body, present(body, root, "score_by"))
    # Where vectors can be compared, texts are not fetched for it: a field the schema lacks may be refused.
    must = needs.payload_fields if field is None else (field, *needs.payload_fields)
    may = needs.optional_fields if field is None else ()
    listed = root.get("include_fields")
    selected = pinecone_fields.of_documents(
        body, None if listed is None else (listed.value, listed.end), span[0], must, may
    )
    if field is None and not selected.readable.intersection(may):
        raise Unsupported(Reason.NOTHING_TO_DO)
    most = pinecone_sizes.most(numbers=len(vector), has_texts=True)
    search = Search(top_k=top_k, offset=0, pages=False, query=usable(vector), most=most)
    document = Document(
        body=body, layout=LAYOUT, top_k=top_k, limit=limit, edits=(selected.edit,) if selected.edit else (),
        vector=field, added=selected.added,
    )  # fmt: skip
    return search, document


def _ranking(body: bytes, span: Span | None) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The field of the dense vector that decides, and the query's own; None and (0,) where none does. Raises Unsupported."""
    clauses = [] if span is None else items_of(body, span)
    if not clauses:
        raise Unsupported(Reason.ORDERING_CHOSEN)
    dense = [clause for clause in clauses if _type(body, clause) == _DENSE]
    if not dense:
        return None, vector_of(body, None)
    if len(clauses) > 1:  # the service takes a vector alone only
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    found = read_object(body, dense[0], _CLAUSES[_DENSE])
    vector = vector_of(body, present(body, found, "values"))
    many = present(body, found, "fields")
    names = [name for name in (text_of(body, present(body, found, "field")),) if name]
    names += texts_of(body, many) if many is not None else ()
    if len(names) != 1 or names[0] in pinecone_fields.OWN or pinecone_fields.EVERY in names[0]:
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    return names[0], vector


def _type(body: bytes, clause: Span) -> str:
    known = {name for names in _CLAUSES.values() for name in names}
    found = read_object(body, clause, known)
    name = text_of(body, present(body, found, "type"))
    if not found.keys() <= set(_CLAUSES.get(name, ())):
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    return name
