"""Chunks that overlap, over every transport: the page has the exchanged result where its place is, in the database's own bytes."""

from __future__ import annotations

import pytest

from support.backends.text_rankings import DATABASES, TOP_K, Ranked, Selected
from support.backends.toy_exchange import ToyExchange, toys
from vecsieve.config.backends import with_defaults
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.collections.texts import WINDOW
from vecsieve.proxy.search.fetch import LEAST
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.search.pools.source import Source
from vecsieve.proxy.search.service import SearchService

STEP = 40  # words by which one chunk follows another


def chunk(number: int, source: str) -> str:
    """Two steps of a source: half of it is its neighbour's."""
    return " ".join(f"{source}{place}" for place in range(number * STEP, (number + 2) * STEP))


TEXTS = [chunk(0, "a"), chunk(1, "a"), chunk(0, "b"), chunk(0, "c"), chunk(0, "d"), chunk(2, "a")]
RANKING = [
    *(Ranked(rank, text, rank) for rank, text in enumerate(TEXTS)),
    *(Ranked(rank, chunk(0, f"x{rank}y"), rank) for rank in range(len(TEXTS), 60)),
]


@pytest.mark.parametrize("name", DATABASES)
async def test_the_third_chunk_stands_where_the_middle_one_would(name: str) -> None:
    database, around = DATABASES[name], toys()
    service = SearchService(database.adapter, database.dialect, around.services, number_bytes=4)
    backend = database.operation.backend
    settings = with_defaults({"backend": backend, "policy": {"overlap": "exchange"}})
    policy = Policies(Settings.model_validate(settings)).resolve(backend, "c")
    expected = database.holding([RANKING[rank] for rank in (0, 5, 2, 3)])(database.requesting(Selected.ALL))
    assert TOP_K == 4
    for number in range(max(WINDOW, LEAST) + 2):  # until texts alone are asked for
        exchange = ToyExchange(
            policy=policy,
            plain=database.requesting(Selected.ALL),
            operation=database.operation,
            answering=database.holding(RANKING),
        )
        attempt = service.prepare(exchange, database.known)
        assert isinstance(attempt, Source), attempt
        answer, report = await service.best_answer(exchange, attempt)
        assert report is not None
        assert answer.body == expected, f"search {number}"
        (figures,) = report.figures
        assert (figures.collapsed, figures.proven, figures.arrived) == (1, 1, 1)
