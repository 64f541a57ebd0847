"""Which question is asked."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.demo.corpus import Choice, UnknownQuestionError, choose, load

QUESTIONS = (
    "How do I split a string?",
    "How do I copy a file?",
    "How do I copy a list?",
    "How do I wait for a thread?",
    "How do I sort a list in place?",
)


def test_a_number_counts_from_one() -> None:
    assert choose(QUESTIONS, "1") == Choice(index=0)
    assert choose(QUESTIONS, " 5 ") == Choice(index=4)


@pytest.mark.parametrize("number", ["0", "6", "-1", "+99", "123456789012345678901234567890"])
def test_an_unknown_number_is_an_error_that_says_what_is_wanted_and_lists_the_questions(number: str) -> None:
    with pytest.raises(UnknownQuestionError) as caught:
        choose(QUESTIONS, number)
    message = str(caught.value)
    assert f"no question {int(number)}: want 1 to 5" in message
    assert all(question in message for question in QUESTIONS)


def test_the_exact_words_of_a_question_are_that_question_without_a_remark() -> None:
    assert choose(QUESTIONS, "how do i COPY a list") == Choice(index=2)


def test_free_text_finds_the_question_with_the_most_telling_words_and_says_so() -> None:
    choice = choose(QUESTIONS, "waiting on a thread")
    assert choice.index == 3
    assert choice.remark is not None
    assert "no embedding model" in choice.remark
    assert "question 4" in choice.remark


def test_a_rare_word_outweighs_a_common_one() -> None:
    assert choose(QUESTIONS, "sort the list").index == 4
    assert choose(QUESTIONS, "list of files, one file to copy").index == 1


def test_of_two_questions_as_near_the_first_wins() -> None:
    assert choose(QUESTIONS, "copy").index == 1


@pytest.mark.parametrize("text", ["", "  ", "zebra", "how do I", "???", "3.5 zebras"])
def test_text_without_a_telling_word_is_an_error_that_lists_the_questions(text: str) -> None:
    with pytest.raises(UnknownQuestionError, match="shares a telling word") as caught:
        choose(QUESTIONS, text)
    assert QUESTIONS[0] in str(caught.value)


def test_without_questions_nothing_can_be_chosen() -> None:
    with pytest.raises(UnknownQuestionError):
        choose((), "anything")


@given(st.text(max_size=60))
def test_any_text_chooses_a_question_or_says_why_not(text: str) -> None:
    """Arbitrary input gives an index into the questions or UnknownQuestionError, nothing else."""
    try:
        choice = choose(QUESTIONS, text)
    except UnknownQuestionError:
        return
    assert 0 <= choice.index < len(QUESTIONS)


def test_every_question_of_the_demo_is_found_by_its_number_and_by_its_words() -> None:
    texts = [question.text for question in load().questions]
    for index, text in enumerate(texts):
        assert choose(texts, str(index + 1)) == Choice(index=index)
        assert choose(texts, text) == Choice(index=index)
