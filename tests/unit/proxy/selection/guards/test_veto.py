"""Vetoes over pairs: which guard, in which order, for which texts; switched off is off, long or unknown is not looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.policies import ALL_GUARDS
from support.texts import as_texts, forget, hostile_text
from vecsieve.proxy.selection.guards import veto
from vecsieve.proxy.selection.guards.subjects import HEAD, subject, subjects_differ
from vecsieve.proxy.selection.guards.veto import CHARACTERS, MOST_NUMBERS, RANKS, Codes
from vecsieve.proxy.selection.guards.veto import many as guards_of_many
from vecsieve.proxy.selection.policy import Guards
from vecsieve.proxy.selection.text.bounds import LONGEST_WORD
from vecsieve.proxy.selection.text.features import Text
from vecsieve.proxy.selection.values import Indices, Metadata, Veto, finished

FACTS = replace(ALL_GUARDS, subjects=False, templates=False)


def counted(texts: list[str | None]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array([-1 if text is None else len(text.split()) for text in texts], dtype=np.int64)


def vetoes(
    texts: Sequence[str | None],
    sources: list[str | None] | None,
    first: Indices,
    second: Indices,
    guards: Guards,
    counts: np.ndarray[Any, np.dtype[np.int64]] | None,
) -> Codes:
    """All steps at once; equal are texts that are the same."""
    metadata = Metadata(sources=None if sources is None else tuple(sources))
    return finished(veto.vetoes(as_texts(texts), metadata, first, second, guards, counts, texts.__getitem__))


def verdict(one: str | None, other: str | None, guards: Guards = FACTS) -> Veto:
    texts = [one, other]
    codes = vetoes(texts, None, np.array([0]), np.array([1]), guards, counted(texts))
    assert codes.tolist() == vetoes(texts, None, np.array([1]), np.array([0]), guards, counted(texts)).tolist()
    return Veto(int(codes[0]))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("Singapore shares open 0.28% lower", "Singapore shares open 0.19% lower", Veto.AMOUNT),
        ("0.28 %", "0.19 %", Veto.AMOUNT),
        ("Changes in release 1.0", "Changes in release 3.0", Veto.VERSION),
        ("EU bans diesel cars", "EU lifts ban on diesel cars", Veto.NEGATION),
        ("bans", "lifts ban", Veto.NEGATION),
        ("Death toll surpasses 7,000", "Death toll tops 8,000", Veto.NUMBER),
        ("Headlines on Oct 4", "Headlines on Oct 19", Veto.DATE),
        ("Release 1.0 of May 2019", "Release 3.0 of June 2020", Veto.VERSION),
        ("5 km on Monday", "6 km on Friday", Veto.DATE),
        ("5 km, 3 people", "6 km, 4 people", Veto.AMOUNT),
    ],
)
def test_different_facts_are_vetoed_by_the_first_guard_that_sees_them(one: str, other: str, expected: Veto) -> None:
    assert verdict(one, other) is expected


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What's my balance?", "How can I check my balance?"),
        ("Death toll tops 7,000", "Seven thousand dead"),
        ("You have answered your own question.", "You answered your own question."),
        ("Release 1.0", "The 1.0 release"),
        ("", ""),
        ("5 people", "some people"),
    ],
)
def test_paraphrases_have_no_veto(one: str, other: str) -> None:
    assert verdict(one, other) is Veto.NONE


@pytest.mark.parametrize(
    ("guard", "one", "other"),
    [
        ("amounts", "0.28 %", "0.19 %"),
        ("versions", "release 1.0", "release 3.0"),
        ("negation", "it works", "it doesn't work"),
        ("numbers", "7,000 dead", "8,000 dead"),
        ("dates", "on Monday", "on Friday"),
    ],
)
def test_a_guard_that_is_off_vetoes_nothing_and_alone_it_does(guard: str, one: str, other: str) -> None:
    assert verdict(one, other) is not Veto.NONE
    assert verdict(one, other, replace(FACTS, **{guard: False})) is Veto.NONE  # type: ignore[arg-type]  # - a field by name
    off = {field.name: False for field in fields(FACTS) if field.type == "bool"}
    assert verdict(one, other, replace(FACTS, **{**off, guard: True})) is not Veto.NONE  # type: ignore[arg-type]  # - same


def test_only_pairs_of_two_short_texts_are_looked_at() -> None:
    one, other = "version 1 a b c", "version 2 a b"
    assert verdict(one, other, replace(FACTS, short_words=5)) is Veto.VERSION
    assert verdict(one, other, replace(FACTS, short_words=4)) is Veto.NONE


def test_a_text_of_one_endless_word_is_not_short() -> None:
    tail = "x" * (LONGEST_WORD * FACTS.short_words)
    assert verdict("version 1", "version 2") is Veto.VERSION
    assert verdict(f"version 1 {tail}", f"version 2 {tail}") is Veto.NONE


def test_where_nothing_is_known_nothing_is_looked_at() -> None:
    assert verdict(None, "0.19 %") is Veto.NONE
    pair = np.array([0]), np.array([1])
    assert vetoes(["0.28 %", "0.19 %"], None, *pair, FACTS, None).tolist() == [Veto.NONE]


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("0.28 %", "0.19 %", Veto.UNREAD),
        ("0.28 %", "0.28 %", Veto.NONE),
        ("0.28 %", None, Veto.NONE),
        ("0.28 %", "long " * 400, Veto.NONE),
    ],
)
def test_a_short_text_that_was_not_read_is_kept_apart_from_other_short_ones(
    one: str, other: str | None, expected: Veto
) -> None:
    texts = [one, other]
    for counts in ([-1, 2], [2, -1], [-1, -1]):
        codes = vetoes(texts, None, np.array([0]), np.array([1]), FACTS, np.array(counts))
        assert codes.tolist() == [expected]


def test_a_source_that_is_always_kept_goes_before_all_other_guards() -> None:
    texts: list[str | None] = ["0.28 %", "0.19 %", None, "0.28 %"]
    guards = replace(FACTS, keep_sources=("law",))
    first, second = np.array([0, 1, 2, 0]), np.array([1, 3, 3, 3])
    codes = vetoes(texts, ["law", "blog", None, "blog"], first, second, guards, counted(texts))
    assert codes.tolist() == [Veto.SOURCE, Veto.AMOUNT, Veto.NONE, Veto.SOURCE]
    assert vetoes(texts, None, first, second, guards, None).tolist() == [Veto.NONE] * 4


def test_sources_are_kept_without_any_text() -> None:
    off = replace(
        FACTS, numbers=False, dates=False, versions=False, amounts=False, negation=False, keep_sources=("law",)
    )
    codes = vetoes([None, None], [None, "law"], np.array([0]), np.array([1]), off, None)
    assert codes.tolist() == [Veto.SOURCE]


def test_no_pairs_no_vetoes() -> None:
    nothing = np.empty(0, dtype=np.intp)
    codes = vetoes([], [], nothing, nothing, FACTS, np.empty(0, dtype=np.int64))
    assert codes.dtype == np.int8
    assert codes.shape == (0,)


TEXTS = st.lists(
    st.one_of(
        st.none(), st.text(max_size=40), st.sampled_from(["0.28 %", "v1.0", "v3", "bans", "lifts ban", "on Monday"])
    ),
    min_size=1,
    max_size=8,
)


@given(TEXTS, st.data())
def test_every_pair_is_judged_by_itself(texts: list[str | None], data: st.DataObject) -> None:
    # Invariant: all pairs at once, in any order, are what each pair is alone; nobody contradicts themselves.
    order = data.draw(st.permutations([(i, j) for i in range(len(texts)) for j in range(len(texts))]))
    first, second = (np.array(side, dtype=np.intp) for side in zip(*order, strict=True))
    codes = vetoes(texts, None, first, second, FACTS, counted(texts)).tolist()
    assert codes == [verdict(texts[i], texts[j]) for i, j in order]
    assert all(code == Veto.NONE for code, (i, j) in zip(codes, order, strict=True) if i == j)


def test_a_text_of_many_numbers_is_a_table_and_no_copy_of_another() -> None:
    row = "1," * (MOST_NUMBERS - 1)
    assert verdict(f"{row}5", f"{row}6") is Veto.NUMBER
    assert verdict(f"{row}1,5", f"{row}1,6") is Veto.UNREAD
    assert verdict(f"{row}1,5", f"{row}1,5") is Veto.NONE


@pytest.mark.parametrize("dear", ["\u0301\u0323" * 40, "\ufdfa" * 50])
def test_a_text_that_is_dear_to_read_is_no_copy_of_another(dear: str) -> None:
    assert verdict(f"{dear} 5 people", f"{dear} 6 people") is Veto.UNREAD
    assert verdict(f"{dear} 5 people", f"{dear} 5 people") is Veto.NONE


def test_of_each_fifty_ranks_the_first_characters_are_guarded_and_the_rest_is_kept_apart() -> None:
    """Invariant: what is guarded depends on nothing behind the fifty, and a later fifty has its own."""
    filler = "word" * 12
    texts = [f"{' '.join([filler] * 20)} {number} people" for number in range(2 * RANKS)]
    first, second = np.arange(0, 2 * RANKS, 2), np.arange(1, 2 * RANKS, 2)
    codes = vetoes(texts, None, first, second, FACTS, counted(list(texts)))
    each = CHARACTERS // len(texts[0])
    guarded = [bool(second[pair] % RANKS < each) for pair in range(RANKS)]
    assert codes.tolist() == [Veto.NUMBER if read else Veto.UNREAD for read in guarded]
    assert 0 < sum(guarded) < RANKS
    head = vetoes(texts[:RANKS], None, first[: RANKS // 2], second[: RANKS // 2], FACTS, counted(list(texts[:RANKS])))
    assert head.tolist() == codes[: RANKS // 2].tolist()


@given(hostile_text(), hostile_text())
def test_any_two_texts_are_judged_alike_from_both_sides(one: str, other: str) -> None:
    """Invariant: no exception, whatever the texts hold, and the same verdict either way."""
    verdict(one, other)
    verdict(one[:200], other[:200])


PHRASES = (
    *("open", "close", "not open", "no", "turn it on", "turn it off", "more than", "less than", "3 people", "4 people"),
    *(
        "release 1.0",
        "v3",
        "3.0",
        "on May 3",
        "on Monday",
        "in 2024",
        "5 km",
        "6 km",
        "0.28 %",
        "the cat sat",
        "lifts the ban",
    ),
    *("first", "last", "1,2,3", "two thousand", "", "1 and 1", "1"),
)


@given(st.lists(st.lists(st.sampled_from(PHRASES), max_size=4).map(" ".join), min_size=2, max_size=12))
def test_many_pairs_have_the_verdicts_of_each(texts: list[str]) -> None:
    """Invariant: looked at together, every pair has the verdict that it has alone."""
    first, second = (side.ravel() for side in np.indices((len(texts), len(texts))))
    each = vetoes(list(texts), None, first, second, FACTS, counted(list(texts)))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(veto, "MANY", 0)
        assert vetoes(list(texts), None, first, second, FACTS, counted(list(texts))).tolist() == each.tolist()


def test_what_is_read_and_compared_in_one_step_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counted: characters of which facts are made, and pairs that are compared, between two turns."""
    characters: list[int] = [0]
    pairs: list[int] = [0]
    forget()
    made, together = veto._facts, guards_of_many

    def facts(text: Text) -> Any:
        characters[-1] += len(text.raw)
        return made(text)

    def many(said: Any, first: Any, *of: Any) -> Any:
        pairs[-1] += len(first)
        return together(said, first, *of)

    monkeypatch.setattr(veto, "_facts", facts)
    monkeypatch.setattr(veto, "many", many)
    texts: list[str | None] = [f"ticket {number}: " + "printer on fire " * 8 for number in range(400)]
    first, second = np.triu_indices(len(texts), 1)
    for _ in veto.vetoes(as_texts(texts), Metadata(), first, second, FACTS, counted(texts), texts.__getitem__):
        characters.append(0)
        pairs.append(0)
    assert max(characters) <= veto.STEP_CHARACTERS
    assert sum(characters) > 4 * veto.STEP_CHARACTERS
    assert max(pairs) <= veto.MOST_PAIRS
    assert sum(pairs) > 2 * veto.MOST_PAIRS


LONG = " returns a new array with the result for every element of its arguments, broadcast to one shape" * 3


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"numpy.greater\n{LONG}", f"numpy.greater_equal\n{LONG}"),
        (f"CVE-2024-3094{LONG}", f"CVE-2024-3095{LONG}"),
        (f"uniform(low, high){LONG}", f"random(low, high){LONG}"),
        (f"uniform\n{LONG}", f"random\n{LONG}"),
        (f"HTTP 403{LONG}", f"HTTP 404{LONG}"),
        (f"Release notes of v2.3.1\n{LONG}", f"Release notes of v2.3.2\n{LONG}"),
        (f"2024-05-01 outage{LONG}", f"2024-05-02 outage{LONG}"),
        (f"#4521{LONG}", f"#4522{LONG}"),
        (f"max_size{LONG}", f"min_size{LONG}"),
        (f"parseInt{LONG}", f"parseFloat{LONG}"),
        (f"2015–16 season{LONG}", f"2012–13 season{LONG}"),
        (f"Teen Titans (season 1). The{LONG}", f"Teen Titans (season 4). The{LONG}"),
        (f"Chapter 3 of the manual\n{LONG}", f"Chapter 4 of the manual\n{LONG}"),
    ],
)
def test_texts_that_begin_with_different_names_are_kept_apart_however_long(one: str, other: str) -> None:
    assert verdict(one, other, ALL_GUARDS) is Veto.SUBJECT
    assert verdict(one, other, FACTS) is Veto.NONE


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (f"numpy.greater\n{LONG}", LONG),
        (f"numpy.greater\n{LONG}", f"numpy.greater of 1.26\n{LONG}"),
        (f"HUGUENOT   Page 2 of 9\n{LONG}", f"HUGUENOT   Page 3 of 9\n{LONG}"),
        (f"500,000 people{LONG}", f"300,000 people{LONG}"),
        (f"3.5 million{LONG}", f"4.5 million{LONG}"),
        (f"the greater one{LONG}", f"the lesser one{LONG}"),
        (f"in 1st place{LONG}", f"in 2nd place{LONG}"),
        (f"In 1990 it began. The{LONG}", f"In 1991 it began. The{LONG}"),
        (f"Dr. Smith{LONG}", f"Mr. Smith{LONG}"),
    ],
)
def test_what_begins_with_no_name_or_with_the_same_one_is_not_kept_apart(one: str, other: str) -> None:
    assert verdict(one, other, ALL_GUARDS) is Veto.NONE


def test_titles_that_name_different_things_keep_all_but_equal_texts_apart() -> None:
    texts = [f"{LONG} a", f"{LONG} b", f"{LONG} a"]
    known = Metadata(titles=("bisect.insort_left", "bisect.insort_right", "bisect.insort"))
    pairs = np.array([0, 0, 1]), np.array([1, 2, 2])
    codes = finished(veto.vetoes(as_texts(texts), known, *pairs, ALL_GUARDS, counted(list(texts)), texts.__getitem__))
    assert codes.tolist() == [Veto.SUBJECT, Veto.NONE, Veto.SUBJECT]


@given(hostile_text(), hostile_text())
def test_the_subject_of_any_text_is_found_and_is_its_own(one: str, other: str) -> None:
    """Invariant: no text differs from itself, and the order of two does not matter."""
    mine, theirs = subject(one[:HEAD]), subject(other[:HEAD])
    assert not subjects_differ(mine, mine)
    assert subjects_differ(mine, theirs) is subjects_differ(theirs, mine)
