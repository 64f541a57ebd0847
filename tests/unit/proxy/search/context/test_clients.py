"""Who sent a request."""

from __future__ import annotations

from hashlib import sha256

import pytest

from vecsieve.proxy.search.context.clients import Client, credentials_digest

ADDRESS = "10.0.0.7"


@pytest.mark.parametrize("name", ["api-key", "Api-Key", "X-Api-Key", "X-Chroma-Token", "authorization"])
def test_the_key_is_the_client_wherever_its_database_takes_it(name: str) -> None:
    client = Client.of([("accept", "*/*"), (name, " secret ")], ADDRESS)
    assert client.key == "secret"
    assert client.key_digest() == sha256(b"secret").hexdigest()


def test_the_scheme_of_a_key_does_not_count() -> None:
    assert Client.of([("Authorization", "Bearer secret")], None).place("c") == Client.of(
        [("api-key", "secret")], ADDRESS
    ).place("c")


def test_without_a_key_the_address_is_the_client_and_behind_gateways_the_one_that_they_forward() -> None:
    direct = Client.of([("user-agent", "one")], ADDRESS)
    forwarded = [("x-forwarded-for", f"{ADDRESS}, 192.168.0.1")]
    assert direct.place("c") == Client.of([("user-agent", "two")], ADDRESS).place("c")
    assert direct.place("c") == Client.of(forwarded, "192.168.0.2").place("c")
    assert direct.key_digest() is None
    assert Client.of([], None).place("c") == Client.of([], None).place("c")


def test_places_are_even_and_those_of_another_collection_are_others() -> None:
    clients = [Client(f"key {number}", "") for number in range(2000)]
    places = [client.place("c") for client in clients]
    assert all(0.0 <= place < 1.0 for place in places)
    for share in (0.1, 0.5, 0.9):
        assert abs(sum(place < share for place in places) / len(places) - share) < 0.04
    again = [client.place("other") for client in clients]
    both = sum(one < 0.5 and other < 0.5 for one, other in zip(places, again, strict=True))
    assert 400 < both < 600


def test_a_key_is_never_taken_for_an_address() -> None:
    assert Client(ADDRESS, "").place("c") != Client("", ADDRESS).place("c")


def test_every_credential_divides_and_other_fields_do_not() -> None:
    digest = credentials_digest(b"s", [("api-key", "k")])
    assert digest == credentials_digest(b"s", [("API-KEY", "k"), ("accept", "*/*")])
    others = [[("api-key", "l")], [], [("api-key", "k"), ("x-forwarded-user", "u")], [("api-keyk", "")]]
    assert digest not in {credentials_digest(b"s", other) for other in others}
    assert digest != credentials_digest(b"t", [("api-key", "k")])
