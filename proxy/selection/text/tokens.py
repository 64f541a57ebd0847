"""The words of texts, in any script, found for many texts at once.

A word is a run of letters, digits, underscores and the marks that belong to letters (without which "कि" and "की" would be one word).
Scripts that are written without spaces (Chinese, Japanese, Thai, Lao, Khmer, Burmese) have no such runs: there every character is a word,
which suits n-grams. A text without any word (emoji, signs) is read character by character, so that such texts are not all equal.

Found by a table of character kinds over all texts as one array: a regular expression takes 15 microseconds for a text of a hundred words
with one curly quote in it, this takes three.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import compress, pairwise
from operator import not_

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.uint8] | npt.NDArray[np.uint32]
Kinds = npt.NDArray[np.uint8]

_SEPARATOR, _LETTER, _ALONE = 0, 1, 2

_SPACE = 32

# First and last code points: Thai and Lao, Burmese, Khmer, kana and bopomofo, Han.
_SPACELESS = (
    *((0x0E00, 0x0EFF), (0x1000, 0x109F), (0xA9E0, 0xA9FF), (0xAA60, 0xAA7F), (0x1780, 0x17FF)),
    *((0x3040, 0x312F), (0x31A0, 0x31BF), (0x31F0, 0x31FF), (0x1B000, 0x1B16F)),
    *((0x2E80, 0x2FDF), (0x3005, 0x3007), (0x3021, 0x302F), (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAFF)),
    (0x20000, 0x3FFFF),
)


@lru_cache(maxsize=4096)
def _kind(code: int) -> int:
    """Separator, part of a word, or a word alone. Letters, marks and numbers make words, and the underscore."""
    if unicodedata.category(chr(code))[0] not in "LMN" and code != ord("_"):
        return _SEPARATOR
    return _ALONE if any(first <= code <= last for first, last in _SPACELESS) else _LETTER


def _basic_plane() -> Kinds:
    """The kinds of the first 65,536 characters, (65536,)."""
    categories = map(unicodedata.category, map(chr, range(1 << 16)))
    kinds = np.frombuffer(bytes(category[0] in "LMN" for category in categories), np.uint8).copy()
    kinds[ord("_")] = _LETTER
    for first, last in _SPACELESS:
        kinds[first : last + 1] *= _ALONE  # an empty slice beyond the plane
    return kinds


_KINDS = _basic_plane()


@dataclass(frozen=True, slots=True)
class Words:
    """The words of several texts, joined by spaces: ``codes`` (c,) their code points, ``starts`` and ``ends`` (w,) of each word in them,
    ``borders`` (t + 1,): text i has the words borders[i] to borders[i + 1].
    """

    codes: Codes
    starts: npt.NDArray[np.intp]
    ends: npt.NDArray[np.intp]
    borders: npt.NDArray[np.intp]


def cut(texts: Sequence[str]) -> Words:
    """The words of canonical ``texts``; at least one for each text that is not blank. Lone surrogates are characters."""
    codes = _codes(" ".join(texts))
    lengths = np.fromiter(map(len, texts), np.intp, len(texts))
    behind = np.cumsum(lengths + 1)
    kinds = _kinds(codes)
    starts, ends = _runs(kinds)
    borders = starts.searchsorted(np.concatenate(([0], behind)))
    wordless = np.flatnonzero((borders[1:] == borders[:-1]) & (lengths > 0))
    if len(wordless):
        for text in wordless.tolist():
            part = slice(int(behind[text] - lengths[text] - 1), int(behind[text]) - 1)
            kinds[part] = np.where(codes[part] == _SPACE, _SEPARATOR, _ALONE)
        starts, ends = _runs(kinds)
        borders = starts.searchsorted(np.concatenate(([0], behind)))
    return Words(codes, starts, ends, borders)


def words(text: str) -> tuple[str, ...]:
    """The words of one canonical text."""
    found = cut([text])
    return tuple(text[start:end] for start, end in zip(found.starts.tolist(), found.ends.tolist(), strict=True))


def _codes(text: str) -> Codes:
    if text.isascii():
        return np.frombuffer(text.encode("ascii"), np.uint8)
    return np.frombuffer(text.encode("utf-32-le", "surrogatepass"), np.dtype("<u4"))


def _kinds(codes: Codes) -> Kinds:
    if codes.dtype == np.uint8:
        return _KINDS.take(codes)
    kinds = _KINDS.take(codes, mode="clip")
    beyond = np.flatnonzero(codes > 0xFFFF)
    if len(beyond):
        kinds[beyond] = [_kind(code) for code in codes[beyond].tolist()]
    return kinds


def _runs(kinds: Kinds) -> tuple[npt.NDArray[np.intp], npt.NDArray[np.intp]]:
    """Where words begin, and where they end (exclusive)."""
    if (kinds == _ALONE).any():
        return _starts(kinds), len(kinds) - _starts(kinds[::-1])[::-1]  # the same, read backwards
    bounded = np.zeros(len(kinds) + 2, np.uint8)
    bounded[1:-1] = kinds
    borders = (bounded[1:] != bounded[:-1]).nonzero()[0]
    return borders[::2], borders[1::2]


def _starts(kinds: Kinds) -> npt.NDArray[np.intp]:
    """Where a word begins: at a letter after a separator, and at every character that is a word alone or follows one."""
    before = np.concatenate((np.zeros(1, np.uint8), kinds[:-1]))
    return np.flatnonzero((kinds != _SEPARATOR) & ((before != _LETTER) | (kinds == _ALONE)))


# Words as 64-bit hashes, for all words of many texts at once. A word has the same hash in every process.
#
# The hash is a polynomial over the word's characters modulo 2^64, computed from one running sum over all characters, then mixed. Calling a
# hash function for each word would cost more than the rest of the text work. Python's own hash differs between processes.
#
# Two different words have the same hash with a probability of about 2^-64. An attacker who crafts such words can make a text look like a
# copy; copying the text does the same.

Hashes = npt.NDArray[np.uint64]

# Digits of pi, as an unsuspicious constant. Odd, so that it has an inverse modulo 2^64.
_BASE = 0x243F6A8885A308D3
_INVERSE = pow(_BASE, -1, 1 << 64)

# Texts are read in batches of this many characters (a longer text is its own batch), for which the powers are kept: a megabyte in all, and
# enough for a usual pool in one batch.
_BATCH = 1 << 16


def _powers(base: int, count: int) -> Hashes:
    """1, base, base^2 … (count,) modulo 2^64."""
    factors = np.full(count, base, np.uint64)
    factors[:1] = 1
    return np.multiply.accumulate(factors)


_POWERS = _powers(_BASE, _BATCH)
_INVERSE_POWERS = _powers(_INVERSE, _BATCH)


def hashed(texts: Sequence[str]) -> list[Hashes]:
    """For each canonical text the hashes (w,) of its words, in their order."""
    is_plain = list(map(str.isascii, texts))
    if True not in is_plain or False not in is_plain:
        return _hashed(texts)
    # One curly quote would make the characters of all texts take four bytes instead of one.
    plain, others = (iter(_hashed([*compress(texts, each)])) for each in (is_plain, map(not_, is_plain)))
    return [next(plain if each else others) for each in is_plain]


def _hashed(texts: Sequence[str]) -> list[Hashes]:
    found: list[Hashes] = []
    batch: list[str] = []
    length = 0
    for text in texts:
        if batch and length + len(text) >= _BATCH:
            found += _of(cut(batch))
            batch, length = [], 0
        batch.append(text)
        length += len(text) + 1
    return found + _of(cut(batch)) if batch else found


def _of(words: Words) -> list[Hashes]:
    count = len(words.codes)
    is_small = count <= _BATCH
    powers = _POWERS[:count] if is_small else _powers(_BASE, count)
    inverses = _INVERSE_POWERS if is_small else _powers(_INVERSE, count)
    values = words.codes.astype(np.uint64)
    values += np.uint64(1)  # no character counts as nothing
    values *= powers
    sums = np.zeros(count + 1, np.uint64)
    np.cumsum(values, out=sums[1:])
    hashes = mixed((sums[words.ends] - sums[words.starts]) * inverses[words.starts])
    borders = words.borders.tolist()
    # Copies, because they are cached one by one, and a view would keep the whole batch alive.
    return [hashes[start:end].copy() for start, end in pairwise(borders)]


def mixed(values: Hashes) -> Hashes:
    """Every bit of the result depends on every bit of the value, one to one (the finaliser of MurmurHash3)."""
    values = values ^ (values >> np.uint64(33))
    values *= np.uint64(0xFF51AFD7ED558CCD)
    values ^= values >> np.uint64(33)
    values *= np.uint64(0xC4CEB9FE1A85EC53)
    values ^= values >> np.uint64(33)
    return values
