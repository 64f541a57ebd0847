""""""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from servers.pinecone.ranking import relevance, reranked


def test_the_text_with_more_of_the_words_comes_first_and_equals_keep_their_order() -> None:
    found = reranked("red car", ["blue sea", "red car", "a red bus", "a red bus"])
    assert [place for place, _ in found] == [1, 2, 3, 0]
    assert found[0][1] > found[1][1] > found[-1][1] == 0.0


def test_of_two_texts_with_the_same_words_the_shorter_wins() -> None:
    assert relevance("red", "red") > relevance("red", "red thing")


@given(st.text(), st.lists(st.text(), max_size=8))
def test_every_text_is_ranked_once(question: str, texts: list[str]) -> None:
    """The places are a permutation and the scores fall."""
    found = reranked(question, texts)
    assert sorted(place for place, _ in found) == list(range(len(texts)))
    scores = [score for _, score in found]
    assert scores == sorted(scores, reverse=True)
    assert all(0 <= score <= 1 for score in scores)
