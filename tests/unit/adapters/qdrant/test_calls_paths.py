from __future__ import annotations

import pytest

from vecsieve.adapters.contract import Operation, RequestHead
from vecsieve.adapters.qdrant.calls import ROUTES, classify_rest


def named(path: str, *, method: str = "POST", content_type: str = "application/json") -> Operation | None:
    return classify_rest(RequestHead(method=method, path=path, content_type=content_type))


@pytest.mark.parametrize(("route", "name"), list(ROUTES.items()))
def test_each_search_endpoint_is_named(route: tuple[str, ...], name: str) -> None:
    expected = Operation(backend="qdrant", name=name, collection="docs")
    assert named("/collections/docs/points/" + "/".join(route)) == expected


def test_slashes_are_merged_and_trailing_ones_dropped_as_the_server_does() -> None:
    operation = named("//collections///docs//points/search//")
    assert operation == Operation(backend="qdrant", name="search", collection="docs")


@pytest.mark.parametrize(
    ("segment", "collection"),
    [
        ("my%20col%2F%C3%A9", "my col/é"),
        ("a+b", "a+b"),
        ("größe", "größe"),
        ("points", "points"),
        ("..", ".."),
        ("%", "%"),
    ],
)
def test_a_collections_name_is_split_off_before_it_is_decoded(segment: str, collection: str) -> None:
    operation = named(f"/collections/{segment}/points/query")
    assert operation is not None
    assert operation.collection == collection


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/",
        "collections/docs/points/search",
        "/collections/docs/points",
        "/collections/docs/points/scroll",
        "/collections/docs/points/count",
        "/collections/docs/points/query/groups",
        "/collections/docs/points/search/groups",
        "/collections/docs/points/recommend/groups",
        "/collections/docs/points/search/matrix/pairs",
        "/collections/docs/points/search/matrix/offsets",
        "/collections/docs/points/query/batch/more",
        "/collections/docs/facet",
        "/collections/docs/shards/1/points/scroll",
        "/collections/docs/shards/1/points/query",
        "/collections//points/query",
        "/prefix/collections/docs/points/query",
        "/Collections/docs/points/query",
        "/collections/docs/points/QUERY",
        "/collections/docs%2Fpoints/query",
        "/collections/%ff/points/query",
        "/collections/\ud800/points/query",
    ],
)
def test_everything_else_goes_through(path: str) -> None:
    assert named(path) is None


@pytest.mark.parametrize(
    "content_type", ["", "application/json", "Application/JSON; charset=utf-8", "application/vnd.api+json"]
)
def test_json_and_unstated_content_types_are_taken(content_type: str) -> None:
    assert named("/collections/docs/points/search", content_type=content_type) is not None


@pytest.mark.parametrize("content_type", ["text/plain", "application/jsonx", "application/x-ndjson", ";", "json"])
def test_other_content_types_go_through(content_type: str) -> None:
    assert (named("/collections/docs/points/search", content_type=content_type) is None) == (content_type != ";")
