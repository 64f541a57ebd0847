"""The reading of one text: its tokens, where sentences begin, and what it says beside them by layout. It depends on the text alone.

A text has up to two passages: plain, and laid out, if it has code or rows of a table. Two texts are compared laid out if both are; else plain.
Final deletions read exactly: without the differences that are none for a reader of a page (articles, spelling, errors of OCR).
"""

from __future__ import annotations

import re
import sys
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise

from .bounds import LONGEST, UNPRICED, cost
from .lines import Kind, Line, is_command, lines_of
from .marks import CLOSERS, ENDS, undressed
from .memo import Memo
from .outline import Outline
from .words import IS_SPACELESS, Run, known_run, run_of, word_set

# Function words of English, and of languages in which "a" is no article but a verb or a preposition.
_ENGLISH = word_set("the of and is to for with this that from you your are it be not")
_FOREIGN = word_set(
    "le la les un une des du et est il elle el los las una y que lo gli di che per um uma os der das und den dem ein eine nicht ist och att en "
    "ett het een van jest się nie na"
)
# A text of so many tokens may be a window, cut anywhere.
_WINDOW = 30
# Tokens between running titles: with fewer the titles are the text.
_LEAST_INSIDE = 6
# After an article these make another statement: a few and few.
_NOT_BARE = word_set("few little lot")
_QUESTION_WORDS = word_set(
    "who whom whose what which why how where when wer wie was wo warum wann welche qui que quoi où pourquoi comment quand quel quién qué cómo "
    "dónde cuándo chi che come dove quando perché"
)
_AUXILIARIES = word_set(
    "is are was were am do does did can could will would shall should may might must has have had ist sind war kann hat habe muss soll wird est "
    "sont peut puis es está puede può è sono posso"
)
_ATTRIBUTION = re.compile(
    "^.{0,120}\\b(?:wrote|writes|said|schrieb|a écrit|écrit|escribió|ha scritto|написал[аи]?)\\s*:\\s*$|^-{2,}\\s*(?:Original Message|Forwarded message|Ursprüngliche Nachricht)"
    "|^(?:Begin forwarded message:)",
    re.IGNORECASE,
)
# Quotes and brackets before a word.
OPENERS = "(\"'“„«[*_"
# A word, a mark (y++ + z is not y + ++z), or a blank that tells two names from one: .card .warning and .card.warning.
_LEXEME = re.compile("\\w+|\\+\\+|--|[^\\w\\s]|(?<=[\\w)\\]])\\s+(?=[.#\\[(:&*-]\\S)")


@dataclass(frozen=True, slots=True)
class Passage:
    """``tokens``: (n,). ``origins``: (n,) the run that each token was read from. ``articles``: left out before a token, in small letters.
    ``bounds``: where sentences begin, ascending, with 0 and n. ``rows``: where lines begin, with n. ``quote``: the first token that somebody else said;
    n if there is none. ``closes``: whether it ends with a sentence, a line of code or a row. ``is_cut``: whether it ends with an ellipsis. ``inside``: the tokens between what is left
    of a running title, in the first line, and in the last. ``has_title``: whether the first line is one of its own, and no sentence.
    """

    tokens: tuple[str, ...]
    origins: tuple[str, ...]
    articles: Mapping[int, str]
    bounds: tuple[int, ...]
    rows: tuple[int, ...]
    quote: int
    closes: bool
    is_cut: bool
    inside: tuple[int, int]
    has_title: bool

    def is_bound(self, place: int) -> bool:
        """Whether a sentence begins, or the text ends, at this token."""
        at = bisect_left(self.bounds, place)
        return at < len(self.bounds) and self.bounds[at] == place

    def is_inside_word(self, place: int) -> bool:
        """Whether this token and the one before it were written without a blank between them, in a script that has blanks."""
        if not 0 < place < len(self.origins) or self.origins[place - 1] is not self.origins[place]:
            return False
        return IS_SPACELESS.search(self.origins[place]) is None

    def opens_inside(self, place: int) -> bool:
        """Whether the text from this token on may begin inside a sentence: with a small letter, or with one of a script that has no others."""
        first = self.origins[place].lstrip(OPENERS)[:1] if place < len(self.origins) else ""
        return first.isalpha() and first == first.lower()

    def words(self, start: int, end: int, *, most: int = 12) -> str:
        """The tokens from ``start`` to ``end`` as they were written, at most ``most`` runs of them."""
        runs: list[str] = []
        for origin in self.origins[start : min(end, start + 4 * most)]:
            if not runs or origin is not runs[-1]:
                runs.append(origin)
        first_runs = runs[:most]
        is_longer = len(runs) > most or end > start + 4 * most
        glue = "" if first_runs and max(map(len, first_runs)) == 1 and not first_runs[0].isascii() else " "
        return glue.join(first_runs).rstrip(",;") + (" …" if is_longer else "")


class Text:
    """One text. ``raw``: as in the database. Its outline is made when first needed, and kept with it; what was read of it is kept apart."""

    __slots__ = ("known_cost", "known_outline", "raw")

    def __init__(self, raw: str) -> None:
        self.raw = raw
        self.known_cost = UNPRICED
        self.known_outline: Outline | None = None

    def cost(self) -> int:
        """The cost of reading it (bounds.py); -1 for a text that is not read."""
        if self.known_cost == UNPRICED:
            price = cost(self.raw)
            self.known_cost = -1 if price is None else price
        return self.known_cost

    def outlined(self) -> Outline:
        """What can be compared before it is read. Only for a text that is read."""
        self.known_outline = outline = Outline(self.raw)
        return outline

    def passages(self, *, exact: bool = False) -> tuple[Passage, Passage | None]:
        """Plain, and laid out if it has a layout. Only for a text that is read."""
        reading = READINGS.get((self.raw, exact))
        if reading is None:
            reading = read(self.raw, exact=exact)
            READINGS.keep((self.raw, exact), reading)
        return reading


# Popular texts occur in many searches. 24 MB hold some seven thousand texts of eighty words with their outlines; few of them are read, and that takes ten
# times as much.
TEXTS: Memo[str | bytes, Text] = Memo(24 << 20, lambda raw, _text: 300 + 5 * sys.getsizeof(raw))
READINGS: Memo[tuple[str, bool], tuple[Passage, Passage | None]] = Memo(
    8 << 20,
    lambda _key, passages: sum([400 + 130 * len(passage.tokens) for passage in passages if passage is not None]),
)


def text_of(raw: str) -> Text:
    """The Text of ``raw``; the same object while it is cached."""
    known = TEXTS.get(raw)
    return kept_text(raw, raw) if known is None else known


def kept_text(key: str | bytes, raw: str) -> Text:
    """The Text of ``raw``, cached as ``key``: itself, or as it is written in a reply."""
    text = Text(raw)
    if len(raw) <= LONGEST:
        TEXTS.keep(key, text)
    return text


# In place of a text that is too long, or beyond what is read of a pool: it may say anything, so it stays, and vectors do not decide about it.
UNREAD = Text("")
UNREAD.known_cost = -1


def read(raw: str, *, exact: bool = False) -> tuple[Passage, Passage | None]:
    """The passages of a text whose cost is known to be bounded."""
    text = undressed(raw)
    lines = lines_of(text, exact=exact)
    is_english = not exact and _is_english(" ".join(line.words for line in lines)[:_SAMPLE])
    is_cut = text.rstrip(CLOSERS + " \n").endswith(("...", "…"))
    plain = _passage(lines, is_cut=is_cut, is_english=is_english, exact=exact, is_laid=False)
    if all(line.kind is Kind.PROSE for line in lines) and not _levels(lines):
        return plain, None
    return plain, _passage(lines, is_cut=is_cut, is_english=is_english, exact=exact, is_laid=True)


# The characters of a text that show its language.
_SAMPLE = 2048
_BEYOND_ENGLISH = re.compile("[^\\W\\d_a-zA-Z]")


def _is_english(text: str) -> bool:
    """Whether nothing shows that a text is in another language."""
    words = set(text.lower().split())
    if len(words & _FOREIGN) > len(words & _ENGLISH):
        return False
    return text.isascii() or len(_BEYOND_ENGLISH.findall(text)) * 50 <= len(text)


class _Reader:
    """Collects the tokens of one passage."""

    __slots__ = (
        "articles",
        "bounds",
        "exact",
        "following",
        "is_english",
        "origins",
        "pending",
        "rows",
        "tokens",
        "was_number",
    )

    def __init__(self, *, is_english: bool, exact: bool) -> None:
        self.tokens: list[str] = []
        self.origins: list[str] = []
        self.articles: dict[int, str] = {}
        self.bounds: list[int] = [0]
        self.rows: list[int] = []
        self.is_english, self.exact = is_english, exact
        self.pending = False  # the last run may have ended a sentence
        self.was_number = False
        self.following: list[str] = []

    def bound(self) -> None:
        """A sentence begins here."""
        self.pending = self.was_number = False
        if self.bounds[-1] != len(self.tokens):
            self.bounds.append(len(self.tokens))

    def prose(self, words: str, following: str = "") -> None:
        """Read a line of prose. ``following``: the line in which its sentence goes on."""
        runs = words.split()
        self.following = following.split(None, 1)[:1] if following else []
        tokens, origins = self.tokens, self.origins
        for place, run in enumerate(runs):
            known = known_run(run) or run_of(run)
            if self.pending:
                if not run[:1].islower():
                    self.bound()
                self.pending = False
            if known.__class__ is str:
                if known in ("the", "a", "an") and self._is_article(known, run, runs, place):
                    self.articles[len(tokens)] = known
                    continue
                if self.was_number:
                    self.was_number = False
                    if len(run) <= 4 and run.isalpha():
                        known = run  # a unit: mW and MW
                tokens.append(known)
                origins.append(run)
            else:
                self._several(run, known, runs, place)  # type: ignore[arg-type]  # - a Run, by its class

    def _is_article(self, token: str, run: str, runs: list[str], place: int) -> bool:
        """Whether a run is an article that may be left out, in English. "a" is one before a word only: vitamin A, type a."""
        if not self.is_english:
            return False
        if token != "a":  # noqa: S105 - a word of a text
            return True
        following = runs[place + 1 : place + 2] or self.following
        if not following or (not following[0][0].isalpha() and place + 1 == len(runs)):
            return run == "a" and len(self.tokens) >= _WINDOW  # a window was cut behind it, else hepatitis a
        if not following[0][:2].isalpha() or len(following[0]) < 2 or following[0].lower() in _NOT_BARE:
            return False  # cp a b
        return run == "a" or (self.bounds[-1] == len(self.tokens) and following[0].islower() and len(following[0]) > 2)

    def _several(self, run: str, known: Run, runs: list[str], place: int) -> None:
        start = len(self.tokens)
        # Spelling and thousands are English: 1,500 kg are one and a half elsewhere.
        tokens = known.tokens if known.exact is None or self.is_english else known.exact
        if self.was_number and len(tokens) == 1 and len(tokens[0]) <= 4 and tokens[0].isalpha():
            written = run.strip(".,;:!?()[]\"'")
            tokens = (written,) if written.isalpha() else tokens
        self.tokens += tokens
        self.origins += [run] * len(tokens)
        self.was_number = known.is_number and run[-1] not in CLOSERS + ENDS
        for inner in known.inner:
            if start + inner > self.bounds[-1]:
                self.bounds.append(start + inner)
        if known.asks and not self._is_question():
            self.tokens.append("?")
            self.origins.append(run)
        if known.ends:
            self.pending = True

    def _is_question(self) -> bool:
        """Whether the sentence begins as a question, so that its mark says nothing new."""
        start = self.bounds[-1]
        return (
            len(self.tokens) > start + 1
            and self.tokens[start].lower() in _QUESTION_WORDS
            and self.tokens[start + 1].lower() in _AUXILIARIES
        )

    def add(self, token: str, origin: str) -> None:
        self.tokens.append(token)
        self.origins.append(origin)


def _passage(lines: list[Line], *, is_cut: bool, is_english: bool, exact: bool, is_laid: bool) -> Passage:
    reader = _Reader(is_english=is_english, exact=exact)
    quote = -1
    unit = _indentation(lines) if is_laid else 0
    level = _levels(lines) if is_laid else 0
    items: list[int] = []  # blanks before each bullet
    before: Line | None = None
    for line, next_line in zip(lines, (*lines[1:], None), strict=False):  # of a text without lines there is none behind
        if line.breaks:
            reader.bound()
        if quote < 0 and _quotes(line):
            quote = len(reader.tokens)
        if not reader.rows or reader.rows[-1] != len(reader.tokens):
            reader.rows.append(len(reader.tokens))
        if line.is_item:
            # How deep the first item stands is not known: a chunk loses the blanks of its first line.
            if level and len(items) > 1 and line.indent != items[-1]:
                reader.add(f"\n{(line.indent - items[-1]) // level:+d}", "⏎")
            items.append(line.indent)
        following = next_line.words if next_line is not None and not next_line.breaks else ""
        _line(reader, line, before, following, unit=unit if is_laid else -1)
        if line.kind is not Kind.PROSE:
            reader.pending = True
        before = line
    closes = reader.pending and not is_cut
    tokens = reader.tokens
    size = len(tokens)
    if reader.bounds[-1] != size:
        reader.bounds.append(size)
    return Passage(
        tokens=tuple(tokens),
        origins=tuple(reader.origins),
        articles=reader.articles,
        bounds=tuple(reader.bounds),
        rows=(*reader.rows, size) if not reader.rows or reader.rows[-1] != size else tuple(reader.rows),
        quote=size if quote < 0 else quote,
        closes=closes,
        is_cut=is_cut,
        inside=_between_titles(lines, reader.rows, size),
        has_title=len(lines) > 1 and lines[1].breaks and lines[0].words.rstrip(CLOSERS)[-1:] not in (*ENDS, ","),
    )


def _between_titles(lines: list[Line], rows: list[int], size: int) -> tuple[int, int]:
    """The tokens between running titles. ``rows``: where lines begin."""
    first = next((place for place, line in enumerate(lines) if not line.is_running), len(lines))
    last = next((place for place, line in enumerate(reversed(lines)) if not line.is_running), len(lines))
    if first + last >= min(len(lines), len(rows)):
        return 0, size
    start, end = rows[first], rows[-last] if last else size
    return (start, end) if end - start >= _LEAST_INSIDE else (0, size)


def _line(reader: _Reader, line: Line, before: Line | None, following: str, *, unit: int) -> None:
    """Read one line. ``unit``: blanks of one level of indentation; -1: not laid out."""
    if unit >= 0 and line.kind is Kind.CODE:
        _code(reader, line, before, unit)
    elif unit >= 0 and line.kind is Kind.ROW:
        for place, cell in enumerate(line.cells):
            reader.add(f"\u00a6{line.columns[place]}" if line.columns else "\u00a6", "|")
            reader.prose(cell)
    else:
        reader.prose(" ".join(line.cells) if line.kind is Kind.ROW else line.words, following)


def _quotes(line: Line) -> bool:
    """Whether somebody else is quoted from this line on."""
    if line.is_quoted:
        return True
    return (line.words[-1] == ":" or line.words[0] == "-") and _ATTRIBUTION.match(line.words) is not None


def _indentation(lines: list[Line]) -> int:
    """The blanks of one level: the smallest step between lines of code."""
    indents = [line.indent for line in lines if line.kind is Kind.CODE]
    steps = [abs(one - other) for one, other in pairwise(indents) if one != other]
    return min(steps, default=0)


def _levels(lines: list[Line]) -> int:
    """The blanks of one level of a nested list; 0 for none."""
    indents = {line.indent for line in lines if line.is_item}
    return min([abs(one - other) for one, other in pairwise(sorted(indents))], default=0)


def _code(reader: _Reader, line: Line, before: Line | None, unit: int) -> None:
    """Every mark of a line of code counts, and how much deeper it stands than the line of code before it."""
    if before is not None and before.kind is Kind.CODE:
        deeper = (line.indent - before.indent) // unit if unit else 0
        reader.add(f"\n{deeper:+d}" if deeper else "\n", "⏎")
        reader.bounds.append(len(reader.tokens) - 1) if reader.bounds[-1] != len(reader.tokens) - 1 else None
    if is_command(line.words):
        for word in line.words.split():
            reader.add(word, word)
        return
    for lexeme in _LEXEME.findall(line.words):
        reader.add("\u2423" if lexeme.isspace() else lexeme, lexeme)
