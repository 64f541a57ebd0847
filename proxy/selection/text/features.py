"""What selection reads of one text. Nothing here depends on other texts, so it may be kept as long as the text is the same.

A ``Text`` is made once for each text and holds what was found of it. A ``Form`` is the text as it is compared: with all of its
lines, or without header and footer lines. Which lines those are is learnt from the pool (margins.py), so a text of several
lines may have several forms.

``complete`` finds what all selections read of forms, of many at once. What only some selections read is found when it is asked
for: the words of a text, its figures and names, what guards read.
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

# Bits of the map of 3-grams. Two texts of a hundred words without common passages share a sixth of theirs.
BITS = 512

# One form in numbers, so that those of a pool are gathered in one call. ``bits``: the map. ``number``: equal for equal canonical
# texts. ``words``: how many, 0 of a text without any visible character. ``grams``: how many different 3-grams; ``doubled``: of them,
# those without a bit of their own.
RECORD = np.dtype(
    [("bits", "<u8", (BITS // 64,)), ("number", "<i8"), ("words", "<i4"), ("grams", "<i4"), ("doubled", "<i8")]
)
NOTHING = bytes(RECORD.itemsize)

# A run without blanks and without the punctuation that separates values. One class, so that the time is linear.
_TOKEN = re.compile(r"[^\s,;:()\[\]{}\"'`<>|=*!?]+")
_EDGES = ".-/"
# A character's byte as one of a token: a blank for what separates, one digit for all.
_DIGIT, _BLANK = b"0", ord(" ")
_SEPARATORS = b",;:()[]{}\"'`<>|=*!?"
_BLANKS = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
_KINDS = bytes.maketrans(_SEPARATORS + b"123456789", b" " * len(_SEPARATORS) + _DIGIT * 9)
_HAS_DIGIT = re.compile(r"\d")
_HAS_INNER_SIGN = re.compile(r"\w[._]\w")

# Of a longer text the first so many tokens are read: 15 ms for a pool of 50 such texts.
MOST_TOKENS = 2048

# Words a character from which a script has no spaces: English has .2, Chinese nearly 1.
SPACELESS = 0.5

# With a text of so few words in it, a pool is asked for the words of all its texts: they are found while they are at hand.
FEW_WORDS = 30

_PAIRING = np.uint64(0x9E3779B97F4A7C15)  # odd: pairs in another order are other pairs

Tokens = frozenset[str]
_NONE: Tokens = frozenset()


class Form:
    """A text as it is compared. ``body``: composed, its lines whole (canonical.unwrapped).

    ``record``: see RECORD; ``grams``: the different 3-grams, ascending, as the bytes of uint32. Both are None until
    ``complete``; ``grams`` alone is None, too, of a text that was kept without them. ``hashes``: (w,) uint64, of each word in order; None until somebody asks for it. ``vocabulary``: the bytes
    of (u,) uint32, the hash of each different word, ascending; of pairs of neighbours where the script has no spaces, since two
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
        """The canonical form, made anew; empty where there is nothing that can be seen."""
        return folded(self.body)

    @property
    def marks(self) -> tuple[Tokens, Tokens]:
        """The figures, which are tokens with a digit, and the names, which have a point or an underscore inside."""
        if self._marks is None:
            self._marks = _marked(self.canonical)
        return self._marks

    @property
    def nbytes(self) -> int:
        """About what it holds, without ``body``."""
        marks = () if self._marks is None else self._marks[0] | self._marks[1]
        kept = (self.record or b"", self.grams or b"", self.vocabulary or b"", *marks)
        return 150 + sum(map(sys.getsizeof, kept)) + (0 if self.hashes is None else self.hashes.nbytes)


# A text, what it costs to read, and the record of its form with all lines.
Essence = tuple[str, int, bytes | None]


class Text:
    """One text. ``raw``: as the database has it. ``has_lines``: whether it may have margins. ``facts`` and ``subject``: what guards
    found, None until they looked. ``whole``: its form with all lines, ``edges``: those lines, None of a single one; both after
    ``unwrap``.
    """

    __slots__ = ("_forms", "edges", "facts", "has_lines", "known_cost", "raw", "subject", "whole")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.has_lines = "\n" in raw or "\r" in raw
        self.whole: Form | None = None
        self.facts: object = None  # typed where it is read: guards read texts, so nothing of theirs is known here
        self.subject: Tokens | None = None
        self.known_cost = UNPRICED
        self.edges: Edges | None = None
        self._forms: dict[tuple[int, int], Form] | None = None

    def cost(self) -> int:
        """What it costs to read (bounds.py); -1 of a text that is not read."""
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
            # Composing may have made it longer than what is read at all: then there is nothing to compare.
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
        """What is slow to find again, and the text itself."""
        return self.raw, self.known_cost, None if self.whole is None else self.whole.record

    @classmethod
    def of_essence(cls, essence: Essence) -> Text:
        """The Text of which this is left. It may be one that is remembered."""
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
        """About what it holds."""
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


# Popular texts come back with every search. 24 MB are some eight thousand texts of a hundred words; what is kept of one is about
# what it takes twice.
TEXTS: Memo[str, Text] = Memo(24 << 20, lambda raw, _text: 800 + 2 * sys.getsizeof(raw))


def text_of(raw: str) -> Text:
    """The Text of ``raw``: the same as before, as long as it is remembered."""
    found = TEXTS.get(raw)
    if found is None:
        found = Text(raw)
        if len(raw) <= LONGEST:
            TEXTS.keep(raw, found)
    return found


def complete(forms: Sequence[Form], *, hashes: bool = False) -> None:
    """Find the record and the 3-grams of these forms, all at once: a tenth of the time of one by one. ``hashes``: keep those of
    the words as well.
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
    """Find the vocabulary of these forms, all at once."""
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
    """The different hashes of t texts one behind the other, whose they are, and their borders (t + 1,).

    Of a hash 32 bits are kept. Two texts of a hundred words agree in a 3-gram that they do not share once in 400,000 pairs.
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
    """Of equal texts the same number. Nobody can write a second text with the number of a first one."""
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
    else:  # other alphabets' digits have several bytes
        tokens = set(raw.translate(_BLANKS).split(b" "))
    stripped = [token.decode("utf-8", "surrogatepass").strip(_EDGES) for token in tokens]
    figures = frozenset(filter(_HAS_DIGIT.search, stripped))
    names = frozenset(filter(_HAS_INNER_SIGN.search, stripped))
    return figures or _NONE, names or _NONE


def _tokens_with(sign: bytes, raw: bytes, kinds: bytes) -> Iterator[bytes]:
    """The tokens of a text with a sign, but for a point or an underscore at their edge. ``kinds``: the text with blanks in place of all
    that separates, and with one digit in place of all.
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
