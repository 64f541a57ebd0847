"""Strategies for whole gRPC conversations with Milvus: schemas, searches of every kind that is ours, and what answers them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import strategies as st

from support.milvus.messages import message_type, pairs
from support.milvus.model import DIM, NUMBERS, VECTORS, Row, Server

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "flag": st.booleans(),
    "small": st.integers(-(2**31), 2**31 - 1),
    "big": st.integers(-(2**63), 2**63 - 1),
    "ratio": st.sampled_from([0.0, 0.5, -2.25]),
    "exact": st.sampled_from([0.0, 0.1, 1e300]),
    "text": st.sampled_from(["", "doc é", "vec", "a" * 200]),
    "doc": st.sampled_from([b"{}", b'{"a":[1]}', b"null"]),
    "tags": st.lists(st.integers(0, 300), max_size=3),
    "when": st.integers(0, 2**40),
    "place": st.binary(max_size=4),
}
_BYTES = {"vec": 4 * DIM, "half": 2 * DIM, "brain": 2 * DIM, "tiny": DIM, "bits": 1}
_META = st.dictionaries(st.sampled_from(["dyn", "page", "größe"]), st.sampled_from([1, "x", None, [2]]), max_size=3)
NAMES = [*NUMBERS, *VECTORS, "dyn", "page"]
DENSE = {"vec": 101, "half": 102, "brain": 103, "tiny": 105}


@dataclass(frozen=True, slots=True, kw_only=True)
class Talk:
    """One request and the server it goes to. ``vector``: what it searches."""

    server: Server
    body: bytes
    vector: str

    def answer(self, body: bytes) -> bytes:
        return self.server.answer(body)


@st.composite
def rows(draw: st.DrawFn, *, text_id: bool, nulls: bool) -> Row:
    def maybe(strategy: st.SearchStrategy[Any]) -> Any:
        return None if nulls and draw(st.integers(0, 3)) == 0 else draw(strategy)

    vectors: dict[str, bytes | None] = {
        name: None if (packed := maybe(st.integers(0, 255))) is None else _packed(name, packed) for name in VECTORS
    }
    number = draw(st.integers(-(2**63), 2**63 - 1))
    return Row(
        id=f"id{number}" if text_id else number,
        score=float(np.float32(draw(st.floats(-2, 2, width=32)))),
        values={name: maybe(strategy) for name, strategy in _VALUES.items()},
        vectors=vectors,
        meta=draw(_META),
    )


@st.composite
def talks(draw: st.DrawFn, /, **fixed: Any) -> Talk:
    """A search and the server's answers. ``fixed``: what a test wants fixed of the request's shape."""
    queries = fixed.get("queries", draw(st.integers(1, 3)))
    text_id, nulls = draw(st.booleans()), draw(st.booleans())
    server = Server(
        lists=tuple(tuple(draw(st.lists(rows(text_id=text_id, nulls=nulls), max_size=7))) for _ in range(queries)),
        lite=draw(st.booleans()),
        nullable=nulls,
        validity=draw(st.sampled_from(["column", "content"])),
        tail=draw(st.sampled_from([b"", b"\xf8\x07\x01"])),
    )
    vector = draw(st.sampled_from(sorted(DENSE)))
    listed = fixed.get(
        "listed", draw(st.one_of(st.lists(st.sampled_from(NAMES), unique=True, max_size=6), st.just(["*"])))
    )
    offset = fixed.get("offset", draw(st.sampled_from([None, 0, 2])))
    return Talk(
        server=server,
        body=request(vector, queries, listed, fixed.get("limit", draw(st.integers(2, 4))), offset),
        vector=vector,
    )


def request(vector: str, queries: int, listed: list[str], limit: int, offset: int | None) -> bytes:
    """A search as the official client writes it."""
    message = message_type("SearchRequest")(collection_name="docs", dsl="text != ''", dsl_type=1, nq=queries)
    message.output_fields.extend(listed)
    pairs(message.search_params, topk=limit, round_decimal=-1, ignore_growing=False)
    inner: dict[str, object] = {"nprobe": 8}
    if offset is not None:
        pairs(message.search_params, offset=offset)
        inner["offset"] = offset
    pairs(message.search_params, anns_field=vector, params=json.dumps(inner))
    message.placeholder_group = group(DENSE[vector], [_packed(vector, 7 + index) for index in range(queries)])
    raw: bytes = message.SerializeToString()
    return raw


def group(kind: int, values: list[bytes]) -> bytes:
    """A placeholder group."""
    made = message_type("PlaceholderGroup")()
    made.placeholders.add(tag="$0", type=kind, values=values)
    raw: bytes = made.SerializeToString()
    return raw


def _packed(name: str, seed: int) -> bytes:
    if name in {"sparse", "several"}:
        return bytes([seed, 2])
    if name == "vec":
        return np.array([seed, *range(DIM - 1)], "<f4").tobytes()
    if name == "half":
        return np.array([seed, *range(DIM - 1)], "<f2").tobytes()
    return (bytes([seed & 0x3F]) * _BYTES[name])[: _BYTES[name]]
