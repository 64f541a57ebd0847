"""Header and footer lines go where they are margins, and nowhere else."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.text.margins import (
    DEEPEST,
    LONGEST,
    SEEN_AT_LEAST,
    Edges,
    Margins,
    edges,
    learn,
)

BODIES = (
    "The garrison was moved to the northern fort, where the walls had been raised by two rows of stone that year.",
    "A ferry crossed the strait twice a day and carried grain, timber and the mail of all seven islands to the port.",
    "Its organ was built by a maker from the south and has been rebuilt three times since, the last time in 1988.",
    "Nobody knew where the bell had come from; the parish books are silent on it, and so is the founder's mark.",
)


def of(*texts: str) -> list[Edges]:
    return [known for text in texts if (known := edges(text)) is not None]


def page(number: int, text: str) -> str:
    return f"ANNUAL REPORT     Page {number} of 9\n\n{text}\n(c) The Company - Confidential"


PAGES = [page(number, text) for number, text in enumerate(BODIES, 1)]


def stripped(text: str, margins: Margins) -> str:
    known = edges(text)
    assert known is not None
    lines = known.without(*known.depths(margins))
    return text if lines == known.lines else "\n".join(lines)


def test_running_headers_and_footers_go_whatever_their_page_number() -> None:
    margins = learn(of(*PAGES))
    assert [stripped(text, margins) for text in PAGES] == list(BODIES)


def test_two_pages_teach_nothing() -> None:
    assert learn(of(*PAGES[:2])) == Margins(frozenset(), frozenset())


def test_the_same_text_three_times_teaches_nothing() -> None:
    assert learn(of(PAGES[0], PAGES[0], PAGES[0])) == Margins(frozenset(), frozenset())


def test_a_header_of_several_lines_goes_whole() -> None:
    texts = [f"The Company\nDivision North\nPage {number}\n{text}" for number, text in enumerate(BODIES)]
    assert [stripped(text, learn(of(*texts))) for text in texts] == list(BODIES)


def test_a_header_is_no_deeper_than_three_lines() -> None:
    head = "\n".join(f"line {letter}" for letter in "abcd")
    texts = [f"{head}\n{text}" for text in BODIES]
    assert [stripped(text, learn(of(*texts))) for text in texts] == [f"line d\n{text}" for text in BODIES]
    assert DEEPEST == 3


def test_lines_that_repeat_inside_a_text_stay() -> None:
    texts = [f"{text}\nreturn None\n{text[::-1]}" for text in BODIES]
    margins = learn(of(*texts))
    assert [stripped(text, margins) for text in texts] == texts


def test_a_header_is_no_footer() -> None:
    margins = learn(of(*PAGES))
    text = f"{BODIES[0]}\nANNUAL REPORT Page 4 of 9"
    assert stripped(text, margins) == text


def test_a_line_behind_one_that_is_no_header_stays() -> None:
    margins = learn(of(*PAGES))
    text = f"Preface\nANNUAL REPORT Page 4 of 9\n{BODIES[0]}"
    assert stripped(text, margins) == text


def test_a_short_record_keeps_the_line_that_tells_it_apart() -> None:
    records = [
        f"Printer {letter} is on fire again\nStatus: {state}" for letter in "abc" for state in ("open", "closed")
    ]
    margins = learn(of(*records))
    assert margins.footers == {"status: open", "status: closed"}
    assert [stripped(text, margins) for text in records] == records


def test_a_text_of_nothing_but_margins_is_kept_as_it_was() -> None:
    margins = learn(of(*PAGES))
    text = "ANNUAL REPORT     Page 7 of 9\n(c) The Company - Confidential"
    assert stripped(text, margins) == text


def test_a_text_whose_smaller_part_would_remain_keeps_its_margins() -> None:
    header = "A very long notice that says who may read this page, who may not, and what happens to those who do"
    texts = [f"{header}\n{header}\n{text}" for text in BODIES]
    margins = learn(of(*texts))
    assert margins.headers == {header.lower()}
    assert [stripped(text, margins) for text in texts] == texts


def test_a_paragraph_is_no_header_however_often_it_repeats() -> None:
    paragraph = "word " * (LONGEST // 5 + 1)
    assert learn(of(*(f"{paragraph}\n{text}" for text in BODIES))).headers == frozenset()


@pytest.mark.parametrize("text", ["", "one line", "one line\n", "\n \nonly one that is not blank\n\t\n"])
def test_a_text_of_one_line_has_no_edges(text: str) -> None:
    assert edges(text) is None


@given(
    st.lists(st.lists(st.sampled_from(["a 1", "a 2", "b", "c", " ", BODIES[0], BODIES[1]]), max_size=8)), st.randoms()
)
def test_margins_do_not_depend_on_the_order_of_the_texts(texts: list[list[str]], shuffled: random.Random) -> None:
    """Invariant: learn(shuffled texts) == learn(texts), and every margin is an edge of three texts at least."""
    known = of(*("\n".join(lines) for lines in texts))
    margins = learn(known)
    moved = list(known)
    shuffled.shuffle(moved)
    assert learn(moved) == margins
    assert len(known) >= SEEN_AT_LEAST or not (margins.headers or margins.footers)


@given(st.lists(st.text(st.sampled_from("ab1\n "), max_size=300), min_size=1, max_size=12))
def test_a_body_is_never_empty_and_is_made_of_the_texts_own_lines(texts: list[str]) -> None:
    """Invariant: the lines of the body are those of the text but for its outermost ones, and at least half of its characters."""
    known = of(*texts)
    margins = learn(known)
    for each in known:
        headers, footers = each.depths(margins)
        lines = each.without(headers, footers)
        assert lines
        assert lines in {each.lines, each.lines[headers : len(each.lines) - footers]}
        assert sum(map(len, lines)) * 2 >= sum(map(len, each.lines))
