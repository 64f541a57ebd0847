"""What the laws of the adapters must know of a backend on one transport, and whole conversations with a model of it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

from support.exchanges.conversation import Conversation
from vecsieve.adapters.contract import Adapter, Needs, Reply, RequestHead, Search, SearchCall, UnsupportedError

NEEDS = st.builds(
    Needs,
    payload_fields=st.sampled_from([(), (), (), ("text",), ("doc", "vector")]),
    optional_fields=st.sampled_from([(), ("doc",), ("größe", "text", "no such key", "vector"), ("dense", "points")]),
    seen_fields=st.sampled_from([(), (), ("text",)]),
    whole=st.booleans(),
    vectors=st.sampled_from([True, True, False]),
    query=st.booleans(),
    vector_hint=st.sampled_from([None, "dense"]),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """A backend on one transport.

    ``path``: one of its searches. ``declared``: the members or fields that widening may change in each search. ``content``: laid over a request
    of ``content_of`` (None: of any operation), it leaves nothing to widen. Over a ``query``: ``plain`` wants no vectors, ``bare`` no payload
    either, ``payloads`` want some payload. ``noise``: pieces of replies. ``added``: what the reply to any widened search has in addition.
    """

    conversations: Callable[..., st.SearchStrategy[Conversation]]
    path: str
    declared: frozenset[str]
    content: dict[str, Any]
    content_of: str | None = None
    plain: dict[str, Any]
    bare: dict[str, Any]
    payloads: st.SearchStrategy[dict[str, Any]]
    noise: tuple[bytes, ...]
    added: re.Pattern[bytes] = re.compile(rb"(?!)")

    def undeclared(self, body: bytes, operation: str) -> object:
        """What widening must leave of a request."""
        raise NotImplementedError

    def listed(self, body: bytes) -> tuple[list[Any], object]:
        """The results of a query's reply, and what is around them."""
        raise NotImplementedError

    def stored(self, talk: Conversation, count: int, keys: Iterable[str]) -> list[dict[str, object]]:
        """The values under these keys that the first results have in the database, as ``value`` reads them."""
        raise NotImplementedError

    def value(self, raw: bytes) -> object:
        """A field of a pool, to be compared."""
        raise NotImplementedError

    def seen(self, body: bytes, *, hides: bool = False) -> object:
        """A query's reply, to be compared; None if the backend's own library cannot read it. ``hides``: without what came for comparison alone."""
        raise NotImplementedError


def parse(adapter: Adapter, talk: Conversation, needs: Needs) -> SearchCall:
    operation = adapter.classify(RequestHead(method="POST", path=talk.path, message=talk.body))
    assert operation is not None
    try:
        return adapter.parse_request(operation, talk.body, needs)
    except UnsupportedError as verdict:
        assume(verdict.reason is None)
        raise


def fetched(adapter: Adapter, talk: Conversation, needs: Needs, *, factor: int = 3) -> tuple[SearchCall, bytes, Reply]:
    """The call, the reply to its widened request, and its pools."""
    call = parse(adapter, talk, needs)
    body = talk.answer(adapter.widen(call, [size(search, factor) for search in call.searches]))
    return call, body, adapter.parse_reply(call, body)


def size(search: Search, factor: int) -> int:
    candidates = factor * (search.top_k + search.offset)
    return candidates if search.most is None else max(search.top_k, min(candidates, search.most))


def damaged(data: st.DataObject, body: bytes, noise: bytes) -> bytes:
    """``body`` with bytes cut out at one place and ``noise`` put there."""
    start = data.draw(st.integers(0, len(body)))
    end = data.draw(st.integers(start, min(len(body), start + 12)))
    return body[:start] + noise + body[end:]
