"""The features of one text. None depends on other texts, so they can be cached as long as the text is the same.

A ``Text`` is created once for each text and holds its features. A ``Form`` is the text as it is compared: with all of its lines, or without
header and footer lines. These lines are learned from the pool (margins.py), so a text of several lines may have several forms.

``complete`` computes the features that every selection needs, for many forms at once. Others are computed when needed: the words of a text,
its figures and names, the facts of guards.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator, Sequence
from hashlib import blake2b

import numpy as np
import numpy.typing as npt

from .bounds import LONGEST, UNPRICED, beyond_ascii, cost
from .canonical import folded, unwrapped
from .margins import Edges, Margins, edges
from .memo import Memo
from .shingles import grams
from .tokens import Hashes, hashed, mixed

# Bits of the map of 3-grams. Two texts of a hundred words without common passages have a sixth of their bits in common.
BITS = 512

# One form in numbers, so that those of a pool are gathered in one call. ``bits``: the map. ``number``: equal for equal canonical texts.
# ``words``: their number, 0 for a text without any visible character. ``grams``: the number of different 3-grams; ``doubled``: those
# without a bit of their own.
RECORD = np.dtype(
    [("bits", "<u8", (BITS // 64,)), ("number", "<i8"), ("words", "<i4"), ("grams", "<i4"), ("doubled", "<i8")]
)
NOTHING = bytes(RECORD.itemsize)

# A run without blanks and without punctuation that separates values. One class, so that the time is linear.
_TOKEN = re.compile(r"[^\s,;:()\[\]{}\"'`<>|=*!?]+")
_EDGES = ".-/"
# Maps a character's byte for tokens: separators to a blank, digits to one digit.
_DIGIT, _BLANK = b"0", ord(" ")
_SEPARATORS = b",;:()[]{}\"'`<>|=*!?"
_BLANKS = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_KINDS = bytes.maketrans(_SEPARATORS + b"123456789", b" " * len(_SEPARATORS) + _DIGIT * 9)
_HAS_DIGIT = re.compile(r"\d")
_HAS_INNER_SIGN = re.compile(r"\w[._]\w")

# The tokens that are read of a longer text: 15 ms for a pool of 50 such texts.
MOST_TOKENS = 2048

# Words per character from which on a script has no spaces: English has .2, Chinese nearly 1.
SPACELESS = 0.5

# If a text has at most this many words, its words will be needed, so they are computed at once.
FEW_WORDS = 30

_PAIRING = np.uint64(0x9E3779B97F4A7C15)  # odd: reversed pairs are different pairs

Tokens = frozenset[str]
_NONE: Tokens = frozenset()


class Form:
    """A text as it is compared. ``body``: composed, its lines whole (canonical.unwrapped).

    ``record``: see RECORD; ``grams``: the different 3-grams, ascending, as bytes of uint32. Both are None until ``complete``; ``grams`` is
    also None for a text that was cached without them. ``hashes``: (w,) uint64, of each word in order; None until needed. ``vocabulary``:
    bytes of (u,) uint32, the hash of each different word, ascending; of pairs of adjacent words if the script has no spaces, since two
    sentences share most characters. None until ``learn_words``.
    """

    __slots__ = ("_marks", "body", "grams", "hashes", "record", "vocabulary")

    def __init__(self, body: str) -> None:
        self.body = body
        self.hashes: Hashes | None = None
        self.record: bytes | None = None
        self.grams: bytes | None = None
        self.vocabulary: bytes | None = None
        self._marks: tuple[Tokens, Tokens] | None = None

    @property
    def canonical(self) -> str:
        """The canonical form, computed again; empty without visible characters."""
        return folded(self.body)

    @property
    def marks(self) -> tuple[Tokens, Tokens]:
        """The figures, which are tokens with a digit, and the names, which have a point or an underscore inside."""
        if self._marks is None:
            self._marks = _marked(self.canonical)
        return self._marks

    @property
    def nbytes(self) -> int:
        """Approximate memory use, without ``body``."""
        marks = () if self._marks is None else self._marks[0] | self._marks[1]
        kept = (self.record or b"", self.grams or b"", self.vocabulary or b"", *marks)
        return 150 + sum(map(sys.getsizeof, kept)) + (0 if self.hashes is None else self.hashes.nbytes)


# A text, its cost, and the record of its form with all lines.
Essence = tuple[str, int, bytes | None]


class Text:
    """One text. ``raw``: as in the database. ``has_lines``: whether it may have margins. ``facts`` and ``subject``: set by guards, None
    before. ``whole``: its form with all lines; ``edges``: its first and last lines, None for a single line; both after ``unwrap``.
    """

    __slots__ = ("_forms", "edges", "facts", "has_lines", "known_cost", "raw", "subject", "whole")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.has_lines = "\n" in raw or "\r" in raw
        self.whole: Form | None = None
        self.facts: object = None  # typed by the guards, which read texts: this module may not import them
        self.subject: Tokens | None = None
        self.known_cost = UNPRICED
        self.edges: Edges | None = None
        self._forms: dict[tuple[int, int], Form] | None = None

    def cost(self) -> int:
        """The cost of reading it (bounds.py); -1 for a text that is not read."""
        if self.known_cost == UNPRICED:
            price = cost(self.raw)
            self.known_cost = -1 if price is None else price
        return self.known_cost

    def unwrap(self) -> Form:
        """Its form with all lines. Only for a text that is read."""
        if self.whole is None:
            body = self.raw
            if not body.isascii() or self.has_lines:
                body = unwrapped(body)
            # Composing may have made it longer than the limit; then it is not compared.
            self.edges = edges(body) if len(body) <= LONGEST else None
            self.whole = Form(body if len(body) <= LONGEST else "")
        return self.whole

    def within(self, margins: Margins) -> Form:
        """Its form without these header and footer lines. Only for a text that is read."""
        whole, known = self.whole or self.unwrap(), self.edges
        if known is None or (known.head not in margins.headers and known.tail not in margins.footers):
            return whole
        depths = known.depths(margins)
        if self._forms is None:
            self._forms = {}
        found = self._forms.get(depths)
        if found is None:
            lines = known.without(*depths)
            found = self._forms[depths] = whole if len(lines) == len(known.lines) else Form("\n".join(lines))
        return found

    @property
    def essence(self) -> Essence:
        """The features that are slow to compute, and the text itself."""
        return self.raw, self.known_cost, None if self.whole is None else self.whole.record

    @classmethod
    def of_essence(cls, essence: Essence) -> Text:
        """Restore a Text from its essence. Returns a cached one if there is one."""
        raw, price, record = essence
        found = TEXTS.get(raw)
        if found is None:
            found = cls(raw)
            found.known_cost = price
            if record is not None:
                found.unwrap().record = record
        return found

    @property
    def nbytes(self) -> int:
        """Approximate memory use."""
        taken = 200 + sys.getsizeof(self.raw)
        if self.whole is not None:
            taken += self.whole.nbytes
            if self.whole.body is not self.raw:
                taken += sys.getsizeof(self.whole.body)
        if self.edges is not None:
            taken += self.edges.nbytes
        for form in (self._forms or {}).values():
            taken += 0 if form is self.whole else form.nbytes + sys.getsizeof(form.body)
        return taken


# Popular texts occur in many searches. 24 MB hold some eight thousand texts of a hundred words; a cached text takes about twice its size.
TEXTS: Memo[str, Text] = Memo(24 << 20, lambda raw, _text: 800 + 2 * sys.getsizeof(raw))


def text_of(raw: str) -> Text:
    """The Text of ``raw``; the same object while it is cached."""
    found = TEXTS.get(raw)
    if found is None:
        found = Text(raw)
        if len(raw) <= LONGEST:
            TEXTS.keep(raw, found)
    return found


def complete(forms: Sequence[Form], *, hashes: bool = False) -> None:
    """Compute the record and the 3-grams of these forms together, in a tenth of the time of one by one. ``hashes``: keep the hashes of
    words as well.
    """
    missing = list(
        {id(form): form for form in forms if form.grams is None or (hashes and form.hashes is None)}.values()
    )
    if not missing:
        return
    canonical = [form.canonical for form in missing]
    words = hashed(canonical)
    known = grams(words)
    values, owners, borders = _different(known.values, known.owners, len(words))
    has_bit = np.zeros((len(words), BITS), np.bool_)
    has_bit[owners, values % np.uint32(BITS)] = True
    records = np.zeros(len(missing), RECORD)
    records["bits"] = np.packbits(has_bit, axis=1, bitorder="little").view("<u8")
    records["number"] = [_number(text) if text else 0 for text in canonical]
    records["words"] = [len(each) for each in words]
    records["grams"] = sizes = borders[1:] - borders[:-1]
    records["doubled"] = sizes - has_bit.sum(axis=1)
    packed, ends = records.tobytes(), (4 * borders).tolist()
    kept = values.tobytes()
    for place, form in enumerate(missing):
        form.grams = kept[ends[place] : ends[place + 1]]
        form.record = packed[place * RECORD.itemsize : (place + 1) * RECORD.itemsize]
        if hashes:
            form.hashes = words[place]
    if min(map(len, words)) <= FEW_WORDS:
        _keep_words(missing, canonical, words)


def learn_words(forms: Sequence[Form]) -> None:
    """Compute the vocabulary of these forms together."""
    missing = list({id(form): form for form in forms if form.vocabulary is None}.values())
    if missing:
        canonical = [form.canonical for form in missing]
        _keep_words(missing, canonical, hashed(canonical))


def _keep_words(forms: Sequence[Form], canonical: Sequence[str], hashes: Sequence[Hashes]) -> None:
    words = [
        mixed(each[:-1] * _PAIRING + each[1:]) if len(each) >= 2 and len(each) > SPACELESS * len(text) else each
        for text, each in zip(canonical, hashes, strict=True)
    ]
    owners = np.arange(len(words), dtype=np.intp).repeat(list(map(len, words)))
    values, _, borders = _different(np.concatenate(words), owners, len(words))
    packed, ends = values.tobytes(), (4 * borders).tolist()
    for place, form in enumerate(forms):
        form.vocabulary = packed[ends[place] : ends[place + 1]]


def _different(
    hashes: Hashes, owners: npt.NDArray[np.intp], texts: int
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.intp], npt.NDArray[np.int64]]:
    """The different hashes of t texts one after another, the text of each, and the borders (t + 1,).

    32 bits of a hash are kept. Two texts of a hundred words agree in a 3-gram that they do not share once in 400,000 pairs.
    """
    packed = (owners.astype(np.uint64) << np.uint64(32)) | (hashes >> np.uint64(32))
    packed.sort()
    is_new = np.ones(len(packed), np.bool_)
    np.not_equal(packed[1:], packed[:-1], out=is_new[1:])
    packed = packed[is_new]
    owners = (packed >> np.uint64(32)).astype(np.intp)
    borders = np.zeros(texts + 1, np.int64)
    np.cumsum(np.bincount(owners, minlength=texts), out=borders[1:])
    return packed.astype(np.uint32), owners, borders


def _number(canonical: str) -> int:
    """Equal for equal texts. Nobody can write a second text with a given number."""
    return int.from_bytes(
        blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little", signed=True
    )


def _marked(canonical: str) -> tuple[Tokens, Tokens]:
    """The tokens with a digit, and those with a sign inside."""
    end = len(canonical)
    if end > 2 * MOST_TOKENS:  # it may have more tokens
        for number, beyond in enumerate(_TOKEN.finditer(canonical)):
            if number == MOST_TOKENS:
                end = beyond.start()
                break
    raw = canonical[:end].encode("utf-8", "surrogatepass")
    if canonical.isascii() or _HAS_DIGIT.search(beyond_ascii(canonical)) is None:
        kinds = raw.translate(_KINDS)
        tokens = {token for sign in (_DIGIT, b".", b"_") for token in _tokens_with(sign, raw, kinds)}
    else:  # digits of other alphabets have several bytes
        tokens = set(raw.translate(_BLANKS).split(b" "))
    stripped = [token.decode("utf-8", "surrogatepass").strip(_EDGES) for token in tokens]
    figures = frozenset(filter(_HAS_DIGIT.search, stripped))
    names = frozenset(filter(_HAS_INNER_SIGN.search, stripped))
    return figures or _NONE, names or _NONE


def _tokens_with(sign: bytes, raw: bytes, kinds: bytes) -> Iterator[bytes]:
    """The tokens of a text with a sign, not counting a point or underscore at their edge. ``kinds``: the text with blanks for separators,
    and one digit for all digits.
    """
    last, is_inner = len(kinds) - 1, sign in {b".", b"_"}
    place = kinds.find(sign)
    while place >= 0:
        if is_inner and (place == last or kinds[place + 1] == _BLANK or not place or kinds[place - 1] == _BLANK):
            place = kinds.find(sign, place + 1)
            continue
        end = kinds.find(b" ", place)
        end = end if end >= 0 else last + 1
        yield raw[kinds.rfind(b" ", 0, place) + 1 : end]
        place = kinds.find(sign, end)
