"""The chain of ties: who of a cluster stands for it, by what is known of its members beside vectors and scores.

Each tie looks only at those who were equal on all before it; the rank is always the last. What is unknown of a member
loses against what is known of another, and a tie of which nothing is known decides nothing.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.policy import Tie
from vecsieve.proxy.selection.values import FloatVector, Indices, Metadata

Lengths = npt.NDArray[np.int64]


def best_of(
    members: Indices,
    metadata: Metadata,
    text_lengths: Lengths | None,
    chain: tuple[Tie, ...],
    authority: tuple[str, ...],
) -> int:
    """The member of ``members`` (not empty, in any order) that comes out of the chain.

    citations: more. authority: earlier in ``authority``; sources not listed come behind all that are, unknown ones last.
    recency: newer. shorter: shorter span where every member has one, else shorter text, as the two have no common
    unit. rank: better.
    """
    left = np.sort(members)
    for tie in chain:
        if len(left) == 1 or tie is Tie.RANK:
            break
        merit = _merit(left, metadata, text_lengths, tie, authority)
        left = left[merit == merit.max()]
    return int(left[0])


def _merit(
    members: Indices, metadata: Metadata, text_lengths: Lengths | None, tie: Tie, authority: tuple[str, ...]
) -> FloatVector:
    """What one tie makes of each member (m,), higher is better, minus infinity where unknown."""
    if tie is Tie.CITATIONS and metadata.citations is not None:
        citations = metadata.citations[members].astype(np.float64)
        return _known(citations, citations >= 0)
    if tie is Tie.AUTHORITY and metadata.sources is not None:
        return _trust([metadata.sources[i] for i in members.tolist()], authority)
    if tie is Tie.RECENCY and metadata.recency is not None:
        return _known(metadata.recency[members])
    if tie is Tie.SHORTER:
        return _shortness(members, metadata.spans, text_lengths)
    return np.zeros(len(members))


def _trust(sources: Sequence[str | None], authority: tuple[str, ...]) -> FloatVector:
    places = {source: place for place, source in reversed(list(enumerate(authority)))}
    return np.array([-np.inf if source is None else -float(places.get(source, len(authority))) for source in sources])


def _shortness(members: Indices, spans: FloatVector | None, text_lengths: Lengths | None) -> FloatVector:
    """Minus the length of each member's span or text (m,). A span that ends before it starts is no span."""
    unknown = np.full(len(members), -np.inf)
    of_spans = unknown
    if spans is not None:
        with np.errstate(invalid="ignore"):  # infinity minus infinity is not known either
            widths = spans[members, 1] - spans[members, 0]
        of_spans = _known(-widths, widths >= 0.0)
    of_texts = unknown
    if text_lengths is not None:
        lengths = text_lengths[members]
        of_texts = _known(-lengths.astype(np.float64), lengths >= 0)
    return of_spans if np.isfinite(of_spans).all() or not np.isfinite(of_texts).any() else of_texts


def _known(values: FloatVector, known: npt.NDArray[np.bool_] | None = None) -> FloatVector:
    """The values (m,), minus infinity where they are not finite or not ``known``."""
    good = np.isfinite(values) if known is None else np.isfinite(values) & known
    return np.where(good, values, -np.inf)
