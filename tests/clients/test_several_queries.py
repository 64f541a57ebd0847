"""A batch whose lists are told from one another, for every database that takes several queries, by its own client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.backends.surrounded import DATABASES, PARAMETERS, Ask

LIMIT = 4
ACROSS = {"x-vecsieve-across": "batch"}
SEEDS = [1, 1, 2]


@pytest.fixture(scope="module", params=PARAMETERS[:4])
def searches(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ask, Ask]]:
    """The proxy and the database, each as its client sees it."""
    file: Path = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text("policy: {fetch: {floor: 64}}\n")  # a list fills from its own pool
    with DATABASES[request.param](file) as both:
        yield both


def test_what_one_list_has_shown_later_lists_do_not(searches: tuple[Ask, Ask]) -> None:
    proxy, database = searches
    plain, filtered = proxy(SEEDS, LIMIT, {}), proxy(SEEDS, LIMIT, ACROSS)
    texts = [text for rows in filtered for _, text in rows if text]
    assert len(texts) == len(set(texts)), "a copy in other lists is no news either"
    assert [len(rows) for rows in filtered] == [LIMIT] * len(SEEDS)
    assert filtered[0] == plain[0]
    assert plain[0] == plain[1], "without the header the same question has the same answer"
    for rows, everything in zip(filtered, database(SEEDS, 60, {}), strict=True):
        places = [everything.index(row) for row in rows]
        assert places == sorted(places), "the database's own rows in its order"


def test_the_same_batch_has_the_same_answer(searches: tuple[Ask, Ask]) -> None:
    assert searches[0](SEEDS, LIMIT, ACROSS) == searches[0](SEEDS, LIMIT, ACROSS)


def test_one_list_is_as_without_the_header(searches: tuple[Ask, Ask]) -> None:
    assert searches[0]([3], LIMIT, ACROSS) == searches[0]([3], LIMIT, {})
