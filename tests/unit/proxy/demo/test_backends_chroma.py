"""The demo over Chroma: what is said of it, and how its parts are started and asked."""

from __future__ import annotations

from contextlib import closing

from support.chroma.server import NEEDS_CHROMA
from support.jobs.tiny_corpus import A, B, corpus_of
from vecsieve.proxy.demo.backends import CHROMA
from vecsieve.proxy.demo.database import Addresses, Database

AT = Addresses(engine="http://127.0.0.1:1001", proxy="http://127.0.0.1:1002", admin="http://127.0.0.1:1003")


def test_nothing_is_said_before_or_after_because_it_is_the_real_server() -> None:
    assert CHROMA.opening is None
    assert CHROMA.closing is None
    assert CHROMA.command == "vecsieve demo --backend chroma"


@NEEDS_CHROMA
def test_the_server_and_the_proxy_before_it_hold_one_collection_and_what_is_said_of_it_leads_there() -> None:
    database: Database = CHROMA
    corpus = corpus_of([A, B])
    with (
        database.running() as at,
        closing(database.opened(at.engine)) as direct,
        closing(database.opened(at.proxy)) as proxied,
    ):
        direct.load(corpus, progress=lambda _: None)
        assert direct.ask(corpus.vectors[1], limit=2).rows == proxied.ask(corpus.vectors[1], limit=2).rows == (1, 0)
        said = database.instructions(at, row=0, question=1, limit=2)
        assert said.count("/collections/") == 2
        assert at.engine in said
        assert at.proxy in said
