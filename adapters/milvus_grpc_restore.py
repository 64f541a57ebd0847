"""The client's answer, cut from a Milvus reply: kept rows are upstream's own bytes, columns that were added are gone."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.milvus_fields import Chosen
from vecsieve.adapters.milvus_grpc_reply import COLUMNS, OUTPUT, RESULTS, TOP_K, TOPKS, ReplyDocument
from vecsieve.adapters.milvus_grpc_request import Document
from vecsieve.adapters.proto_wire import Field, encoded, length_field, number_field, unsigned


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: of query i the rows ``keep[i]`` in that order, without what the request added."""
    parts = zip(reply.starts, keep, strict=True)
    rows = np.concatenate([start + kept.astype(np.intp) for start, kept in parts])
    counts = [len(kept) for kept in keep]
    inside = b"".join([_shown(request, reply, field, rows, counts) for field in reply.fields])
    body, results = reply.body, reply.results
    if inside == body[slice(*results.span)]:
        return body
    return body[: results.start] + length_field(RESULTS, inside) + body[results.end :]


def _shown(
    request: Document, reply: ReplyDocument, field: Field, rows: npt.NDArray[np.intp], counts: Sequence[int]
) -> bytes:
    """A field of the results as the client is to see it."""
    body, chosen = reply.body, request.chosen
    if (aligned := reply.aligned.get(field.start)) is not None:
        return aligned.cut(body, rows)
    if field.number == COLUMNS:
        column = reply.columns[field.start]
        is_ours = column.name in chosen.added or (column.is_dynamic and bool(chosen.keys))
        return b"" if is_ours else column.box.cut(body, rows)
    if field.number == OUTPUT and _is_added(body, field, chosen):
        return b""
    if field.number == TOPKS:
        return length_field(TOPKS, b"".join([encoded(count) for count in counts]))
    if field.number == TOP_K:
        top_k = _top_k(unsigned(body, field), request.top_k, reply.counts, counts)
        return number_field(TOP_K, top_k) if top_k else b""
    return body[field.start : field.end]


def _is_added(body: bytes, field: Field, chosen: Chosen) -> bool:
    return body[slice(*field.span)] in [name.encode() for name in chosen.added]


def _top_k(said: int, asked: int, came: Sequence[int], counts: Sequence[int]) -> int:
    """What the server would have said: Milvus counts the rows of its longest list, Lite repeats what it was asked for."""
    return max(counts) if said == max(came) else min(said, asked)
