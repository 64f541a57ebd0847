"""The words that texts have in common: the similarity and the relevance of chunks without embeddings, for MMR and for the closest to a query."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from ..selection.reading.text import Text
from ..selection.values import FloatMatrix, FloatVector

Words = frozenset[str]
_NONE: Words = frozenset()

# Words of at most this many texts are counted pair by pair, those of more by a product of matrices, so many columns at a time.
FEW = 4
_BLOCK = 4096


def words_of(texts: Sequence[Text | None]) -> list[Words]:
    """The distinct tokens of each text; none of one that is not read. ``texts``: of which None is not read."""
    return [_NONE if text is None else frozenset(text.passages()[0].tokens) for text in texts]


def shares(words: Sequence[Words], query: Words) -> FloatVector:
    """The share of the query's words that each text has (n,)."""
    return np.array([len(bag & query) for bag in words], np.float64) / max(len(query), 1)


def jaccard(words: Sequence[Words]) -> FloatMatrix:
    """The Jaccard coefficients of all pairs (n, n) float32: 0 if one text has no words, else 1 on the diagonal."""
    numbers: dict[str, int] = {}
    # Words in order, so that nothing depends on the hashes of this process.
    numbered = [[numbers.setdefault(word, len(numbers)) for word in sorted(bag)] for bag in words]
    sizes = np.array([len(row) for row in numbered], np.intp)
    values = np.array([number for row in numbered for number in row], np.intp)
    owners = np.arange(len(words), dtype=np.intp).repeat(sizes)
    order = values.argsort(kind="stable")
    shared = _shared(values[order], owners[order], len(words))
    np.fill_diagonal(shared, sizes)
    union = sizes[:, None] + sizes[None, :] - shared
    similarities: FloatMatrix = (shared / np.maximum(union, 1)).astype(np.float32)
    return similarities


def _shared(values: npt.NDArray[np.intp], owners: npt.NDArray[np.intp], texts: int) -> npt.NDArray[np.float32]:
    """How many words each two texts share (t, t). ``values``: ascending, each once for each of its ``owners``."""
    owned = np.bincount(values, minlength=1)[values]
    rare = owned <= FEW
    return _by_pairs(values[rare], owners[rare], texts) + _by_product(values[~rare], owners[~rare], texts)


def _by_pairs(values: npt.NDArray[np.intp], owners: npt.NDArray[np.intp], texts: int) -> npt.NDArray[np.float32]:
    pairs = [np.empty(0, np.intp)]
    for ahead in range(1, FEW):
        meets = np.flatnonzero(values[ahead:] == values[:-ahead])
        pairs.append(owners[meets] * texts + owners[meets + ahead])
    counts = np.bincount(np.concatenate(pairs), minlength=texts * texts).reshape(texts, texts).astype(np.float32)
    return counts + counts.T


def _by_product(values: npt.NDArray[np.intp], owners: npt.NDArray[np.intp], texts: int) -> npt.NDArray[np.float32]:
    counts = np.zeros((texts, texts), np.float32)
    columns = np.unique(values, return_inverse=True)[1]
    width = int(columns[-1]) + 1 if len(columns) else 0
    for first in range(0, width, _BLOCK):
        part = slice(*columns.searchsorted((first, first + _BLOCK)).tolist())
        incidence = np.zeros((texts, min(_BLOCK, width - first)), np.float32)
        incidence[owners[part], columns[part] - first] = 1.0
        counts += incidence @ incidence.T
    return counts
