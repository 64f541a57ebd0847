"""The ranked endpoints from before `query`: their bodies said as a query body. Their `limit` is required and may be called `top`."""

from __future__ import annotations

from vecsieve.proxy.embedded.errors import bad_request
from vecsieve.proxy.embedded.fields import Body, Json, one_or_many, read, required, text

_SHARED = ("filter", "params", "limit", "top", "offset", "with_payload", "with_vector", "shard_key")


def from_search(body: Body) -> dict[str, Json]:
    """`search`: a bare vector, or `{"name", "vector"}` with a dense or sparse vector."""
    vector = required(body, "vector")
    said = _shared(body, "with_vectors", "score_threshold")
    if isinstance(vector, dict):
        return said | {"query": {"nearest": required(vector, "vector")}, "using": text(required(vector, "name"))}
    return said | {"query": {"nearest": vector}}


def from_recommend(body: Body) -> dict[str, Json]:
    """`recommend`: examples and a strategy."""
    examples = {name: body[name] for name in ("positive", "negative", "strategy") if body.get(name) is not None}
    said = _shared(body, "with_vectors", "score_threshold", "using", "lookup_from")
    return said | {"query": {"recommend": examples}}


def from_discover(body: Body) -> dict[str, Json]:
    """`discover`: a target, a context or both. It has no `with_vectors` alias: that spelling is ignored."""
    target, context = read(body, "target"), one_or_many(read(body, "context"))
    if target is None and not context:
        raise bad_request("Either target or context should be specified")
    said = _shared(body, "using", "lookup_from")
    if target is None:
        return said | {"query": {"context": context}}
    return said | {"query": {"discover": {"target": target, "context": context}}}


def _shared(body: Body, *more: str) -> dict[str, Json]:
    return {name: body[name] for name in (*_SHARED, *more) if name in body}
