"""Word 3-grams, and how many of them each two texts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .tokens import Hashes, mixed

# Pairs are counted one by one for 3-grams with at most this many owners, by a matrix product for others. With 200 texts either way alone
# takes four times as long, and a thousand equal texts would have 50 million pairs.
FEW = 8

# Shared 3-grams per product: 16 MB for a thousand texts.
_BLOCK = 4096

_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)  # odd, one for each place in a 3-gram


@dataclass(frozen=True, slots=True)
class Grams:
    """The 3-grams of t texts, with repetitions: ``values`` (g,) and their texts, ``owners`` (g,) ascending."""

    values: Hashes
    owners: npt.NDArray[np.intp]
    texts: int


@dataclass(frozen=True, slots=True)
class Shared:
    """``sizes``: (t,) float32 the number of different 3-grams of each text. ``counts``: (t, t) float32 the number that two share."""

    sizes: npt.NDArray[np.float32]
    counts: npt.NDArray[np.float32]


def grams(texts: Sequence[Hashes]) -> Grams:
    """The 3-grams of texts given as hashes of their words. A text of one or two words is one 3-gram."""
    lengths = np.fromiter(map(len, texts), np.intp, len(texts))
    words = np.concatenate((*texts, np.zeros(2, np.uint64)))
    starts = np.cumsum(lengths) - lengths
    counts = np.maximum(lengths - 2, np.minimum(lengths, 1))
    owners = np.repeat(np.arange(len(texts), dtype=np.intp), counts)
    places = np.arange(len(owners), dtype=np.intp) + np.repeat(starts - (np.cumsum(counts) - counts), counts)
    values = mixed(words[places] * _FIRST + words[places + 1] * _SECOND + words[places + 2])
    for short in np.flatnonzero((lengths == 1) | (lengths == 2)).tolist():
        own = np.zeros(2, np.uint64)
        own[: lengths[short]] = texts[short]
        values[owners.searchsorted(short)] = mixed(own[:1] * _FIRST + own[1:] * _SECOND)[0]
    return Grams(values, owners, len(texts))


def distinct(found: Grams) -> tuple[Hashes, npt.NDArray[np.intp]]:
    """The different 3-grams of each text as (values, owners), sorted by value; a 3-gram of two texts is listed twice.

    A value and its owner are packed into one number, since sorting numbers is several times as fast as sorting by two keys. The owner
    replaces the lowest bits: with 50 texts, 58 bits of a 3-gram are left.
    """
    bits = np.uint64(max(found.texts - 1, 1).bit_length())
    packed = (found.values >> bits << bits) | found.owners.astype(np.uint64)
    packed.sort()
    is_new = np.ones(len(packed), np.bool_)
    np.not_equal(packed[1:], packed[:-1], out=is_new[1:])
    packed = packed[is_new]
    owners = (packed & ((np.uint64(1) << bits) - np.uint64(1))).astype(np.intp)
    return packed >> bits, owners


def shared(found: Grams) -> Shared:
    """How many different 3-grams each two texts share."""
    values, owners = distinct(found)
    sizes = np.bincount(owners, minlength=found.texts).astype(np.float32)
    counts = counted(values, owners, found.texts)
    np.fill_diagonal(counts, sizes)
    return Shared(sizes, counts)


def counted(values: Hashes, owners: npt.NDArray[np.intp], texts: int) -> npt.NDArray[np.float32]:
    """The number of 3-grams that each two texts share (t, t), 0 on the diagonal. ``values`` and ``owners``: of different 3-grams of each
    text, ascending by value.
    """
    if not len(values):
        return np.zeros((texts, texts), np.float32)
    columns = np.cumsum(np.concatenate(([0], values[1:] != values[:-1])))
    owned = np.bincount(columns)[columns]
    counts = _by_pairs(values[owned <= FEW], owners[owned <= FEW], texts)
    counts += _by_product(values[owned > FEW], owners[owned > FEW], texts)
    np.fill_diagonal(counts, 0.0)
    return counts


def _by_pairs(values: Hashes, owners: npt.NDArray[np.intp], texts: int) -> npt.NDArray[np.float32]:
    """The shared 3-grams (t, t) among those with few owners: counted pair by pair."""
    found = [np.empty(0, np.intp)]
    for ahead in range(1, FEW):
        meets = np.flatnonzero(values[ahead:] == values[:-ahead])
        found.append(owners[meets] * texts + owners[meets + ahead])
    counts = np.bincount(np.concatenate(found), minlength=texts * texts).reshape(texts, texts).astype(np.float32)
    return counts + counts.T


def _by_product(values: Hashes, owners: npt.NDArray[np.intp], texts: int) -> npt.NDArray[np.float32]:
    """The shared 3-grams (t, t) among those with many owners: their incidence matrix times itself."""
    counts = np.zeros((texts, texts), np.float32)
    columns = np.cumsum(np.concatenate(([False], values[1:] != values[:-1])))[: len(values)]
    width = int(columns[-1]) + 1 if len(columns) else 0
    for first in range(0, width, _BLOCK):
        part = slice(*columns.searchsorted((first, first + _BLOCK)).tolist())
        incidence = np.zeros((texts, min(_BLOCK, width - first)), np.float32)
        incidence[owners[part], columns[part] - first] = 1.0
        counts += incidence @ incidence.T
    return counts
