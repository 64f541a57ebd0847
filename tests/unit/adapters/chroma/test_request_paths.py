from __future__ import annotations

import pytest

from vecsieve.adapters.chroma.request import classify, scope
from vecsieve.adapters.contract import Operation, RequestHead

ID = "97050cbe-bbb2-4d9f-b12c-d0f2ce854b7e"
DATABASE = "/api/v2/tenants/default_tenant/databases/default_database"


def named(path: str, *, method: str = "POST", content_type: str = "application/json") -> Operation | None:
    return classify(RequestHead(method=method, path=path, content_type=content_type))


@pytest.mark.parametrize(
    ("path", "collection"),
    [
        (f"{DATABASE}/collections/{ID}/query", f"default_tenant/default_database/{ID}"),
        (f"{DATABASE}/collections/{ID.upper()}/query", f"default_tenant/default_database/{ID}"),
        (f"/api/v2/tenants/a%2Fb/databases/d%20%C3%A9/collections/{ID}/query", f"a/b/d é/{ID}"),
        (f"/api/v1/collections/{ID}/query", ID),
    ],
)
def test_a_query_is_named_with_what_its_path_knows_of_the_collection(path: str, collection: str) -> None:
    assert named(path) == Operation(backend="chroma", name="query", collection=collection, id=ID)


@pytest.mark.parametrize(
    "path",
    [
        f"{DATABASE}/collections/{ID}/search",
        f"{DATABASE}/collections/{ID}/get",
        f"{DATABASE}/collections/{ID}/query/",
        f"/{DATABASE}/collections/{ID}/query",
        f"{DATABASE}/collections/{ID.replace('-', '')}/query",
        f"{DATABASE}/collections/docs/query",
        f"/api/v2/collections/{ID}/query",
        f"/api/v3/collections/{ID}/query",
        f"/api/v2/tenants//databases/d/collections/{ID}/query",
        f"/api/v2/tenants/../databases/d/collections/{ID}/query",
        f"/api/v2/tenants/t/databases/%2E%2e/collections/{ID}/query",
        f"/api/v2/tenants/%ff/databases/d/collections/{ID}/query",
        f"/api/v2/tenants/\ud800/databases/d/collections/{ID}/query",
        "/api/v2/heartbeat",
        "",
    ],
)
def test_everything_else_is_left_alone(path: str) -> None:
    assert named(path) is None


def test_a_query_is_a_post_that_may_be_json() -> None:
    path = f"{DATABASE}/collections/{ID}/query"
    assert named(path, method="GET") is None
    assert named(path, content_type="text/plain") is None
    assert named(path, content_type="") is not None
    assert named(path, content_type="application/json; charset=utf-8") is not None


def test_what_stands_before_a_name_is_decoded_and_empty_where_a_path_names_neither() -> None:
    assert scope("t%20", "d") == "t /d/"
    assert scope(None, None) == scope("t", None) == ""
    assert scope("t", ".") is None
