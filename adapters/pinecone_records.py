"""``POST /records/namespaces/{ns}/search``: what it asks for. It brings no vectors, so results are compared by their fields,
or by vectors that are looked up.

A reranked search asks the service for more of what it ranked already: ``query.top_k`` stays, ``rerank.top_n`` is
raised up to it. So the candidates, their scores and the price are those of the client's own search.
"""

from __future__ import annotations

from vecsieve.adapters import pinecone_fields, pinecone_sizes
from vecsieve.adapters.contract import Needs, Reason, Search, Unsupported
from vecsieve.adapters.json_members import integer, present, read_object, required, text_of
from vecsieve.adapters.json_spans import Span
from vecsieve.adapters.pinecone_request import Document, Layout

LAYOUT = Layout(path=("result", "hits"), id="_id", score="_score", payload="fields")

_ROOT = ("query", "fields", "rerank")
_QUERY = ("top_k", "inputs", "vector", "id", "filter", "match_terms")
_RERANK = ("model", "rank_fields", "top_n", "parameters", "query")


def parse(body: bytes, span: Span, needs: Needs) -> tuple[Search, Document]:
    """Read a request. Raises Unsupported, nothing else."""
    root = read_object(body, span, _ROOT, reason=Reason.NOT_JSON)
    inside = present(body, root, "query")
    if inside is None:
        raise Unsupported(Reason.ORDERING_CHOSEN)
    query = read_object(body, inside, _QUERY)
    limit, most = required(body, query, "top_k"), pinecone_sizes.most(has_texts=True)
    top_k = integer(body, limit)
    rerank = present(body, root, "rerank")
    if rerank is not None:
        limit, most = _reranked(body, rerank, top_k), min(top_k, most)
        top_k = integer(body, limit)
    pinecone_sizes.is_worthwhile(top_k)
    listed = present(body, root, "fields")
    selected = pinecone_fields.of_records(body, listed, needs.payload_fields, needs.optional_fields)
    if not needs.lookups and not selected.readable.intersection(needs.optional_fields):
        raise Unsupported(Reason.NOTHING_TO_DO)
    search = Search(top_k=top_k, offset=0, pages=False, query=None, most=most)
    document = Document(
        body=body, layout=LAYOUT, top_k=top_k, limit=limit, edits=(selected.edit,) if selected.edit else (),
        added=selected.added, self_id=text_of(body, present(body, query, "id")),
    )  # fmt: skip
    return search, document


def _reranked(body: bytes, span: Span, top_k: int) -> Span:
    """Where ``top_n`` stands. Raises Unsupported when it leaves out nothing, so that there is nothing to choose from."""
    limit = present(body, read_object(body, span, _RERANK), "top_n")
    if limit is None or integer(body, limit) >= top_k:
        raise Unsupported(Reason.NOTHING_TO_DO)
    return limit
