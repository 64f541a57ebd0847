"""Documents of the newest API, read: search, fetch, list. A document is its fields, the vectors among them.

`include_fields` inverts between the two: left out or empty, a search shows no field and a fetch shows all. That a search
shows a vector field that is named is inferred; no description says it, and none says it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from servers.pinecone.calls import Answer, Call, plain
from servers.pinecone.errors import UNPROCESSABLE, Refusal, invalid, too_long
from servers.pinecone.fields import text, texts, whole
from servers.pinecone.filters import read_filter
from servers.pinecone.listing import MAX_LIST, page_of
from servers.pinecone.queries import MAX_TOP_K
from servers.pinecone.scoring import scored, tokens_of
from servers.pinecone.shapes import Reals, widened
from servers.pinecone.store import Index, Namespace, Record
from servers.pinecone.vectors import MAX_FETCH
from servers.pinecone.versions import ALPHA

Json = Any


def search(index: Index, call: Call) -> Answer:
    """The best documents of a namespace."""
    body, name = call.json(), call.parameters["namespace"]
    if call.version == ALPHA and "include_fields" not in body:
        raise Refusal(UNPROCESSABLE, "include_fields: the field is missing")
    top_k = whole(body.get("top_k"), "top_k", least=1, most=MAX_TOP_K)
    shown = texts(body.get("include_fields"), "include_fields")
    passes = read_filter(body.get("filter"))
    namespace = index.namespace(name) or Namespace()
    found = scored(namespace, index.description, body.get("score_by"), lambda one: passes(one.metadata))
    matches = [
        {"_id": one.record.id, "_score": widened(one.score), **_selected(one.record, shown)} for one in found[:top_k]
    ]
    tokens = tokens_of(body["score_by"])
    usage = {"read_units": 1, **({"embed_total_tokens": tokens} if tokens else {})}
    answer = plain({"matches": matches, "namespace": name, "usage": usage}, index.seen())
    if len(answer.body) > call.limits.result:
        raise too_long(len(answer.body), call.limits.result)
    return answer


def fetch(index: Index, call: Call) -> Answer:
    """Documents by id, or a page of those that pass a filter."""
    body, name = call.json(), call.parameters["namespace"]
    ids = texts(body.get("ids"), "ids", most=MAX_FETCH)
    if bool(ids) == (body.get("filter") is not None):
        raise invalid("one of ids and filter is wanted")
    shown = texts(body.get("include_fields"), "include_fields") or ["*"]
    records = (index.namespace(name) or Namespace()).records
    pagination: Mapping[str, Json] = {}
    if not ids:
        passes = read_filter(body["filter"])
        limit = whole(body.get("limit", 100), "limit", least=1, most=MAX_TOP_K)
        matching = sorted(one.id for one in records.values() if passes(one.metadata))
        ids, pagination = page_of(matching, limit, text(body.get("pagination_token"), "pagination_token"))
    found = {one: {"_id": one, **_selected(records[one], shown)} for one in dict.fromkeys(ids) if one in records}
    usage = {"read_units": max(1, -(-len(found) // 10))}
    return plain({"documents": found, "namespace": name, "usage": usage, **pagination})


def list_documents(index: Index, call: Call) -> Answer:
    """A page of the ids with a prefix."""
    body, name = call.json(), call.parameters["namespace"]
    prefix = text(body.get("prefix"), "prefix")
    limit = whole(body.get("limit", MAX_LIST), "limit", least=1, most=MAX_LIST)
    records = (index.namespace(name) or Namespace()).records
    matching = sorted(one for one in records if one.startswith(prefix))
    ids, pagination = page_of(matching, limit, text(body.get("pagination_token"), "pagination_token"))
    shown = [{"_id": one} for one in ids]
    return plain({"documents": shown, "namespace": name, "usage": {"read_units": 1}, **pagination})


def _selected(record: Record, shown: list[str]) -> dict[str, Json]:
    every: dict[str, Json] = {name: _numbers(values) for name, values in record.dense.items()}
    every |= {
        name: {"indices": list(one.indices), "values": _numbers(one.values)} for name, one in record.sparse.items()
    }
    every |= record.metadata  # last: a field that embeds shows its text, not its vector
    return every if "*" in shown else {name: every[name] for name in shown if name in every}


def _numbers(values: Reals) -> list[float]:
    return [widened(value) for value in values.tolist()]
