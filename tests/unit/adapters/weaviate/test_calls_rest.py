from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from support.backends.transports import REST
from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.weaviate.calls import WeaviateRest

ADAPTER = WeaviateRest()
OPERATION = Operation(backend="weaviate", name="search", collection="Docs")


@given(method=st.sampled_from(["GET", "POST", "PUT"]), path=st.text(max_size=40))
def test_nothing_over_http_is_a_search_of_ours(method: str, path: str) -> None:
    """Whatever the head, it is passed through."""
    assert ADAPTER.classify(RequestHead(method=method, path=path, content_type="application/json")) is None


def test_graphql_and_objects_are_passed_through() -> None:
    adapter = REST["weaviate"].adapter()
    assert isinstance(adapter, WeaviateRest)
    for path in ("/v1/graphql", "/v1/objects", "/v1/schema", "/v1/meta"):
        assert adapter.classify(RequestHead(method="POST", path=path, content_type="application/json")) is None
