"""``POST /query``: what it asks for.

The service's edge maps JSON to protobuf, so a hand-written request may use either spelling of a member, and the two are
one field. A search by vector, by the id of a record, by a sparse vector, or by a dense and a sparse one.
"""

from __future__ import annotations

from collections.abc import Mapping

from vecsieve.adapters import pinecone_sizes
from vecsieve.adapters.contract import Needs, Reason, Search, Unsupported
from vecsieve.adapters.json_kept import Edit
from vecsieve.adapters.json_members import (
    integer,
    present,
    read_object,
    required,
    spelled_once,
    switch,
    text_of,
    usable,
    vector_of,
)
from vecsieve.adapters.json_spans import Members, Span
from vecsieve.adapters.pinecone_request import Document, Layout

LAYOUT = Layout(path=("matches",), id="id", score="score", payload="metadata")

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


def parse(body: bytes, span: Span, needs: Needs) -> tuple[Search, Document]:
    """Read a request. Raises Unsupported, nothing else."""
    found = read_object(body, span, _NAMES, reason=Reason.NOT_JSON)
    used = spelled_once(found, _NAMES)
    value = {name: present(body, found, spelling) for name, spelling in used.items()}
    limit = required(body, found, used.get("topK"))
    top_k = integer(body, limit)
    pinecone_sizes.is_worthwhile(top_k)
    if needs.payload_fields and not switch(body, value.get("includeMetadata")):
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    vector, self_id = vector_of(body, value.get("vector")), text_of(body, value.get("id"))
    is_sparse = _is_sparse(body, value.get("sparseVector"))
    only_one_ranking(is_dense=bool(len(vector)), is_by_id=bool(self_id), is_sparse=is_sparse)
    is_forced = not switch(body, value.get("includeValues")) and needs.vectors
    search = Search(
        top_k=top_k, offset=0, pages=False, query=usable(vector), partition=_raw(body, value.get("namespace")),
        most=pinecone_sizes.within(_count(body, value.get("maxCandidates")), numbers=len(vector), is_sparse=is_sparse),
    )  # fmt: skip
    document = Document(
        body=body, layout=LAYOUT, top_k=top_k, limit=limit, vector="values", sparse="sparseValues",
        edits=(_forced(found, used, span),) if is_forced else (), emptied=is_forced, self_id=self_id,
    )  # fmt: skip
    return search, document


def only_one_ranking(*, is_dense: bool, is_by_id: bool, is_sparse: bool) -> None:
    """Raises Unsupported for what the service refuses, or may rank in its own way."""
    if is_dense and is_by_id:
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    if not (is_dense or is_by_id or is_sparse):
        raise Unsupported(Reason.ORDERING_CHOSEN)


def _count(body: bytes, span: Span | None) -> int | None:
    return None if span is None else integer(body, span)


def _raw(body: bytes, span: Span | None) -> bytes:
    return b"" if span is None else body[span[0] : span[1]]


def _is_sparse(body: bytes, span: Span | None) -> bool:
    if span is not None and body[span[0] : span[0] + 1] != b"{":
        raise Unsupported(Reason.AMBIGUOUS_FIELD)
    return span is not None


def _forced(found: Members, used: Mapping[str, str], span: Span) -> Edit:
    """Ask for the values: in place of what the client says about them, or in the spelling that it uses."""
    spelling = used.get("includeValues")
    if spelling is not None:
        return found[spelling].value, found[spelling].end, b"true"
    spelling = "includeValues" if used["topK"] == "topK" else "include_values"
    return span[0] + 1, span[0] + 1, b'"%s":true,' % spelling.encode()
