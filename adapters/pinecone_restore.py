"""The client's answer from a wider Pinecone reply: upstream's bytes, without the other matches and what was added.

Everything around the matches stays as it came: namespace, the empty ``results`` of old, members nobody knows, and usage
unless lookups have a part in it.
A search without values shows ``"values":[]`` and no sparse values at all; clients fail on null.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.json_kept import Edit, edited, kept_inside
from vecsieve.adapters.json_spans import cuts
from vecsieve.adapters.pinecone_matches import Match
from vecsieve.adapters.pinecone_reply import ReplyDocument
from vecsieve.adapters.pinecone_request import Document


def trim(request: Document, reply: ReplyDocument, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
    """The client's answer: the matches ``keep[0]`` in that order, without what the request added."""
    (kept,) = keep
    start, end = reply.array

    def edits(index: int) -> list[Edit]:
        return _edits(request, reply.matches[index])

    spans = [match.span for match in reply.matches]
    inside = kept_inside(reply.source, reply.array, spans, kept.tolist(), edits)
    return b"".join([*_outside(reply, 0, start + 1), *inside, *_outside(reply, end - 1, len(reply.text))])


def _outside(reply: ReplyDocument, start: int, end: int) -> list[bytes]:
    """The bytes before or behind the list, with the edits that lie there."""
    return edited(reply.source, (start, end), [edit for edit in reply.edits if start <= edit[0] < end])


def _edits(request: Document, match: Match) -> list[Edit]:
    """What must change in a match: disjoint edits, no order."""
    edits: list[Edit] = []
    if request.added:
        edits += [(start, end, b"") for start, end in cuts(match.payload, request.added)]
    if request.emptied:
        values = None if request.vector is None else match.members.get(request.vector)
        edits += [] if values is None else [(values.value, values.end, b"[]")]
        edits += [(start, end, b"") for start, end in cuts(match.members, {request.sparse or ""})]
    return edits
