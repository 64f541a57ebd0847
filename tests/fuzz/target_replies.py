"""A reply is malformed, or every result of the answer is upstream's own bytes in the order of what was kept, and nothing else is raised.

The first byte of an input names the search, the second what is kept; the rest is the reply. Where all is kept of a search
that wanted no vectors, the answer must be that very reply without what came for comparison.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
from google.protobuf.message import DecodeError

from fuzz.heard import Invalidation, heard
from vecsieve.adapters.contract import MalformedReplyError, Pool
from vecsieve.adapters.wire.protobuf import LENGTH, fields

WORDS = (
    *(b'"%s"' % name for name in (b"id", b"score", b"payload", b"vector", b"points", b"result", b"matches", b"values")),
    *(b'"%s"' % name for name in (b"metadata", b"ids", b"embeddings", b"distances", b"documents", b"data", b"code")),
    *(b"null", b"1e400", b"-0.0", b"NaN", b"[[", b"]]", b"{}", b"},{", b'\\ud800', b'"\\\\"', b"[1,2,3]", b" ", b","),
    *(b"\x0a\x00", b"\x12\x02\x0a\x00", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", b"\x80\x00", b"\x0b\x0c"),
)  # fmt: skip
TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*"|-?[0-9][0-9.eE+-]*')
Keep = list[npt.NDArray[np.intp]]


def seeds() -> list[bytes]:
    """Each search with its reply, kept in order and in another."""
    known = heard()
    assert len(known) <= 256, "one byte names the search"
    return [bytes([number, how]) + one.answer for number, one in enumerate(known) for how in (0, 7)]


def check(data: bytes) -> None:
    """Read the reply, keep some of it."""
    if len(data) < 2:
        return
    known = heard()
    one, body = known[data[0] % len(known)], data[2:]
    try:
        reply = one.adapter.parse_reply(one.call, body)
    except MalformedReplyError:
        return
    assert len(reply.pools) == len(one.call.searches), "a pool for each search"
    for pool in reply.pools:
        width = len(one.call.needs.payload_fields + one.call.needs.optional_fields)
        assert pool.vectors.shape[0] == pool.size, "a vector for each candidate"
        assert not pool.fields or (len(pool.fields) == pool.size and all(len(row) == width for row in pool.fields))
        assert len(pool.ids) in {0, pool.size}, "an id for each candidate"
        assert not np.isinf(pool.vectors).any(), "a vector is whole or NaN"
    keep = _kept(reply.pools, data[1], one)
    answer = one.adapter.trim(one.call, reply, keep)
    _judge(one, body, answer, keep)


def _kept(pools: tuple[Pool, ...], how: int, one: Invalidation) -> Keep:
    """All in order where that is judged, else some of them in any order."""
    if one.whole is not None:
        return [np.arange(pool.size, dtype=np.intp) for pool in pools]
    chance = random.Random(how)
    return [
        np.array(chance.sample(range(pool.size), min(pool.size, chance.randint(0, 4))), dtype=np.intp) for pool in pools
    ]


def _judge(one: Invalidation, body: bytes, answer: bytes, keep: Keep) -> None:
    try:
        if one.whole is not None:
            assert one.read(answer) == one.whole(body), "all kept: the reply without what came for comparison"
        if one.hits is not None:
            upstream = one.hits(body)
            assert one.hits(answer) == [upstream[index] for index in keep[0]], "hits are upstream's own, in order"
    except DecodeError:  # damage to what is nobody's business here, such as a text that is no UTF-8
        return
    foreign = [piece for piece in _pieces(answer, is_text=one.is_text) if piece not in body]
    # Milvus's columns are arrays: what is kept of one is written anew, and only the whole law judges it.
    assert one.whole is not None or not foreign, f"not upstream's own: {foreign[:3]}"


def _pieces(answer: bytes, *, is_text: bool) -> Iterator[bytes]:
    if is_text:
        yield from (match[0] for match in TOKEN.finditer(answer))
        return
    for field in fields(answer):
        if field.wire == LENGTH:
            try:
                inner = fields(answer, field.span)
            except ValueError:
                yield answer[field.value : field.end]
            else:
                yield from (answer[field.start : field.end] for field in inner if field.wire != LENGTH)
