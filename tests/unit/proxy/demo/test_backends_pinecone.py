"""The demo over the emulator: what is said of it, and how its parts are started and asked."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing

import pytest

from support.tiny_corpus import A, B, corpus_of
from vecsieve.proxy.demo.backends import PINECONE
from vecsieve.proxy.demo.database import Addresses, Database, Host

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")


def closing_of(spent: Mapping[str, int], monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(Host, "sent", lambda *_: (spent, {}))
    assert PINECONE.closing is not None
    return PINECONE.closing(AT)


def test_the_first_words_say_that_it_is_an_emulator_and_not_the_service() -> None:
    words = PINECONE
    assert words.opening is not None
    assert words.opening.startswith("This is an emulator of Pinecone's REST API")
    assert "It is not Pinecone's service" in words.opening
    assert words.command == "vecsieve demo --backend pinecone"


def test_the_closing_words_say_it_again_and_what_a_search_weighed(monkeypatch: pytest.MonkeyPatch) -> None:
    said = closing_of({"searches": 10, "extra_bytes": 1_234_000}, monkeypatch)
    assert "answered by the emulator, not by Pinecone's service" in said
    assert "over 10 searches VecSieve fetched 123 kB a search more" in said


def test_no_searches_weigh_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "over 0 searches VecSieve fetched 0 kB" in closing_of({"searches": 0, "extra_bytes": 0}, monkeypatch)


def test_the_emulator_and_the_proxy_before_it_hold_one_index_found_through_either() -> None:
    database: Database = PINECONE
    corpus = corpus_of([A, B])
    with database.running() as at:
        with closing(database.opened(at.engine)) as direct, closing(database.opened(at.proxy)) as proxied:
            direct.load(corpus, progress=lambda _: None)
            assert direct.ask(corpus.vectors[1], limit=2).rows == proxied.ask(corpus.vectors[1], limit=2).rows == (1, 0)
        lines = database.instructions(at, row=1, question=0, limit=8)
        assert database.closing is not None
        assert database.closing(at)
    assert f"curl -s {at.proxy}/_i/127.0.0.1:" in lines
    assert f"curl -s {at.engine}/" not in lines  # the index is not where the control plane is
