"""What is printed, at the widths of a narrow and a wide terminal."""

from __future__ import annotations

import dataclasses
import io

import pytest
from rich.console import Console, RenderableType

from support.jobs.tiny_corpus import A, B, C, D, chunk, corpus_of
from vecsieve.proxy.demo.command import LISTED, answers_table, legend, summary_table, timing_lines
from vecsieve.proxy.demo.comparison import (
    PASSED_OVER,
    Comparison,
    Counts,
    Doubtful,
    Note,
    Side,
    Sign,
    Summary,
    Timing,
)
from vecsieve.proxy.demo.corpus import Chunk, Corpus
from vecsieve.proxy.selection.values import Link


def copy(link: Link, words: str, *, place: int = 0) -> Note:
    return Note(sign=Sign.COPY, words=words, place=place, link=link, similarity=0.9)


SUMMARY = Summary(
    questions=40, results=320, word_for_word=(81, 0), by_vector=(96, 0), by_wording=(110, 8), by_either=(112, 9), with_repeats=(30, 7),
    changed=30, first_kept=39, say_more=4,
    left_out={Link.EQUAL: 60, Link.DISTANCE: 20, Link.CONTAINED: 5},
    doubtful=(
        Doubtful(row=1, above=0, note=copy(Link.DISTANCE, "a vector near that of 1")),
        Doubtful(row=3, above=2, note=copy(Link.EDITED, "an edited copy of 3", place=2)),
    ),
)  # fmt: skip
NOTHING = Summary(
    questions=0, results=0, word_for_word=(0, 0), by_vector=(0, 0), by_wording=(0, 0), by_either=(0, 0), with_repeats=(0, 0),
    changed=0, first_kept=0, left_out={}, doubtful=(), say_more=0,
)  # fmt: skip


def printed(renderable: RenderableType, *, width: int = 120, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width).print(renderable)
    stream.seek(0)
    return stream.read()


def side(*notes: Note | None, repeats: int = 0, first_text: int = 0) -> Side:
    return Side(
        rows=tuple(range(len(notes))),
        texts=tuple(f"text {first_text + row}" for row in range(len(notes))),
        notes=tuple(() if note is None else (note,) for note in notes),
        counts=Counts(results=len(notes), by_vector=0, by_wording=0, by_either=repeats, say_more=0),
    )


def compared(direct: Side, proxied: Side) -> Comparison:
    return Comparison(direct=direct, proxied=proxied, yardstick=0.1234)


def table(corpus: Corpus, direct: Side, proxied: Side, *, width: int = 120) -> str:
    return printed(answers_table(corpus, compared(direct, proxied)), width=width)


FOUR = corpus_of([A, B, C, D])
DOSE = Note(sign=Sign.STAYS, words="stays: '40 mg' for '20 mg' in 1", place=0)
CAME_IN = Note(sign=Sign.CAME_IN, words="came in, was number 9")


@pytest.mark.parametrize("note", [DOSE, CAME_IN, PASSED_OVER, copy(Link.EQUAL, "says the same as 1")])
@pytest.mark.parametrize("width", [80, 100, 120])
def test_every_note_is_said_with_its_sign_in_words_that_fit(note: Note, width: int) -> None:
    assert f"{note.sign} {note.words}"[:26] in table(FOUR, side(None, note), side(None), width=width)


def test_what_came_in_and_stays_beside_one_like_it_says_both() -> None:
    proxied = dataclasses.replace(side(None, None), notes=((), (CAME_IN, DOSE)))
    rendered = table(FOUR, side(None, None), proxied)
    assert "+ came in, was number 9" in rendered
    assert "! stays: '40 mg' for '20 mg' in 1" in rendered


def test_the_headings_say_how_many_results_repeat_and_how_many_changed_places() -> None:
    rendered = table(FOUR, side(None, None, None, repeats=2), side(None, None, None, first_text=1))
    for words in (
        "Asked directly",
        "Asked through VecSieve",
        "2 of 3 repeat a result above, 1 left out",
        "no repeats, 1 came in",
    ):
        assert words in rendered
    equal = table(FOUR, side(None, None), side(None, None))
    assert "left out" not in equal
    assert "came in" not in equal


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    corpus = corpus_of([A, B], texts=["word " * 100, "x" * 500])
    rendered = table(corpus, side(None, PASSED_OVER), side(CAME_IN, None), width=width)
    assert max(len(line) for line in rendered.splitlines()) <= width


def test_lists_of_different_length_stand_side_by_side() -> None:
    rendered = table(FOUR, side(None, None, None, None), side(None))
    assert rendered.count("module.name0") == 2
    assert rendered.count("module.name3") == 1


def test_a_docstring_is_named_by_its_object_and_an_excerpt_by_its_page_and_title() -> None:
    page = Chunk(text="text", source="docs", document="library/heapq.html", title="heapq.merge", position=4)
    corpus = corpus_of([A, B])
    mixed = Corpus(
        chunks=(chunk("text", document="heapq.merge"), page),
        vectors=corpus.vectors,
        questions=corpus.questions,
        question_vectors=corpus.question_vectors,
    )
    rendered = table(mixed, side(None, None), side(None))
    assert "heapq.merge (docstring)" in rendered
    assert "heapq.html: heapq.merge" in rendered


def test_text_that_looks_like_markup_is_shown_as_it_stands() -> None:
    corpus = corpus_of([A], texts=["[bold]random.seed([x]) [/nothing]"])
    assert "[bold]random.seed([x]) [/nothing]" in table(corpus, side(None), side(None))


def test_a_terminal_without_line_characters_gets_plain_ones() -> None:
    comparison = compared(side(None), side(None))
    output = printed(answers_table(FOUR, comparison), encoding="ascii")
    assert output.isascii()
    assert "module.name0" in output


def test_the_legend_says_by_what_repeats_are_counted_and_nothing_of_signs_that_do_not_occur() -> None:
    output = printed(legend(compared(side(None), side(None))), width=200)
    assert "vectors within 0.123 of a result above, or 50% of its wording in one" in output
    assert len(output.splitlines()) == 1


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (
            copy(Link.EQUAL, "says the same as 1"),
            "= left out, or repeated to fill the page: the results that it names say all of it",
        ),
        (DOSE, "! it stays: it says something that the result like it does not say"),
        (
            Note(sign=Sign.ALIKE, words="like 1: 0.200 apart", place=0),
            "~ similar by the counting rule below, but no words that prove a repeat",
        ),
    ],
)
def test_the_legend_explains_the_signs_that_occur(note: Note, words: str) -> None:
    assert words in printed(legend(compared(side(None, None, None, note), side(None))), width=300)
    assert words not in printed(legend(compared(side(None), side(None))), width=300)


@pytest.mark.parametrize(("proxied", "added"), [(5.25, "+3.2 ms"), (1.0, "-1.0 ms")])
def test_the_added_time_is_said_with_its_sign_and_both_medians(proxied: float, added: str) -> None:
    times = Timing(rounds=25, direct_milliseconds=2.0, proxied_milliseconds=proxied)
    output = printed(timing_lines(times, "take care"), width=300)
    assert added in output
    assert "medians of 25: 2.0 ms directly, " in output
    assert output.splitlines()[-1] == "take care"


@pytest.mark.parametrize("width", [80, 120])
def test_the_summary_shows_counts_and_shares_of_both_sides(width: int) -> None:
    output = printed(summary_table(FOUR, SUMMARY), width=width)
    for words in ("All 40 questions, 320 results", "96 (30%)", "0 (0%)", "110 (34%)", "8 (2%)", "112 (35%)", "9 (3%)"):
        assert words in output


def test_the_summary_says_what_changed_why_and_by_which_rule() -> None:
    output = printed(summary_table(FOUR, SUMMARY), width=400)
    for words in (
        "30 answers changed, 10 had nothing to collapse and came back unchanged; the first result stayed first in 39 of 40",
        "Left out for a result above: 85 (the same text 60, all in one result 5, near by vector 20).",
        "Word for word copies: 81 → 0. Alike but different, kept on purpose: 9, 4 of them because they say more",
        "module.name1 (docstring) for module.name0 (docstring) (a vector near that of 1)",
        "module.name3 (docstring) for module.name2 (docstring) (an edited copy of 3)",
        "not the rule of VecSieve",
        "within 0.20 x the typical distance",
    ):
        assert words in output


@pytest.mark.parametrize(("count", "more"), [(LISTED, None), (LISTED + 1, "and 1 more"), (LISTED + 30, "and 30 more")])
def test_of_many_doubtful_pairs_the_first_are_listed_and_the_rest_counted(count: int, more: str | None) -> None:
    many = (Doubtful(row=1, above=0, note=copy(Link.DISTANCE, "a vector near that of 1")),) * count
    output = printed(summary_table(FOUR, dataclasses.replace(SUMMARY, doubtful=many)), width=300)
    listed = [line for line in output.splitlines() if line.startswith("  module.name1 (docstring) for ")]
    assert len(listed) == LISTED
    assert (" more\n" in output) is (more is not None)
    assert more is None or more in output


def test_a_summary_of_nothing_divides_by_nothing_and_gives_no_reasons() -> None:
    output = printed(summary_table(FOUR, NOTHING), width=300)
    assert "0 (0%)" in output
    assert "Left out" not in output
    assert "Not proven" not in output
    assert "Word for word copies: 0 → 0. Alike but different, kept on purpose: 0." in output
