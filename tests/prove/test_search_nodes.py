"""The comparison of `_search` requests notices what it is for, and finds nothing on the server of the tests."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from servers.opensearch.store import Product

from prove.search_nodes import Answered, Connection, Totals, judge, started, tallied
from prove.search_requests import COPIED, JSON, Drawn, near

REQUESTS = 120


@pytest.mark.parametrize("product", Product, ids=lambda product: product.value)
def test_no_request_of_a_hundred_differs(product: Product) -> None:
    with tallied(product, seed=11, count=REQUESTS) as (_, totals):
        assert totals.made == REQUESTS
    assert totals.changed > 0
    assert totals.faults == {"off": [], "shadow": [], "on": []}


QUERY = {"query": {"knn": {"v": {"vector": near(random.Random(1)), "k": 20}}}, "size": 5, "_source": ["n"]}
REQUEST = Drawn("POST", f"/{COPIED}/_search", json.dumps(QUERY).encode(), JSON, ((COPIED, QUERY),))


def faults_of(mode: str, change: Any) -> list[str]:
    """What is said of the server's own answer, changed."""
    with started(Product.OPENSEARCH, is_real=False) as url:
        direct = Connection(url)
        reference = direct.ask(REQUEST.method, REQUEST.target, REQUEST.body, REQUEST.kind)
        body = json.loads(reference.whole)
        status = change(body)
        whole = json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
        answer = Answered(status or reference.status, reference.headers, whole, "")
        fault = judge(direct, REQUEST, reference, answer, mode, Totals())
        direct.close()
    return [fault] if fault else []


def test_an_unchanged_answer_has_no_fault() -> None:
    assert faults_of("on", lambda body: None) == []


@pytest.mark.parametrize(
    ("mode", "change", "word"),
    [
        ("off", lambda body: body["hits"]["hits"].pop() and None, "became"),
        ("shadow", lambda body: 500, "status"),
        ("on", lambda body: body["hits"]["hits"].pop() and None, "results, directly"),
        ("on", lambda body: body["hits"]["hits"][0]["_source"].update(n=-1), "does not give"),
        ("on", lambda body: body["hits"]["hits"].reverse(), "order"),
        ("on", lambda body: body.update(timed_out=True), "around the hits"),
        ("on", lambda body: body["hits"]["hits"][0]["_source"].update(text="added"), "does not give"),
    ],
)
def test_every_other_is_found_out(mode: str, change: Any, word: str) -> None:
    (fault,) = faults_of(mode, change)
    assert word in fault


def test_a_page_with_copies_is_found_out() -> None:
    def doubled(body: Any) -> None:
        body["hits"]["hits"][-1] = {**body["hits"]["hits"][0], "_score": body["hits"]["hits"][-1]["_score"]}

    (fault,) = faults_of("on", doubled)
    assert "copies" in fault
