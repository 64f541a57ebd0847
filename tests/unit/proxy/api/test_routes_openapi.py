from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from prometheus_client import CollectorRegistry

from support.network.api import served
from vecsieve.config.applications import ApiSettings
from vecsieve.proxy.api.points import Statistics
from vecsieve.proxy.api.problems import Kind
from vecsieve.proxy.api.routes import described, routes_of
from vecsieve.proxy.writes.events import Feed

FEED = Feed(now=lambda: 0.0, dropped=lambda _sink, _count: None)
ROUTES = routes_of(ApiSettings(), statistics=Statistics(CollectorRegistry(), None), feed=FEED)


def document(*, needs_token: bool = False) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(described(ROUTES, needs_token=needs_token))
    return content


def references(node: object) -> list[str]:
    if isinstance(node, dict):
        direct = [node["$ref"]] if "$ref" in node else []
        return direct + [reference for value in node.values() for reference in references(value)]
    return [reference for value in node for reference in references(value)] if isinstance(node, list) else []


def test_every_endpoint_is_described_with_its_method() -> None:
    paths = document()["paths"]
    assert {path: list(methods) for path, methods in paths.items()} == {
        route.path: [route.method.lower()] for route in ROUTES
    }


def test_a_feed_is_described_by_the_type_of_its_events_and_a_query_by_its_parameters() -> None:
    paths = document()["paths"]
    (form,) = paths["/v1/events"]["get"]["responses"]["200"]["content"].items()
    assert form == ("text/event-stream", {"schema": {"$ref": "#/components/schemas/Event"}})
    assert "406" in paths["/v1/events"]["get"]["responses"]
    assert [parameter["name"] for parameter in paths["/v1/stats"]["get"]["parameters"]] == ["collection"]


def test_every_reference_leads_to_something() -> None:
    schema = document()
    for reference in references(schema):
        node = schema
        for part in reference.removeprefix("#/").split("/"):
            node = node[part]
        assert node


def test_every_schema_is_one() -> None:
    for schema in document()["components"]["schemas"].values():
        jsonschema.Draft202012Validator.check_schema(schema)


@pytest.mark.parametrize("kind", Kind)
def test_every_problem_is_described(kind: Kind) -> None:
    assert "application/problem+json" in document()["components"]["responses"][kind.name]["content"]


def test_a_token_is_asked_for_where_there_is_one() -> None:
    assert "security" not in document()
    assert document(needs_token=True)["security"] == [{"token": []}]


async def test_the_document_is_published_and_describes_itself() -> None:
    async with served() as api:
        published = (await api.client.get("/openapi.json")).json()
        assert published["openapi"] == "3.1.0"
        assert published["paths"].keys() == {"/openapi.json", *(route.path for route in routes_of(ApiSettings()))}


async def test_health_says_that_it_answers() -> None:
    async with served() as api:
        assert (await api.client.get("/health")).json()["status"] == "ok"


def test_every_problem_has_an_explanation_at_the_address_of_its_type() -> None:
    page = (Path(__file__).parents[4] / "docs" / "api.md").read_text()
    for kind in Kind:
        assert f'<a id="{kind.value[0]}"></a>`#{kind.value[0]}` | {kind.status} |' in page
