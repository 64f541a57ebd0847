"""Qdrant over REST: the adapter, composed of the files beside it.

Paths, request, reply and restoration are a file each. Spoken: query, search, recommend, discover and their batches, servers
1.7 to 1.20. Groups, matrix, scroll, facet and everything else are passed through.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Bounds, Needs, Operation, Reply, RequestHead, SearchCall
from vecsieve.adapters.qdrant import calls, rest_reply, rest_request
from vecsieve.adapters.qdrant.rest_reply import Point, Ranked, ReplyDocument, member_cut, members_of
from vecsieve.adapters.qdrant.rest_request import Document, Plan
from vecsieve.adapters.wire import json as wire_json
from vecsieve.adapters.wire.json import Span, cuts, members
from vecsieve.adapters.wire.json_vectors import Edit, kept_inside

# The client's answer from a wider reply: upstream's bytes, without the other points and without what was added.
#
# Everything around the points stays as it came: time, usage, members nobody knows, white space. The shape of ``vector`` is
# decided per point, as the server decides it: a bare list when only the unnamed vector is left, an object otherwise, ``{}``
# when an enabled selector leaves nothing. Servers up to 1.9 wrote null for an absent member.


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: for list i the points ``keep[i]`` in that order, without what the request added."""
    pieces: list[bytes] = []
    position = 0
    for plan, ranked, kept in zip(request.plans, reply.lists, keep, strict=True):
        start, end = ranked.array
        pieces.append(reply.source.cut(position, start + 1))
        pieces += _kept(reply, plan, ranked, kept.tolist())
        position = end - 1
    pieces.append(reply.source.cut(position, len(reply.text)))
    return b"".join(pieces)


def _kept(reply: ReplyDocument, plan: Plan, ranked: Ranked, kept: list[int]) -> list[bytes]:
    def edits(index: int) -> list[Edit]:
        return _edits(reply, plan, ranked.points[index])

    return kept_inside(reply.source, ranked.array, [point.span for point in ranked.points], kept, edits)


def _edits(reply: ReplyDocument, plan: Plan, point: Point) -> list[Edit]:
    """What must change in a point: disjoint edits, no order."""
    edits: list[Edit] = []
    dropped: set[str] = set()
    wanted = plan.vectors.wanted
    if wanted is False:
        dropped.add("vector")
    elif wanted is not True and point.vector is not None:
        edits += _vector_edits(reply.text, point.vector, wanted)
    if plan.payload.is_forced:
        dropped.add("payload")
    elif plan.payload.added and point.payload is not None:
        edits += _payload_edits(reply.text, point.payload, plan.payload.added)
    return edits + _member_edits(reply, point, dropped) if dropped else edits


def _member_edits(reply: ReplyDocument, point: Point, dropped: set[str]) -> list[Edit]:
    """Take members out of a point, or make them null where the server would have written null."""
    values = {"payload": point.payload, "vector": point.vector}
    present = [(name, span) for name, span in values.items() if name in dropped and span is not None]
    if reply.is_null_style:
        return [(*span, b"null") for _, span in present]
    found = [member_cut(reply.text, name, span) for name, span in present]
    if None in found:
        found = [*cuts(members_of(reply.text, point), dropped)]
    return [(*span, b"") for span in found if span is not None]


def _vector_edits(text: bytes, span: Span, names: tuple[str, ...]) -> list[Edit]:
    """Leave of a ``vector`` value what a client that selected ``names`` is shown."""
    start, end = span
    first = text[start : start + 1]
    if first == b"[":
        return [] if "" in names else [(start, end, b"{}")]
    found = members(text, span) if first == b"{" else {}
    kept = [name for name in found if name in names]
    if len(kept) == len(found):
        return []
    if not kept:
        return [(start, end, b"{}")]
    if kept == [""]:
        return [(start, found[""].value, b""), (found[""].end, end, b"")]
    return [(cut, until, b"") for cut, until in cuts(found, found.keys() - set(kept))]


def _payload_edits(text: bytes, span: Span, added: tuple[str, ...]) -> list[Edit]:
    """Take the keys that were asked for by us alone out of a payload."""
    if text[span[0] : span[0] + 1] != b"{":
        return []
    return [(start, end, b"") for start, end in cuts(members(text, span), added)]


class QdrantRest:
    """The six verbs. Holds nothing: one instance serves any number of callers."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the ranked search, or None. Total."""
        return calls.classify_rest(head)

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body. Raises UnsupportedError where there are too many, nothing else."""
        wire_json.check_size(body, bounds)

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises UnsupportedError, nothing else."""
        return rest_request.parse_request(operation, body, needs)

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The client's bytes, asking for ``fetch_k[i]`` candidates from rank 0 with the vectors to compare."""
        return rest_request.widen(_request(call), fetch_k)

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        in_object = call.operation.name.startswith("query")
        pools, document = rest_reply.parse_reply(_request(call), call.needs, body, in_object=in_object)
        return Reply(pools=pools, document=document)

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept points are upstream's own bytes, what was added is gone."""
        if not isinstance(reply.document, ReplyDocument):
            raise TypeError("the reply was parsed by another adapter")
        return trim(_request(call), reply.document, keep)


def _request(call: SearchCall) -> Document:
    if not isinstance(call.document, Document):
        raise TypeError("the call was parsed by another adapter")
    return call.document
