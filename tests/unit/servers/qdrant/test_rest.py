"""REST as the real server speaks it: the key, what an answer is compressed into, and strict bodies."""

from __future__ import annotations

import asyncio
import gzip
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from servers.embedded.fields import RefusalError
from servers.embedded.rest import find_verb
from servers.qdrant import catalogue, searches
from servers.qdrant.rest import ALL_ROUTES, allows_gzip, gzipped, read_strictly, refused_key

from support.qdrant.embedded import Exchange, embedded_server, exchange

KIND = "application/json"


async def asked(url: str, *request: Any, **options: Any) -> Exchange:
    return await asyncio.to_thread(exchange, url, *request, **options)


@pytest.mark.parametrize(
    ("method", "path", "verb", "values"),
    [
        ("POST", "/collections/aliases", catalogue.change_aliases, {}),
        ("PUT", "/collections/aliases", catalogue.create, {"collection": "aliases"}),
        ("POST", "/collections/a/points/query/groups", searches.query_groups, {"collection": "a"}),
    ],
)
def test_a_path_finds_its_verb(method: str, path: str, verb: object, values: dict[str, str]) -> None:
    assert find_verb(ALL_ROUTES, method, path) == (verb, values)


async def test_the_key_opens_everything_and_health_needs_none() -> None:
    async with embedded_server(api_key="s3cret") as server:
        missing = await asked(server.url, "GET", "/collections")
        wrong = await asked(server.url, "GET", "/collections", headers={"api-key": "other"})
        assert (missing.status, missing.body) == (401, b"Must provide an API key or an Authorization bearer token")
        assert (wrong.status, wrong.body) == (401, b"Invalid API key or JWT")
        for headers in ({"api-key": "s3cret"}, {"Authorization": "Bearer s3cret"}):
            assert (await asked(server.url, "GET", "/collections", headers=headers)).status == 200
        for path in ("/", "/healthz", "/readyz", "/livez"):
            assert (await asked(server.url, "GET", path)).status == 200
        assert (await asked(server.url, "GET", "/metrics")).status == 401


@pytest.mark.parametrize("raw", [b'{"a":1,"a":1}', b'[{"b":{"a":1,"a":2}}]'])
def test_a_field_written_twice_is_refused_at_any_depth(raw: bytes) -> None:
    with pytest.raises(RefusalError, match="duplicate field `a`"):
        read_strictly(raw, KIND)


@pytest.mark.parametrize("member", ["payload", "payloads", "metadata", "defaults"])
def test_inside_a_map_the_last_of_two_equal_keys_stays(member: str) -> None:
    raw = f'{{"{member}":{{"a":1,"a":2}}}}'.encode()
    assert read_strictly(raw, KIND) == {member: {"a": 2}}


@given(st.binary(max_size=4000))
def test_what_was_compressed_comes_back(body: bytes) -> None:
    """Any standard reader of gzip recovers the bytes."""
    assert gzip.decompress(gzipped(body)) == body


@given(st.text(max_size=40))
def test_no_header_value_is_an_error(value: str) -> None:
    """Every text is an answer, and a text without gzip and star is a no."""
    allowed = allows_gzip(value)
    if "gzip" not in value.lower() and "*" not in value:
        assert not allowed


@pytest.mark.parametrize(
    ("header", "allowed"),
    [
        (None, False),
        ("", False),
        ("identity", False),
        ("gzip", True),
        ("GZIP", True),
        ("gzip, deflate, br", True),
        ("br, gzip ; q=0.1", True),
        ("gzip;q=0", False),
        ("gzip;q=0.0, *", False),
        ("*", True),
        ("*;q=0", False),
        ("gzip;q=x", False),
    ],
)
def test_gzip_is_used_when_the_client_takes_it(header: str | None, *, allowed: bool) -> None:
    assert allows_gzip(header) is allowed


@pytest.mark.parametrize(
    "headers", [{"api-key": "k"}, {"authorization": "Bearer k"}, {"authorization": "bearer k", "api-key": ""}]
)
def test_the_key_opens_wherever_it_stands(headers: dict[str, str]) -> None:
    assert refused_key(headers, "k") is None


def test_without_a_key_to_ask_for_nothing_is_refused() -> None:
    assert refused_key({}, None) is None
    assert refused_key({"api-key": "any"}, None) is None


@pytest.mark.parametrize("headers", [{}, {"api-key": ""}, {"authorization": "Basic k"}])
def test_a_missing_key_is_told_apart_from_a_wrong_one(headers: dict[str, str]) -> None:
    assert refused_key(headers, "k") == "Must provide an API key or an Authorization bearer token"
    assert refused_key({"api-key": "ö"}, "k") == "Invalid API key or JWT"
