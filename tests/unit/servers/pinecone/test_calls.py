from __future__ import annotations

import pytest
from servers.pinecone.calls import OLDEST, Call, has_documents, plain, speaks_schema, transcoded, version_of
from servers.pinecone.errors import RefusalError


def test_no_body_is_an_empty_object() -> None:
    assert Call(version="2026-04", body=b" \n").json() == {}


@pytest.mark.parametrize("body", [b"{", b"[]", b"1", b'{"a":NaN}', b"\xff"])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(RefusalError) as caught:
        Call(version="2026-04", body=body).json()
    assert caught.value.code.status == 400


def test_the_first_value_of_a_parameter_counts_under_any_of_its_names() -> None:
    call = Call(version="2026-04", query=(("pagination_token", "a"), ("paginationToken", "b")))
    assert call.asked("paginationToken", "pagination_token") == "a"
    assert call.asked("limit") is None


def test_only_gRPC_answers_carry_a_grpc_status() -> None:
    assert transcoded({}, {"x": "1"}).headers == {"grpc-status": "0", "x": "1"}
    assert plain({}, {"x": "1"}, status=201).headers == {"x": "1"}
    assert plain({}, status=201).status == 201


@pytest.mark.parametrize(
    ("sent", "version"),
    [
        ([], OLDEST),
        (["2025-10"], "2025-10"),
        (["2025-10", "2025-10"], "2025-10"),
        (["2025-10, 2025-10"], "2025-10"),
        (["2026-01.alpha"], "2026-01.alpha"),
        (["unstable"], OLDEST),
        ([""], OLDEST),
    ],
)
def test_a_request_speaks_the_first_version_it_names_and_the_oldest_when_it_names_none(
    sent: list[str], version: str
) -> None:
    assert version_of(sent) == version


@pytest.mark.parametrize(
    ("version", "has"),
    [("2025-10", False), ("2026-01.alpha", True), ("2026-04", False), ("2026-07", True), ("2027-01", True)],
)
def test_documents_came_in_an_alpha_went_and_came_back(version: str, *, has: bool) -> None:
    assert has_documents(version) is has
    assert speaks_schema(version) is has
