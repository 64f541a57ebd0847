"""The command's own part: arguments that cannot be used, before anything is started."""

from __future__ import annotations

import signal
import threading
import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import getsource

import pytest

from vecsieve.config.backends import DEFAULT_BACKEND
from vecsieve.proxy.demo import command, database
from vecsieve.proxy.demo.backends import PINECONE, QDRANT
from vecsieve.proxy.demo.command import DEFAULT_QUESTION, Arguments, run
from vecsieve.proxy.demo.corpus import Choice, choose, load
from vecsieve.proxy.demo.database import Addresses, DatabaseRefusedError, Store


def test_an_unknown_number_ends_with_code_2_and_the_list_of_questions(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Arguments(query="99", keep=False)) == 2
    caught = capsys.readouterr()
    assert "no question 99: want 1 to 42" in caught.err
    assert " 42  How do I" in caught.err
    assert caught.out == ""


def test_text_that_is_near_to_no_question_ends_with_code_2(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Arguments(query="zebra", keep=True)) == 2
    assert "'zebra'" in capsys.readouterr().err


def test_an_unknown_backend_ends_with_code_2_and_those_there_are(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(Arguments(query=None, keep=False, backend="milvus")) == 2
    assert capsys.readouterr().err == ('vecsieve demo: --backend: wanted qdrant, pinecone or chroma; saw "milvus"\n')


def test_the_help_names_every_backend_of_the_demo_and_the_default_is_one() -> None:
    said = next(line for line in getsource(Arguments).splitlines() if "The database: qdrant" in line)
    assert all(name in said for name in command.DATABASES)
    assert DEFAULT_BACKEND in command.DATABASES


def test_refused_arguments_leave_the_signals_alone(capsys: pytest.CaptureFixture[str]) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)]
    run(Arguments(query="0", keep=False))
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)] == before
    assert capsys.readouterr().err


def test_the_default_question_exists() -> None:
    texts = [question.text for question in load().questions]
    assert choose(texts, DEFAULT_QUESTION) == Choice(index=int(DEFAULT_QUESTION) - 1)


@pytest.mark.parametrize("backend", ["qdrant", "pinecone"])
def test_of_either_backend_nothing_is_said_before_the_question_is_found(
    backend: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(Arguments(query="99", keep=False, backend=backend)) == 2
    assert capsys.readouterr().out == ""


@contextmanager
def nothing_running() -> Iterator[str]:
    yield "http://e"


@contextmanager
def nothing_before_it(engine: str, *, backend: str, is_kept: bool) -> Iterator[Addresses]:
    assert backend in command.DATABASES
    assert not is_kept or backend == "qdrant"
    yield Addresses(engine=engine, proxy="http://p", admin="http://a:1")


def refusing(url: str) -> Store:
    raise DatabaseRefusedError(f"GET {url} was answered with 500: no")


def test_a_database_that_refuses_ends_with_code_1_and_its_words_after_the_opening(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "DATABASES", {"pinecone": replace(PINECONE, engine=nothing_running, opened=refusing)})
    monkeypatch.setattr(database, "fronted", nothing_before_it)
    assert run(Arguments(query=None, keep=False, backend="pinecone")) == 1
    caught = capsys.readouterr()
    assert caught.err == "vecsieve demo: GET http://e was answered with 500: no\n"
    assert caught.out.startswith("This is an emulator")


@pytest.mark.parametrize(("browse", "starts"), [(False, True), (True, True), (True, False)])
def test_keep_says_where_the_inspector_is_and_open_starts_a_browser_on_it(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], browse: bool, starts: bool
) -> None:
    opened: list[str] = []

    def opens(url: str) -> bool:
        opened.append(url)
        return starts

    monkeypatch.setattr(command, "DATABASES", {"qdrant": replace(QDRANT, engine=nothing_running)})
    monkeypatch.setattr(database, "fronted", nothing_before_it)
    monkeypatch.setattr(command, "_play", lambda *_: None)
    monkeypatch.setattr(threading.Event, "wait", lambda _: None)
    monkeypatch.setattr(webbrowser, "open", opens)
    assert run(Arguments(query=None, keep=True, browse=browse)) == 0
    said = capsys.readouterr().out
    assert "Results that were left out, and why: http://a:1/" in said
    assert opened == (["http://a:1/"] if browse else [])
    assert ("No browser could be started" in said) is (browse and not starts)
