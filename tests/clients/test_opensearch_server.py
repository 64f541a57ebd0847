"""The server of the tests answers as OpenSearch and Elasticsearch do: by recorded answers, and by the real servers where they are.

RECORD=1 records what the real servers say. `make java-nodes` builds them.
"""

from __future__ import annotations

import os

import pytest
from servers.opensearch.server import serving
from servers.opensearch.store import Product

from support.opensearch.conformance import cases, differences, record, recorded, replies
from support.process import real_servers

VARIABLES = {Product.OPENSEARCH: real_servers.OPENSEARCH, Product.ELASTICSEARCH: real_servers.ELASTICSEARCH}


@pytest.mark.parametrize("product", Product, ids=lambda product: product.value)
def test_every_answer_is_that_of_the_real_server(product: Product) -> None:
    expected = recorded(product)
    assert list(expected) == [case.name for case in cases(product)]
    with serving(product) as url:
        assert differences(expected, replies(url, product)) == []


@pytest.mark.parametrize("product", Product, ids=lambda product: product.value)
def test_the_real_server_still_answers_so(product: Product) -> None:
    program = real_servers.program(VARIABLES[product])
    if program is None:
        pytest.skip(f"{VARIABLES[product]} names no program")
    with real_servers.search_node(program) as url:
        answers = replies(url, product)
    if os.environ.get("RECORD"):
        record(product, answers)
    assert differences(recorded(product), answers) == []


@pytest.mark.parametrize("product", Product, ids=lambda product: product.value)
def test_an_answer_that_differs_is_noticed(product: Product) -> None:
    expected, name = recorded(product), "near"
    other = expected[name]
    changed = {**expected, name: type(other)(other.status, other.body[:-1])}
    assert differences(expected, changed) == [name]
