"""What a page says in its own words: the differences that are none, and those that are some."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.evaluate.wording import LONG, RUN, Page, Wording, Wordings, frames, unframed, words


def missing(text: str, *page: str) -> list[str]:
    """The runs of a text that the page lacks."""
    return [
        " ".join(run) for run in Page([Wording(words(page_text)) for page_text in page]).missing(Wording(words(text)))
    ]


VERBATIM = [
    ("The pump runs at night.", "the Pump runs at night"),
    ("The pump runs.", "At noon the pump runs, too."),
    ("A pump runs at the gate", "Pump runs at gate"),
    ("It costs 1,200 euros per month", "it costs 1200 euros per month"),
    ("a well-known owned-and-\noperated station", "a wellknown owned-and-operated station"),
    ("trans-\nlation of the text", "translation of the text"),
    ("trans\u00adlation of the text", "translation of the text"),
    ("“It’s open,” she said", '"It\'s open", she said'),
    ("<p>It is <b>open</b> &amp; free</p>", "It is open & free"),
    ("Heading\n=======\nis it open", "Heading\n---\nis it open"),
    ("| red | 5 |", "red 5"),
    ("> quoted answer of last week", "quoted answer of last week"),
    ("How do I reset it?", "how do I reset it"),
    ("PUMPS RUN AT NIGHT ON MW", "pumps run at night on mw"),
    ("会议将于下午三点在二楼", "会议 将于 下午三点 在二楼会议室"),
    ("- open\n* closed", "open closed"),
    ("...", "anything"),
]


@pytest.mark.parametrize(("text", "page"), VERBATIM)
def test_these_differences_are_none(text: str, page: str) -> None:
    assert missing(text, page) == []


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("The plant delivers 5 mW to the grid", "The plant delivers 5 MW to the grid"),
        ("100 Mb/s on the line", "100 MB/s on the line"),
        ("Dose: 20 mg", "Dose: 40 mg"),
        ("at -5 degrees", "at 5 degrees"),
        ("the range [0, 1) of values", "the range [0, 1] of values"),
        ("balance (1,200) in March", "balance 1,200 in March"),
        ("grew by 1.000 units", "grew by 1,000 units"),
        ("about ~5 items", "about 5 items"),
        ("costs $5", "costs 5"),
        ("shipped 👍", "shipped 👎"),
        ("🟢 payment", "🔴 payment"),
        ("if a == b then", "if a != b then"),
        ("[ ] call Ann", "[x] call Ann"),
        ("Closed?", "Closed."),
        ("US offices open", "us offices open"),
        ("下午三点", "下午五点"),
        ("naïve users", "naive users"),
        ("cat sleeps", "the cat's house sleeps"),
        ("safe to eat raw", "unsafe to eat raw"),
    ],
)
def test_these_differences_are_some_either_way(text: str, page: str) -> None:
    assert missing(text, page)
    assert missing(page, text)


def test_a_word_more_is_missing_and_a_word_fewer_is_said() -> None:
    short, long = "refunds take five working days", "refunds take five working days, unless the card has expired"
    assert missing(short, long) == []
    assert missing(long, short)


def test_a_text_may_stand_in_two_that_overlap_or_follow_one_another() -> None:
    text = "one two three four five six seven eight nine ten"
    assert missing(text, "zero one two three four five six seven", "three four five six seven eight nine ten") == []
    assert missing(text, "zero one two three four five", "six seven eight nine ten eleven") == []
    assert missing(text, "zero one two three four five and", "six seven eight nine ten eleven")


def test_pieces_of_records_do_not_make_another_record() -> None:
    pages = ("Anna Berger lives in Rome and works as a nurse", "Paul Winter lives in Bern and works as a cook")
    assert missing("Anna Berger lives in Bern and works as a cook", *pages)


FILLER = " ".join(f"word{place}" for place in range(LONG))


def test_function_words_and_endings_may_differ_in_long_texts_only() -> None:
    one, other = "which was opened by the mayor of Porto", "open by mayors Porto"
    assert missing(f"{FILLER} {one}", f"{FILLER} {other}") == []
    assert missing(one, other)
    assert missing(f"{FILLER} not opened by him", f"{FILLER} opened by him")
    assert missing(f"{FILLER} opened in 1990", f"{FILLER} opened in 1991")


def test_frames_are_lines_that_stand_beside_different_ones() -> None:
    pages = [f"Annual report, page {page}\nunit {chr(97 + page)} made a profit\nConfidential" for page in range(3)]
    twice = ["Release notes\nthe same line", "Release notes\nthe same line"]
    known = frames([*pages, *twice])
    assert known == {"Annual report, page 0", "Confidential"}
    assert unframed(pages[1], known) == ["unit b made a profit"]
    assert unframed(twice[0], known) == ["Release notes", "the same line"]


def test_a_frame_may_be_missing_and_what_is_inside_may_not() -> None:
    pages = [f"Annual report, page {page}\nunit {chr(97 + page)} made a profit\nConfidential" for page in range(3)]
    texts = Wordings([*pages, "unit a made a profit", "Annual report, page 9\nunit z made a loss"])
    assert texts.missing(0, texts.page([3])) == []
    assert texts.missing(1, texts.page([3]))
    assert texts.missing(4, texts.page([0, 1, 2]))


def test_a_text_of_frames_alone_is_compared_as_it_is() -> None:
    texts = Wordings([*(f"Annual report\nunit {chr(97 + place)}" for place in range(3)), "Annual report"])
    assert texts.missing(3, texts.page([0])) == []


@given(st.text(max_size=300), st.text(max_size=100))
def test_every_text_says_itself_wherever_it_stands(text: str, other: str) -> None:
    """Invariant: a page that holds a text misses nothing of it, whatever else it holds."""
    assert missing(text, other, text) == []


@given(st.lists(st.sampled_from("abcdefgh"), min_size=RUN, max_size=40), st.integers(0, 40), st.integers(0, 40))
def test_every_part_of_a_text_is_said_by_it(letters: list[str], start: int, end: int) -> None:
    """Invariant: a stretch of a text's words misses nothing on a page with the text."""
    text_words = [f"w{letter}" for letter in letters]
    assert missing(" ".join(text_words[start:end]), " ".join(text_words)) == []
