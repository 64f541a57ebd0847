"""A request is no search, unsupported, or widened: then only its declared fields differ, and nothing else is raised.

The first byte of an input names the operation, the second what selection needs; the rest is the body, and the path of
another request that every adapter must be able to name or not.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

from fuzz.heard import heard
from support.backends.transports import GRPC, REST
from support.chroma.captures import exchanges
from support.exchanges.captures import captured
from vecsieve.adapters.backends import BACKENDS
from vecsieve.adapters.contract import Needs, Operation, RequestHead, UnsupportedError

WORDS = (
    *(b'"%s":' % name for name in (b"limit", b"top", b"offset", b"with_vector", b"with_payload", b"query", b"using")),
    *(b'"%s":' % name for name in (b"topK", b"includeValues", b"n_results", b"include", b"prefetch", b"searches")),
    *(b"true", b"null", b"1e3", b"3.0", b"-1", b"9223372036854775808", b'"\\u006cimit"', b"[]", b"{}", b"}", b","),
    *(b"/collections/", b"/points/query", b"/query/batch", b"/namespaces/", b"%2f", b"//", b"?", b"\xc3\xa9"),
    *(b"\x18\x05", b"\x20\x01", b"\x32\x00", b"\x08\xff\xff\xff\xff\x0f", b"\xf8\x07\x01"),
)  # fmt: skip
NEEDS: tuple[dict[str, Any], ...] = (
    {},
    {"payload_fields": ("text",)},
    {"optional_fields": ("größe", "vector", "text")},
    {"vector_hint": "dense"},
    {"vectors": False},
)  # fmt: skip


def seeds() -> list[bytes]:
    """Every search that is known, and the clients' own where they were recorded."""
    known = heard()
    inputs = [bytes([number, number % len(NEEDS)]) + one.body for number, one in enumerate(known)]
    names = [one.call.operation.backend for one in known]
    recorded = [("pinecone", request) for request in captured("pinecone")]
    recorded += [("chroma", exchanged.request) for exchanged in exchanges()]
    for backend, request in recorded:
        inputs.append(bytes([names.index(backend), 0]) + request.body)
        inputs.append(bytes([names.index(backend), 1]) + request.path.encode("latin-1", "replace"))
    return list(dict.fromkeys(inputs))


def check(data: bytes) -> None:
    """Read the body as a request of that operation, then as a path of every backend."""
    if len(data) < 2:
        return
    known = heard()
    one, body = known[data[0] % len(known)], data[2:]
    _name(body)
    needs = Needs(known=one.call.needs.known, **NEEDS[data[1] % len(NEEDS)])
    try:
        call = one.adapter.parse_request(one.call.operation, body, needs)
    except UnsupportedError:
        return
    assert call.searches, "a call without a search is unsupported"
    assert all(search.top_k >= 1 and search.offset >= 0 for search in call.searches)
    # What is asked for is bounded by the settings; a request's own number is not.
    counts = [min(search.top_k + 1, 2**31 - 1) for search in call.searches]
    wide = one.adapter.widen(call, counts)
    assert one.adapter.widen(call, counts) == wide, "the same twice"
    if one.rest is None:
        return
    try:
        before = one.rest(body)
    except DecodeError:  # the server refuses the one as it would have refused the other
        return
    assert one.rest(wide) == before, "only what is declared differs"


def _name(path: bytes) -> None:
    text = path.decode("latin-1")
    for transports in (REST, GRPC):
        for transport in transports.values():
            named = transport.adapter().classify(RequestHead(method="POST", path=text, message=path))
            assert named is None or (isinstance(named, Operation) and named.name in BACKENDS[named.backend].operations)
