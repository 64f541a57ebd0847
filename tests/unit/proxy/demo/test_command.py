"""The command's own part: arguments that cannot be used, before anything is started."""

from __future__ import annotations

import signal

import pytest

from vecsieve.proxy.demo.choosing import Choice, choose
from vecsieve.proxy.demo.command import DEFAULT_QUESTION, run
from vecsieve.proxy.demo.corpus import load


def test_an_unknown_number_ends_with_code_2_and_the_list_of_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(query="99", keep=False) == 2
    caught = capsys.readouterr()
    assert "no question 99: want 1 to 42" in caught.err
    assert " 42  How do I" in caught.err
    assert caught.out == ""


def test_text_that_is_near_to_no_question_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(query="zebra", keep=True) == 2
    assert "'zebra'" in capsys.readouterr().err


def test_refused_arguments_leave_the_signals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    run(query="0", keep=False)
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
    assert capsys.readouterr().err


def test_the_default_question_exists() -> None:
    texts = [question.text for question in load().questions]
    assert choose(texts, DEFAULT_QUESTION) == Choice(index=int(DEFAULT_QUESTION) - 1)
