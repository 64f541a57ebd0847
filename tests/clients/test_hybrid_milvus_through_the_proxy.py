"""Policy `per_retriever` over Milvus Lite, by gRPC and by REST in front of it: a hybrid search is divided into its searches, and fused again
as Lite fuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from servers.milvus import rest

from support.deploy.expositions import counts
from support.milvus import hybrid_requests
from support.milvus import server as milvus_server
from support.milvus.hybrid_requests import HybridRequest, ask, ask_over_rest, request
from support.milvus.server import NEEDS_MILVUS, NEEDS_TWO_VECTORS
from support.process.stack import serve

pytestmark = [NEEDS_MILVUS, NEEDS_TWO_VECTORS]

NUMBERS = [pytest.param(number, marks=[] if number < 12 else [pytest.mark.deep]) for number in range(1000)]


class Searches(NamedTuple):
    """One transport. ``specific`` and ``through``: a request to the database, and through the proxy; ``admin``: of the proxy."""

    transport: str
    specific: Callable[..., list[dict[str, Any]]]
    through: Callable[..., list[dict[str, Any]]]
    admin: str

    def is_divided(self, search: HybridRequest) -> bool:
        """Over REST metrics come from the description of the collection, and an offset is passed through."""
        return search.is_exact if self.transport == "grpc" else not search.offset


@pytest.fixture(scope="module")
def engine() -> Iterator[str]:
    with milvus_server.started() as url:
        hybrid_requests.load(url, "clean", copies=1)
        hybrid_requests.load(url, "words", copies=1, words=True)
        hybrid_requests.load(url, "copied", copies=hybrid_requests.COPIES)
        yield url


@pytest.fixture(scope="module", params=["grpc", "rest"])
def searches(
    request: pytest.FixtureRequest, engine: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Searches]:
    file: Path = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text("policy: {per_retriever: true}\n")
    options = ("--backend", "milvus", "--mode", "on", "--config", str(file))
    over, front = (ask, nullcontext(engine)) if request.param == "grpc" else (ask_over_rest, rest.serving(engine))
    with front as direct, serve(direct, *options) as (url, admin):
        yield Searches(request.param, partial(over, direct), partial(over, url), admin)


@pytest.mark.parametrize("number", NUMBERS)
def test_without_copies_the_answer_is_the_databases_own(searches: Searches, number: int) -> None:
    search, name = request(number), "words" if number % 3 == 0 else "clean"
    assert searches.through(name, search) == searches.specific(name, search)


def test_all_of_those_requests_are_divided_whose_scores_are_known(searches: Searches) -> None:
    before = counts(searches.admin, "fusions_total", "result")
    for number in range(12):
        searches.through("clean", request(number))
    after = counts(searches.admin, "fusions_total", "result")
    divided = sum(searches.is_divided(request(number)) for number in range(12))
    assert after["divided"] - before["divided"] == divided
    assert after["inexact"] - before["inexact"] == (12 - divided if searches.transport == "grpc" else 0)
    assert sum(after.values()) - sum(before.values()) == (12 if searches.transport == "grpc" else divided)


@pytest.mark.parametrize("number", range(6))
def test_copies_take_no_rank_and_no_place(searches: Searches, number: int) -> None:
    drawn = request(number)
    parts = tuple((field, vector, 40, "", True) for field, vector, *_ in drawn.parts)
    search = replace(drawn, parts=parts, limit=6, offset=0, fields=["family"], weights=None)
    page, ranking = searches.through("copied", search), searches.specific("copied", search, everything=True)
    families = [hit["entity"]["family"] for hit in page]
    assert len(set(families)) == len(families) == 6
    assert len({hit["entity"]["family"] for hit in ranking[:6]}) < 6
    ranks: dict[object, float] = {}
    for part in search.parts:  # the first of each family ranks as if the others were not there
        alone = searches.specific("copied", replace(search, parts=(part,)), everything=True)
        first: dict[object, object] = {}
        for hit in alone:
            first.setdefault(hit["entity"]["family"], hit["id"])
        for rank, identity in enumerate(first.values(), start=1):
            ranks[identity] = ranks.get(identity, 0.0) + 1 / (search.k + rank)
    assert {hit["id"]: hit["distance"] for hit in page} == pytest.approx(
        {hit["id"]: ranks[hit["id"]] for hit in page}, rel=1e-6
    )
    assert page[0]["distance"] == pytest.approx(max(ranks.values()), rel=1e-6)


def test_pages_repeat_no_family(searches: Searches) -> None:
    if searches.transport == "rest":
        pytest.skip("a page with an offset is passed through")
    parts = tuple((field, [0.5] * hybrid_requests.DIMENSION, 40, "", True) for field in ("text", "sound"))
    search = replace(request(1), parts=parts, weights=None, k=60, limit=3, fields=["family"])
    pages = [searches.through("copied", replace(search, offset=offset)) for offset in (0, 3, 6)]
    seen = [hit["entity"]["family"] for page in pages for hit in page]
    assert len(seen) == len(set(seen)) == 9
