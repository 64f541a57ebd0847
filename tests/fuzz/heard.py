"""Searches as the laws' generators make them, each with the reply to its widened request: what replies are mutated from."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from laws import test_milvus as milvus

from support.backends.grpc_dialects import GRPC_DIALECTS
from support.backends.rest_dialects import REST_DIALECTS, exact
from support.backends.transports import GRPC, REST
from support.exchanges.adapter_laws import Dialect, size
from support.exchanges.conversation import Conversation
from support.exchanges.drawing import drawn
from support.milvus.bodies import Talk, talks
from support.milvus.messages import message_type
from vecsieve.adapters.contract import Adapter, Needs, RequestHead, SearchCall, UnsupportedError
from vecsieve.adapters.milvus.rest import MilvusRest
from vecsieve.adapters.milvus.search import Schema

PER_KIND = 8  # of a kind and dialect; one byte of an input names the search, so all together are at most 256
Reading = Callable[[bytes], object]
Hits = Callable[[bytes], list[Any]]
REST_SCHEMA = Schema(vectors=frozenset({"vector"}), scalars=frozenset({"id", "text"}), is_dynamic=True)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Invalidation:
    """One search and what came of it.

    ``hits``: a reply's results, where keeping some must show those of upstream. ``whole``: what keeping all of a reply must
    show, as ``read`` reads the answer. ``rest``: what widening must leave of a request; None where no law says it.
    """

    adapter: Adapter
    call: SearchCall
    body: bytes
    answer: bytes
    read: Reading
    rest: Reading | None = None
    hits: Hits | None = None
    whole: Reading | None = None
    is_text: bool = True


@cache
def heard() -> tuple[Invalidation, ...]:
    """Of every dialect that has searches."""
    invalidations: list[Invalidation] = []
    for name, dialect in REST_DIALECTS.items():
        invalidations += _of(REST[name].adapter(), dialect)
    for name, other in GRPC_DIALECTS.items():
        invalidations += _of(GRPC[name].adapter(), other, is_text=False)
    return (*invalidations, *map(_of_milvus, drawn(talks(), PER_KIND)), *_of_milvus_rest())


def _of(adapter: Adapter, dialect: Dialect, *, is_text: bool = True) -> list[Invalidation]:
    laws: dict[str, Any] = {"read": dialect.seen, "is_text": is_text}
    invalidations: list[Invalidation] = []
    for needs, extra, more in (
        (Needs(), None, {}),
        (Needs(optional_fields=("text", "größe", "a.b")), None, {}),
        (Needs(), dialect.content, {"hits": lambda body: dialect.listed(body)[0]}),
        (Needs(), dialect.plain, {"whole": partial(dialect.seen, hides=True)}),
    ):
        made = dialect.conversations() if extra is None else dialect.conversations(operation="query", extra=extra)
        for one in drawn(made, PER_KIND):
            call = _parsed(adapter, one, needs)
            if call is not None:
                rest = partial(dialect.undeclared, operation=call.operation.name)
                invalidations.append(_answered(adapter, call, one.body, one.answer, {**laws, **more, "rest": rest}))
    return invalidations


def _parsed(adapter: Adapter, one: Conversation, needs: Needs) -> SearchCall | None:
    """None for the few that are left alone with these needs."""
    operation = adapter.classify(RequestHead(method="POST", path=one.path, message=one.body))
    assert operation is not None
    try:
        return adapter.parse_request(operation, one.body, needs)
    except UnsupportedError:
        return None


def _answered(
    adapter: Adapter, call: SearchCall, body: bytes, answer: Callable[[bytes], bytes], laws: dict[str, Any]
) -> Invalidation:
    wide = adapter.widen(call, [size(search, 3) for search in call.searches])
    return Invalidation(adapter=adapter, call=call, body=body, answer=answer(wide), **laws)


def _of_milvus(talk: Talk) -> Invalidation:
    call = milvus.parse(talk, milvus.known(talk))
    requested = set(message_type("SearchRequest").FromString(talk.body).output_fields)
    is_visible = talk.vector in requested or "*" in requested or (talk.server.lite and not requested)

    def read(body: bytes) -> object:
        message = message_type("SearchResults").FromString(body)
        message.results.ClearField("top_k")
        return message.SerializeToString(deterministic=True)

    def whole(body: bytes) -> object:
        message = message_type("SearchResults").FromString(body)
        for name in () if is_visible else ("fields_data", "output_fields"):
            listed = getattr(message.results, name)
            kept = [column for column in listed if getattr(column, "field_name", column) != talk.vector]
            del listed[:]
            listed.extend(kept)
        return read(message.SerializeToString())

    laws = {"read": read, "rest": milvus.undeclared, "whole": whole, "is_text": False}
    return _answered(milvus.ADAPTER, call, talk.body, talk.answer, laws)


def _of_milvus_rest() -> list[Invalidation]:
    """No generator knows this dialect: six requests as its client words them, and replies as its server does."""
    invalidations, adapter = [], MilvusRest()
    hybrid = "v2/vectordb/entities/hybrid_search"
    for version, member in (
        ("v1/vector/search", "vector"),
        ("v2/vectordb/entities/search", "data"),
        (hybrid, "search"),
    ):
        for listed in (["text"], ["text", "vector"]):
            query: Any = [0.5, 1, -2] if member == "vector" else [[0.5, 1, -2]]
            search = {
                "collectionName": "docs",
                member: query,
                "annsField": "vector",
                "limit": 3,
                "outputFields": listed,
            }
            if member != "data":
                del search["annsField"]
            if member == "search":
                part = {"data": query, "annsField": "vector", "limit": 3}
                search |= {"search": [part, part], "rerank": {"strategy": "rrf", "params": {"k": 60}}}
            body = json.dumps(search).encode()
            operation = adapter.classify(RequestHead(method="POST", path="/" + version))
            assert operation is not None
            call = adapter.parse_request(operation, body, Needs(known=REST_SCHEMA))
            rows = [{"distance": 1 - n / 8, "id": f"4{n}", "text": f"é {n}", "vector": [n, 1, 0.5]} for n in range(5)]
            content = {"code": 200 if member == "vector" else 0, "data": rows}
            answer = json.dumps(content, separators=(",", ":"), ensure_ascii=False).encode()
            hits: Hits | None = (lambda raw: exact(raw)["data"]) if "vector" in listed else None
            invalidations.append(
                Invalidation(adapter=adapter, call=call, body=body, answer=answer, read=exact, hits=hits)
            )
    return invalidations
