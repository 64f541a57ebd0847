"""Policy `per_retriever` over Milvus Lite: a hybrid search is divided into its searches, and fused again as Lite fuses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from support import hybrid_requests, milvus_server
from support.hybrid_requests import ask, request
from support.milvus_server import NEEDS_MILVUS, NEEDS_TWO_VECTORS
from support.stack import exchange, serve

pytestmark = [NEEDS_MILVUS, NEEDS_TWO_VECTORS]

NUMBERS = [pytest.param(number, marks=[] if number < 12 else [pytest.mark.deep]) for number in range(1000)]


@pytest.fixture(scope="module")
def direct() -> Iterator[str]:
    with milvus_server.started() as url:
        hybrid_requests.load(url, "clean", copies=1)
        hybrid_requests.load(url, "words", copies=1, words=True)
        hybrid_requests.load(url, "copied", copies=hybrid_requests.COPIES)
        yield url


@pytest.fixture(scope="module")
def proxy(direct: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    file: Path = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text("policy: {per_retriever: true}\n")
    with serve(direct, "--backend", "milvus", "--mode", "on", "--config", str(file)) as urls:
        yield urls


def counted(admin: str) -> dict[str, float]:
    """How often each result of a fusion was counted."""
    lines = exchange(admin, "GET", "/metrics").body.decode().splitlines()
    found = [line for line in lines if line.startswith("vecsieve_fusions_total{")]
    return {line.split('result="')[1].split('"')[0]: float(line.rsplit(" ", 1)[1]) for line in found}


@pytest.mark.parametrize("number", NUMBERS)
def test_without_copies_the_answer_is_the_databases_own(direct: str, proxy: tuple[str, str], number: int) -> None:
    asked, name = request(number), "words" if number % 3 == 0 else "clean"
    assert ask(proxy[0], name, asked) == ask(direct, name, asked)


def test_all_of_those_requests_are_divided_whose_scores_are_known(direct: str, proxy: tuple[str, str]) -> None:
    before = counted(proxy[1])
    for number in range(12):
        ask(proxy[0], "clean", request(number))
    after = counted(proxy[1])
    exact = sum(request(number).is_exact for number in range(12))
    assert {name: after[name] - before[name] for name in ("divided", "inexact")} == {
        "divided": exact,
        "inexact": 12 - exact,
    }


@pytest.mark.parametrize("number", range(6))
def test_copies_take_no_rank_and_no_place(direct: str, proxy: tuple[str, str], number: int) -> None:
    drawn = request(number)
    parts = tuple((field, vector, 40, "", True) for field, vector, *_ in drawn.parts)
    asked = replace(drawn, parts=parts, limit=6, offset=0, fields=["family"], weights=None)
    page, own = ask(proxy[0], "copied", asked), ask(direct, "copied", asked, everything=True)
    families = [hit["entity"]["family"] for hit in page]
    assert len(set(families)) == len(families) == 6
    assert len({hit["entity"]["family"] for hit in own[:6]}) < 6
    ranks: dict[int, float] = {}
    for part in asked.parts:  # the first of each family ranks as if the others were not there
        alone = ask(direct, "copied", replace(asked, parts=(part,)), everything=True)
        first: dict[int, int] = {}
        for hit in alone:
            first.setdefault(hit["entity"]["family"], hit["id"])
        for rank, identity in enumerate(first.values(), start=1):
            ranks[identity] = ranks.get(identity, 0.0) + 1 / (asked.k + rank)
    assert {hit["id"]: hit["distance"] for hit in page} == pytest.approx(
        {hit["id"]: ranks[hit["id"]] for hit in page}, rel=1e-6
    )
    assert page[0]["distance"] == pytest.approx(max(ranks.values()), rel=1e-6)


def test_pages_repeat_no_family(proxy: tuple[str, str]) -> None:
    parts = tuple((field, [0.5] * hybrid_requests.DIMENSION, 40, "", True) for field in ("text", "sound"))
    asked = replace(request(1), parts=parts, weights=None, k=60, limit=3, fields=["family"])
    pages = [ask(proxy[0], "copied", replace(asked, offset=offset)) for offset in (0, 3, 6)]
    seen = [hit["entity"]["family"] for page in pages for hit in page]
    assert len(seen) == len(set(seen)) == 9
