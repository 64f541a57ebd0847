"""What is printed, at the widths of a narrow and a wide terminal."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from support.policies import DEFAULT
from support.tiny_corpus import A, B, C, D, answer, chunk, corpus_of
from vecsieve.proxy.demo.comparison import CameIn, Comparison, Counts, Note, PassedOver, Pool, Repeat, Side, compare
from vecsieve.proxy.demo.corpus import Chunk, Corpus
from vecsieve.proxy.demo.rendering import answers_table, legend, summary_table, timing_lines
from vecsieve.proxy.demo.summary import Summary, Timing

SUMMARY = Summary(
    questions=40, results=320, by_vector=(96, 0), by_wording=(110, 8), with_repeats=(30, 0), changed=30, first_kept=39
)


def printed(renderable: RenderableType, *, width: int = 120, encoding: str = "utf-8") -> str:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    Console(file=stream, width=width).print(renderable)
    stream.seek(0)
    return stream.read()


def side(*notes: Note | None, by_vector: int = 0) -> Side:
    return Side(
        rows=tuple(range(len(notes))),
        texts=("",) * len(notes),
        notes=notes,
        counts=Counts(results=len(notes), by_vector=by_vector, by_wording=0),
    )


def table(corpus: Corpus, direct: Side, proxied: Side, *, width: int = 120) -> str:
    return printed(answers_table(corpus, Comparison(direct=direct, proxied=proxied, threshold=0.11)), width=width)


FOUR = corpus_of([A, B, C, D])


@pytest.mark.parametrize(
    ("note", "words"),
    [
        (Repeat(place=1, distance=0.0, same_text=True), "= same text as 2"),
        (Repeat(place=0, distance=0.0214, same_text=False), "= repeats 1 (distance 0.021)"),
        (PassedOver(), "- left out for variety"),
        (CameIn(rank=12), "+ came in, was number 12"),
        (CameIn(rank=None), "+ came in from further down"),
    ],
)
@pytest.mark.parametrize("width", [80, 120])
def test_every_note_is_said_in_words_that_fit(note: Note, words: str, width: int) -> None:
    assert words in table(FOUR, side(None, note), side(None), width=width)


def test_the_headings_say_how_many_results_repeat() -> None:
    shown = table(FOUR, side(None, None, None, by_vector=2), side(None, None, None))
    assert "Asked directly" in shown
    assert "Asked through VecSieve" in shown
    assert "2 of 3 repeat a result above" in shown
    assert "no repeats" in shown


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    corpus = corpus_of([A, B], texts=["word " * 100, "x" * 500])
    shown = table(corpus, side(None, PassedOver()), side(CameIn(rank=3), None), width=width)
    assert max(len(line) for line in shown.splitlines()) <= width


def test_lists_of_different_length_stand_side_by_side() -> None:
    shown = table(FOUR, side(None, None, None, None), side(None))
    assert shown.count("module.name0") == 2
    assert shown.count("module.name3") == 1


def test_a_docstring_is_named_by_its_object_and_an_excerpt_by_its_page_and_title() -> None:
    page = Chunk(text="text", source="docs", document="library/heapq.html", title="heapq.merge", position=4)
    corpus = corpus_of([A, B])
    mixed = Corpus(
        chunks=(chunk("text", document="heapq.merge"), page),
        vectors=corpus.vectors,
        questions=corpus.questions,
        question_vectors=corpus.question_vectors,
    )
    shown = table(mixed, side(None, None), side(None))
    assert "heapq.merge (docstring)" in shown
    assert "heapq.html: heapq.merge" in shown


def test_text_that_looks_like_markup_is_shown_as_it_stands() -> None:
    corpus = corpus_of([A], texts=["[bold]random.seed([x]) [/nothing]"])
    assert "[bold]random.seed([x]) [/nothing]" in table(corpus, side(None), side(None))


def test_a_terminal_without_line_characters_gets_plain_ones() -> None:
    comparison = Comparison(direct=side(None), proxied=side(None), threshold=0.1)
    shown = printed(answers_table(FOUR, comparison), encoding="ascii")
    assert shown.isascii()
    assert "module.name0" in shown


def test_the_legend_says_the_threshold() -> None:
    comparison = Comparison(direct=side(None), proxied=side(None), threshold=0.1234)
    assert "at most 0.123" in printed(legend(comparison), width=200)


def test_the_added_time_is_said_with_its_sign_and_both_medians() -> None:
    shown = printed(timing_lines(Timing(rounds=25, direct_milliseconds=2.0, proxied_milliseconds=5.25)), width=300)
    assert "+3.2 ms" in shown
    assert "medians of 25: 2.0 ms directly, 5.2 ms through VecSieve" in shown
    assert "not built for speed" in shown


def test_a_negative_difference_is_shown_as_it_was_measured() -> None:
    shown = printed(timing_lines(Timing(rounds=1, direct_milliseconds=2.0, proxied_milliseconds=1.0)), width=300)
    assert "-1.0 ms" in shown


@pytest.mark.parametrize("width", [80, 120])
def test_the_summary_shows_counts_and_shares_of_both_sides(width: int) -> None:
    shown = printed(summary_table(SUMMARY), width=width)
    assert "All 40 questions, 320 results" in shown
    assert "96 (30%)" in shown
    assert "0 (0%)" in shown
    assert "110 (34%)" in shown
    assert "8 (2%)" in shown


def test_the_summary_says_what_changed_and_what_did_not() -> None:
    shown = printed(summary_table(SUMMARY), width=300)
    assert "30 answers changed" in shown
    assert "10 had nothing to collapse and came back unchanged" in shown
    assert "first result stayed first in 39 of 40" in shown


def test_a_summary_of_nothing_divides_by_nothing() -> None:
    nothing = Summary(
        questions=0, results=0, by_vector=(0, 0), by_wording=(0, 0), with_repeats=(0, 0), changed=0, first_kept=0
    )
    assert "0 (0%)" in printed(summary_table(nothing))


def test_a_real_comparison_can_be_shown() -> None:
    corpus = corpus_of([A, A, B, C])
    pool = Pool(answer=answer(0, 1, 2, 3), first=4, policy=DEFAULT)
    seen = compare(corpus, pool, direct=answer(0, 1, 2), proxied=answer(0, 2, 3))
    shown = printed(answers_table(corpus, seen))
    assert "1 of 3 repeat a result above" in shown
    assert "+ came in, was number 4" in shown
