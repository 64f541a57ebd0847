"""What Weaviate's own server says where its operator chose other limits, or wants a key: its words, not an emulator's.

Needs the program that WEAVIATE_SERVER names (`make real-servers`).
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from support.grpc.calls import Pairs, Seen
from support.process import real_servers
from support.process.stack import exchange
from support.weaviate.conversations import search
from support.weaviate.front import Place, answered, direct, fronted
from support.weaviate.messages import message_type, packed, single
from support.weaviate.replies import settled

PROGRAM = real_servers.program(real_servers.WEAVIATE)
pytestmark = pytest.mark.skipif(PROGRAM is None, reason="WEAVIATE_SERVER names no program of Weaviate's server")

SEED, MANY = 3, 600
FAMILIES = DIMENSION = 16
COPIES = 3
KEY = "Bearer sesame"
WITH_KEYS = {
    "AUTHENTICATION_ANONYMOUS_ACCESS_ENABLED": "false",
    "AUTHENTICATION_APIKEY_ENABLED": "true",
    "AUTHENTICATION_APIKEY_ALLOWED_KEYS": "sesame",
    "AUTHENTICATION_APIKEY_USERS": "somebody",
}


@contextmanager
def both(settings: Mapping[str, str], key: str = "") -> Iterator[tuple[Place, Place]]:
    """The server, filled, and the proxy before it in mode on."""
    assert PROGRAM is not None
    with real_servers.weaviate(PROGRAM, settings) as server, fronted(server, "on") as on:
        headers = {"Authorization": key} if key else {}
        made = exchange(server.url, "POST", "/v1/schema", b'{"class":"Copied","vectorizer":"none"}', headers)
        assert made.status == 200, made.body
        batch = message_type("BatchObjectsRequest")()
        for family in range(FAMILIES):
            for copy in range(COPIES):
                vector = [0.001 * copy * ((family * 7 + place) % 5) for place in range(DIMENSION)]
                vector[family] += 1.0
                identifier = f"00000000-0000-0000-0000-{family:08}{copy:04}"
                batch.objects.add(uuid=identifier, collection="Copied", vector_bytes=packed(vector))
        store(direct(server), batch, key)
        yield direct(server), on


def store(place: Place, batch: Any, key: str = "") -> None:
    filling, path = [batch.SerializeToString()], "/weaviate.v1.Weaviate/BatchObjects"
    (stored,) = answered(place, filling, bearing(key), path=path)
    assert stored.code is grpc.StatusCode.OK, stored.details


def bearing(key: str) -> Pairs:
    return (("authorization", key),) if key else ()


def answer(place: Place, key: str = "", **fields: object) -> Seen:
    near = {"vectors": [single([0.9**place for place in range(DIMENSION)])]}
    message = search(collection="Copied", near_vector=near, metadata={"uuid": True}, **fields)
    (seen,) = answered(place, [message], bearing(key))
    return seen


def families(seen: Seen) -> list[str]:
    assert seen.code is grpc.StatusCode.OK, seen.details
    return [result.metadata.id[:-4] for result in message_type("SearchReply").FromString(seen.messages[0]).results]


def test_a_search_without_a_limit_is_as_long_as_the_operator_chose() -> None:
    with both({"QUERY_DEFAULTS_LIMIT": "12"}) as (server, on):
        assert len(families(answer(server))) == 12
        assert len(set(families(answer(on)))) == 12


def test_a_search_without_a_limit_is_left_alone_where_the_operator_chose_less_than_the_servers_own() -> None:
    with both({"QUERY_DEFAULTS_LIMIT": "5"}) as (server, on):
        assert families(answer(on)) == families(answer(server))


@pytest.mark.parametrize("fusion", [1, 2], ids=["ranked", "relative score"])
def test_a_hybrid_search_of_many_objects_has_the_scores_of_a_direct_one(fusion: int, many: tuple[Place, Place]) -> None:
    """The server fuses the first 100 of each part, however few are asked for; asked for more, it would fuse more."""
    server, on = many
    hybrid = {
        "query": "common wordaa wordbb",
        "alpha_param": 0.5,
        "use_alpha_param": True,
        "fusion_type": fusion,
        "vectors": [single(random_vector(random.Random(SEED + 1)))],
    }
    message = search(collection="Many", hybrid_search=hybrid, metadata={"uuid": True, "score": True}, limit=6)
    (original,), (made,) = answered(server, [message]), answered(on, [message])
    assert settled(made).messages == settled(original).messages
    assert "pool=" in dict(made.initial).get("x-vecsieve", "")


@pytest.fixture(scope="module")
def many() -> Iterator[tuple[Place, Place]]:
    """More objects than a hybrid search fuses, no two alike."""
    rng = random.Random(SEED)
    with both({}) as (server, on):
        batch = message_type("BatchObjectsRequest")()
        for number in range(MANY):
            vector, identifier = random_vector(rng), f"00000000-0000-0000-0001-{number:012}"
            made = batch.objects.add(uuid=identifier, collection="Many", vector_bytes=packed(vector))
            made.properties.non_ref_properties.update({"text": random_text(rng)})
        store(server, batch)
        yield server, on


def random_vector(rng: random.Random) -> list[float]:
    return [rng.gauss(0, 1) for _ in range(32)]


def random_text(rng: random.Random) -> str:
    words = [f"word{first}{second}" for first in string.ascii_lowercase for second in string.ascii_lowercase]
    return " ".join([*rng.choices(words, k=rng.randint(5, 30)), *["common"] * rng.randint(1, 3)])


def test_the_largest_window_is_learned_from_the_servers_refusal() -> None:
    with both({"QUERY_MAXIMUM_RESULTS": "20"}) as (server, on):
        refused = answer(server, limit=15, offset=10)
        assert "QUERY_MAXIMUM_RESULTS '20'" in refused.details
        assert answer(on, limit=15, offset=10) == refused
        answer(on, limit=6)
        assert len(set(families(answer(on, limit=6)))) == 6


def test_a_search_without_a_key_is_refused_in_the_servers_words_and_one_with_a_key_is_made_distinct() -> None:
    with both(WITH_KEYS, KEY) as (server, on):
        for key in ("", "Bearer wrong"):
            refused = answer(server, key, limit=6)
            assert refused.code is not grpc.StatusCode.OK
            assert answer(on, key, limit=6) == refused
        assert len(set(families(answer(server, KEY, limit=6)))) < 6
        assert len(set(families(answer(on, KEY, limit=6)))) == 6
