"""Windows over words."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.jobs.build_corpus import OVERLAP_WORDS, WINDOW_WORDS, Word, windows


def numbered(count: int, title: str = "t") -> list[Word]:
    return [Word(str(number), title) for number in range(count)]


def test_no_words_make_no_window() -> None:
    assert windows([]) == ()


def test_a_short_text_is_one_window() -> None:
    only = windows(numbered(12))
    assert len(only) == 1
    assert only[0].text.split() == [str(number) for number in range(12)]


def test_exactly_one_window_of_words_is_not_followed_by_a_window_of_overlap_alone() -> None:
    assert len(windows(numbered(WINDOW_WORDS))) == 1
    assert len(windows(numbered(WINDOW_WORDS + 1))) == 2


def test_neighbours_share_a_quarter_of_a_window() -> None:
    first, second = windows(numbered(175))
    assert first.text.split()[-OVERLAP_WORDS:] == second.text.split()[:OVERLAP_WORDS]
    assert OVERLAP_WORDS * 4 == WINDOW_WORDS


def test_positions_count_from_zero() -> None:
    assert [window.position for window in windows(numbered(400))] == [0, 1, 2, 3, 4]


def test_a_window_carries_the_title_of_most_of_its_words() -> None:
    words = [*numbered(30, "few"), *numbered(50, "most"), *numbered(20, "few more")]
    assert windows(words)[0].title == "most"


def test_of_two_titles_with_as_many_words_the_first_wins() -> None:
    assert windows([*numbered(5, "first"), *numbered(5, "second")])[0].title == "first"


@given(st.integers(0, 2000))
def test_windows_cover_every_word_in_order_and_none_is_longer_than_a_window(count: int) -> None:
    """Dropping each later window's overlap gives back the words; no window exceeds 100; none is overlap alone."""
    cut = [window.text.split() for window in windows(numbered(count))]
    joined = [word for at, window in enumerate(cut) for word in window[OVERLAP_WORDS if at else 0 :]]
    assert joined == [str(number) for number in range(count)]
    assert all(len(window) <= WINDOW_WORDS for window in cut)
    assert all(len(window) > OVERLAP_WORDS for window in cut[1:])
