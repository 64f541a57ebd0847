"""Fingerprints of texts: hashes that two texts share if one of them holds the other, read exactly (selection/judging).

A run of one text in another begins and ends with a sentence there, or the text is so long that it may be a window. So a text has the hash of the
six tokens at each beginning and each end of a sentence, and of each shorter sentence; and, from the length of a window on, of winnowed grams
(Schleimer, Wilkerson and Aiken 2003): the smallest hash of each 16 grams in a row, so the fingerprints of a run are among those of the text that
holds it. A text of a hundred words has about 30. Texts that share a fingerprint are candidates, no more: the judge decides. All functions are pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import xxhash

from ...selection.judging.covering import LONG, RUN, grams_of, short_sentences
from ...selection.reading.text import Passage, Text, text_of
from ...writes.holding import is_readable

Hashes = npt.NDArray[np.uint64]

WINDOW = 16  # grams in a row of which one is a fingerprint: less than a text of LONG tokens has
TEXT_BANDS = 16  # parts of the fingerprints, each joined by itself

_PLAIN, _LAID = 0, 1
_OF_WHOLE = 2  # added to these for a hash of the whole text, which is no fingerprint


def readable(raw: str | None) -> Text | None:
    """A text that the judge can compare; None for any other, which has no fingerprints."""
    text = None if raw is None else text_of(raw)
    return text if text is not None and is_readable(text) else None


def exact_hash(raw: str, text: Text | None) -> int:
    """Equal for texts that are equal, read exactly; never 0. ``text``: None if it is not readable: then ``raw`` counts. 64 bits, so it finds copies, and
    proves none.
    """
    if text is None:
        return _hash((raw,), _OF_WHOLE) or 1
    plain, laid = text.passages(exact=True)
    return _hash((plain if laid is None else laid).tokens, _OF_WHOLE + (_PLAIN if laid is None else _LAID)) or 1


def fingerprints(text: Text) -> Hashes:
    """(f,) different hashes, ascending. ``text``: a readable one."""
    plain, laid = text.passages(exact=True)
    hashes = set(_of_passage(plain, _PLAIN))
    if laid is not None:
        hashes.update(_of_passage(laid, _LAID))
    return np.array(sorted(hashes), np.uint64)


def bands_of(hashes: Hashes) -> npt.NDArray[np.uint8]:
    """The band (f,) of each fingerprint: equal ones have the same."""
    return (hashes % np.uint64(TEXT_BANDS)).astype(np.uint8)


def _of_passage(passage: Passage, layout: int) -> Iterator[int]:
    tokens, size = passage.tokens, len(passage.tokens)
    for start, end in short_sentences(passage):
        yield _hash(tokens[start:end], layout)
    if size < RUN:
        yield _hash(tokens, layout)
        return
    for bound in passage.bounds:
        if bound + RUN <= size:
            yield _hash(tokens[bound : bound + RUN], layout)
        if bound >= RUN:
            yield _hash(tokens[bound - RUN : bound], layout)
    if size >= LONG:
        grams = np.array([_hash(gram, layout) for gram in grams_of(tokens)], np.uint64)
        yield from set(np.lib.stride_tricks.sliding_window_view(grams, WINDOW).min(axis=1).tolist())


def _hash(tokens: Sequence[str], seed: int) -> int:
    return xxhash.xxh64_intdigest("\x1f".join(tokens).encode("utf-8", "surrogatepass"), seed=seed)
