"""The demo over the embedded engine: what is said of it, and how its parts are started and asked."""

from __future__ import annotations

from contextlib import closing

from support.jobs.tiny_corpus import A, B, corpus_of
from vecsieve.proxy.demo.backends import QDRANT, qdrant_instructions
from vecsieve.proxy.demo.database import Addresses, Database

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")


def test_nothing_is_said_before_or_after_because_it_is_the_real_engine() -> None:
    assert QDRANT.opening is None
    assert QDRANT.closing is None
    assert QDRANT.command == "vecsieve demo"


def test_the_time_is_said_to_be_that_of_an_engine_not_built_for_speed() -> None:
    assert "not built for speed" in QDRANT.caution


def test_what_was_left_running_is_told_as_ever() -> None:
    assert QDRANT.instructions(AT, row=7, question=3, limit=8) == qdrant_instructions(AT, row=7, question=3, limit=8)


def test_the_engine_and_the_proxy_before_it_hold_one_collection() -> None:
    database: Database = QDRANT
    corpus = corpus_of([A, B])
    with (
        database.running() as at,
        closing(database.opened(at.engine)) as direct,
        closing(database.opened(at.proxy)) as proxied,
    ):
        direct.load(corpus, progress=lambda _: None)
        assert direct.ask(corpus.vectors[1], limit=2).rows == proxied.ask(corpus.vectors[1], limit=2).rows == (1, 0)
