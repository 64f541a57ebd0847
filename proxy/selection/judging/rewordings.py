"""Sentences that say the same in other words, for the preset `meaning`: utterances, opinions, triage.

Words cannot prove it, and no vector does, so it is off by default and never decides a deletion. A sentence leaves if the calibrated rule is sure
enough, a third sentence of the pool says the same as both, and nothing speaks against it: the nearer two wordings are, the more a difference counts; numbers, names, denials and opposed words must be
in both. It repeats one kept result and never represents one.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from ..certainty import KNEE, SENTENCES, logarithm
from ..reading.text import Passage, Text
from ..reading.words import word_set
from ..values import FloatMatrix

# Tokens of a sentence. A text of half as many words again is none, although articles and marks are no tokens: it need not be read.
FEWEST, MOST = 4, 40
MOST_WORDS = MOST + MOST // 2
# Sentences that must say the same before one of them leaves.
ALIKE = 3
# The share of the shorter sentence that both have; beyond it they say different things with the same words.
MOST_COMMON = 0.7
# Sentences by which rarity and repetition are measured: those among the first candidates.
MEASURED = 50
# Repetition is the overlap of rare words that a tenth of the pairs exceed: .14 in pools of tickets with one frequent intent, .06 to .09 in claims on
# one topic. It is bounded, and a pool counts as if it had at least so many pairs: two similar texts among few say nothing about the others.
EXCEEDED_BY, MOST_REPETITION, FEWEST_PAIRS = 0.1, 0.2, 190

# Function words of the languages whose denials and numbers are known. A sentence without any of them is in another language.
_FUNCTION = word_set(
    "the of and to in is for with on by that be are was as this have has do does did can i you he she it we they my your his her a an at from or "
    "how what when where who der die das und ist in zu den mit von auf für ich du er sie es wir mein dein ein eine wie was wo wann wer im am le "
    "la les de des et est un une je tu il elle nous mon ma où comment que qui pour dans sur avec el los las y es una yo mi tu su por para con en "
    "cómo qué dónde lo il gli di che per un una è mio mia si dove come al del da"
)
_DENIALS = word_set(
    "not no never none nobody nothing neither nor without cannot nicht kein keine keinen keinem keiner nie niemals ohne nichts niemand ne pas "
    "jamais sans rien aucun aucune nunca sin nada ningún ninguna ninguno tampoco non mai senza niente nessun nessuno nessuna"
)
_NUMBERS = word_set(
    "one two three four five six seven eight nine ten eleven twelve twenty thirty fifty hundred thousand million half quarter double twice once "
    "first second third fourth last next eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf zwanzig hundert tausend halb erste zweite "
    "dritte letzte deux trois quatre cinq sept huit neuf dix vingt cent mille demi premier première dernier dernière dos tres cuatro cinco seis "
    "siete ocho nueve diez veinte cien mil medio primero primera último última due tre quattro cinque sei sette otto nove dieci venti cento primo "
    "prima ultimo ultima monday tuesday wednesday thursday friday saturday sunday january february march april june july august september october "
    "november december today tomorrow yesterday montag dienstag mittwoch donnerstag freitag samstag sonntag heute morgen gestern lundi mardi "
    "mercredi jeudi vendredi samedi dimanche demain hier lunes martes miércoles jueves viernes sábado domingo hoy mañana ayer lunedì martedì "
    "mercoledì giovedì venerdì sabato domenica oggi domani ieri"
)
# Words of which two sentences may not have one each: pairs of sides, a side of several words.
_PAIRS = (
    "before prior|after;more|less fewer;with|without;increase rise raise higher up|decrease fall lower reduce down;open opens opened|close closes closed;"
    "allow allowed permit permitted legal|ban banned forbid forbidden prohibit prohibited illegal;buy|sell;start begin began|stop end finish;add|remove;"
    "enable activate|disable deactivate;win won|lose lost;love like|hate dislike;early earlier|late later;good better best|bad worse worst;send sent|receive received;"
    "arrive arrived|leave left depart departed;from|to;left|right;cheap cheaper|expensive dear;in|out;accept accepted|reject rejected refuse refused decline declined;"
    "always|never sometimes;all every|some few;only|also;lock|unlock;stolen|lost found;"
    "vor|nach;mehr|weniger;mit|ohne;öffnen|schließen;erlaubt|verboten;avant|après;plus|moins;avec|sans;ouvert|fermé;"
    "antes|después;más|menos;con|sin senza;abierto|cerrado;prima|dopo;più|meno;aperto|chiuso"
)
_OPPOSED = tuple(
    (word_set(one), word_set(other)) for one, _, other in (pair.partition("|") for pair in _PAIRS.split(";"))
)

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Sentence:
    """One sentence. ``facts``: what must stand in both: numbers, names, identifiers, marks. ``denies``: how often it denies, odd or even."""

    tokens: tuple[str, ...]
    words: frozenset[str]
    facts: frozenset[str]
    denies: bool
    written: str


def sentence_of(text: Text | None) -> Sentence | None:
    """The sentence that a text is; None if it is something else, or its language is not known."""
    if text is None or text.cost() < 0 or len(text.raw) > 16 * MOST or len(text.raw.split()) > MOST_WORDS:
        return None
    passage = text.passages()[0]
    tokens = passage.tokens
    if not FEWEST <= len(tokens) <= MOST or len(passage.bounds) > 2:
        return None
    words = frozenset(token.lower() for token in tokens)
    if not words & _FUNCTION:
        return None
    return Sentence(tokens, words, _facts(passage), sum(_is_denial(word) for word in tokens) % 2 == 1, " ".join(tokens))


def _is_denial(token: str) -> bool:
    return token in _DENIALS or token.endswith("n't")


def _facts(passage: Passage) -> frozenset[str]:
    """Numbers, number words, identifiers and marks; and names, which have a capital inside the sentence, unless nouns have one, too."""
    capitals = [
        place
        for place, origin in enumerate(passage.origins)
        if place and origin.lstrip("(\"'“„«")[:1].isupper() and origin != "I"
    ]
    are_names = len(capitals) * 4 <= len(passage.tokens)
    return frozenset(
        token
        for place, token in enumerate(passage.tokens)
        if token in _NUMBERS
        or not (token.replace("'", "").isalpha() or token == "?")  # noqa: S105 - a word of a text
        or (are_names and place in capitals)
    )


def speaks_against(one: Sentence, other: Sentence) -> bool:
    """Whether something in two sentences shows that they say different things, or are one frame with different fillings."""
    if one.facts != other.facts or one.denies != other.denies:
        return True
    if any(_divides(one, other, left, right) for left, right in _OPPOSED):
        return True
    common = (Counter(one.tokens) & Counter(other.tokens)).total()
    return common > MOST_COMMON * min(len(one.tokens), len(other.tokens)) or _is_frame(one.tokens, other.tokens)


def _divides(one: Sentence, other: Sentence, left: frozenset[str], right: frozenset[str]) -> bool:
    """Whether one side of a pair is in one sentence only, and the other side in the other only."""
    return bool(one.words & left) != bool(other.words & left) and bool(one.words & right) != bool(other.words & right)


def _in_order(one: tuple[str, ...], other: tuple[str, ...]) -> list[tuple[int, int]]:
    """The longest common subsequence, as places in both."""
    table = [[0] * (len(other) + 1) for _ in range(len(one) + 1)]
    for i in range(len(one) - 1, -1, -1):
        for j in range(len(other) - 1, -1, -1):
            table[i][j] = table[i + 1][j + 1] + 1 if one[i] == other[j] else max(table[i + 1][j], table[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(one) and j < len(other):
        if one[i] == other[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif table[i + 1][j] >= table[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _is_frame(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether content differs between three shared tokens on both sides, or at an end beside four."""
    common = [(-1, -1), *_in_order(one, other), (len(one), len(other))]
    lengths, differs = [0], list[bool]()  # shared runs of tokens, and whether both have other ones between them
    for (i, j), (k, m) in pairwise(common):
        if k - i == m - j == 1:
            lengths[-1] += 1
        else:
            differs.append(k - i > 1 and m - j > 1)
            lengths.append(1)
    lengths[-1] -= 1  # the end is no token
    last = len(differs) - 1
    return any(
        (lengths[place] >= 3 and lengths[place + 1] >= 3)
        or (place == 0 and lengths[0] == 0 and lengths[1] >= 4)
        or (place == last and lengths[place + 1] == 0 and lengths[place] >= 4)
        for place, is_other in enumerate(differs)
        if is_other
    )


class Rewordings:
    """Finds, for a candidate, the kept result that it repeats in other words. ``distance``: (n, n) relative to the typical one. ``largest``: beyond
    which two may be near by chance. ``doubt``: the largest that is allowed.
    """

    __slots__ = ("_distance", "_doubt", "_known", "_largest", "_measured", "_sentences")

    def __init__(self, sentences: list[Sentence | None], distance: FloatMatrix, largest: float, doubt: float) -> None:
        self._sentences = sentences
        self._distance, self._largest, self._doubt = distance, largest, doubt
        self._measured: _Measured | None = None
        self._known: dict[tuple[int, int], float | None] = {}

    def __call__(self, place: int, kept: list[int]) -> tuple[int, float] | None:
        """The kept result, and the doubt; None if there is none."""
        if self._sentences[place] is None:
            return None
        near = [(doubt, other) for other in kept if (doubt := self._doubts(place, other)) is not None]
        for doubt, other in sorted(near):
            if self._has_third(place, other):
                return other, doubt
        return None

    def _has_third(self, one: int, other: int) -> bool:
        """Whether a third sentence of the pool says the same as both: what many say in their own words is one thing."""
        return any(
            third not in (one, other)
            and self._doubts(one, third) is not None
            and self._doubts(other, third) is not None
            for third in range(len(self._sentences))
        )

    def _doubts(self, one: int, other: int) -> float | None:
        """The doubt that two sentences say the same; None if it is too large, or something speaks against it."""
        pair = (min(one, other), max(one, other))
        if pair not in self._known:
            self._known[pair] = self._computed(*pair)
        return self._known[pair]

    def _computed(self, one: int, other: int) -> float | None:
        mine, theirs = self._sentences[one], self._sentences[other]
        apart = float(self._distance[one, other])
        if mine is None or theirs is None or not apart <= self._largest or not math.isfinite(apart):
            return None
        if self._measured is None:
            self._measured = _Measured(self._sentences)
        doubt = self._measured.doubt(mine, theirs, one, other, apart)
        return None if doubt > self._doubt or speaks_against(mine, theirs) else doubt


class _Measured:
    """The rarity of words in a pool's sentences, and what two sentences share of it."""

    __slots__ = ("_both", "_repetition", "_sentences", "_sums")

    def __init__(self, sentences: list[Sentence | None]) -> None:
        self._sentences = sentences
        different = list(dict.fromkeys(one.words for one in sentences[:MEASURED] if one is not None))
        counts: dict[str, int] = {}
        for words in different:
            for word in words:
                counts[word] = counts.get(word, 0) + 1
        numbers: dict[str, int] = {}
        for one in sentences:
            for word in () if one is None else sorted(one.words):
                numbers.setdefault(word, len(numbers))
        weights = np.array([math.log((len(different) + 1) / counts.get(word, 1)) for word in numbers])
        has = np.zeros((len(sentences), len(numbers)))
        for place, one in enumerate(sentences):
            has[place, [] if one is None else [numbers[word] for word in one.words]] = 1.0
        self._both: Numbers = (has * weights) @ has.T
        self._sums: Numbers = self._both.diagonal().copy()
        firsts = {one.words: place for place, one in reversed(list(enumerate(sentences[:MEASURED]))) if one is not None}
        self._repetition = self._repeated(np.array(sorted(firsts.values()), np.intp))

    def _repeated(self, places: npt.NDArray[np.intp]) -> float:
        first, second = np.triu_indices(len(places), 1)
        fewer = int(EXCEEDED_BY * max(len(first), FEWEST_PAIRS))
        if len(first) <= fewer:
            return 0.0
        shares = self._shared(places[first], places[second])
        return min(float(np.partition(shares, -1 - fewer)[-1 - fewer]), MOST_REPETITION)

    def _shared(self, one: npt.NDArray[np.intp], other: npt.NDArray[np.intp]) -> Numbers:
        both = self._both[one, other]
        similarities: Numbers = both / np.maximum(self._sums[one] + self._sums[other] - both, 1e-6)
        return similarities

    def doubt(self, mine: Sentence, theirs: Sentence, one: int, other: int, apart: float) -> float:
        """1 - the probability that two sentences say the same."""
        both = self._both[one, other]
        near = float(logarithm(np.array([apart]))[0])
        features = {
            "one": 1.0,
            "far": max(near, KNEE),
            "near": min(near, KNEE),
            "rare_shared": both / max(self._sums[one] + self._sums[other] - both, 1e-6),
            "rare_contained": both / max(min(self._sums[one], self._sums[other]), 1e-6),
            "repetition": self._repetition,
            "opening": _opening(mine.written, theirs.written),
        }
        return 1.0 / (1.0 + math.exp(sum(SENTENCES[name] * value for name, value in features.items())))


def _opening(one: str, other: str) -> float:
    """The share of the shorter sentence with which both begin."""
    shorter = min(len(one), len(other))
    alike = next((place for place in range(shorter) if one[place] != other[place]), shorter)
    return alike / shorter if shorter else 0.0
