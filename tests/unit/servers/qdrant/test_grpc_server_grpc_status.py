"""Refusals as gRPC statuses."""

from __future__ import annotations

import grpc
import pytest
from servers.qdrant.grpc_server import code_of, details_of, trailers_of
from servers.qdrant.limits import RateExceededError

from vecsieve.proxy.demo.embedded import errors
from vecsieve.proxy.demo.embedded.errors import RefusalError


@pytest.mark.parametrize(
    ("refusal", "code"),
    [
        (errors.bad_input("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.bad_request("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.bad_format("x"), grpc.StatusCode.INVALID_ARGUMENT),
        (errors.bad_value("limit", "x"), grpc.StatusCode.INVALID_ARGUMENT),
        (RefusalError(401, "x"), grpc.StatusCode.UNAUTHENTICATED),
        (RefusalError(403, "x"), grpc.StatusCode.PERMISSION_DENIED),
        (errors.no_collection("x"), grpc.StatusCode.NOT_FOUND),
        (errors.conflict("x"), grpc.StatusCode.ALREADY_EXISTS),
        (RefusalError(429, "x"), grpc.StatusCode.RESOURCE_EXHAUSTED),
        (errors.service_error("x"), grpc.StatusCode.INTERNAL),
        (errors.not_served("x"), grpc.StatusCode.UNIMPLEMENTED),
    ],
)
def test_each_kind_of_mistake_has_its_code(refusal: RefusalError, code: grpc.StatusCode) -> None:
    assert code_of(refusal) is code


def test_the_words_are_those_of_rest() -> None:
    assert details_of(errors.no_collection("c")) == "Not found: Collection `c` doesn't exist!"
    assert details_of(errors.bad_input("Format error in JSON body: x")) == "Wrong input: Format error in JSON body: x"


@pytest.mark.parametrize("where", ["JSON body", "path parameters", "query parameters"])
def test_a_message_has_neither_json_nor_path_nor_query(where: str) -> None:
    refusal = errors.bad_value("limit", "value 0 invalid", where=where)
    assert details_of(refusal) == "Validation error in body: [limit: value 0 invalid]"
    assert details_of(errors.bad_format("missing field `limit`")) == "missing field `limit`"


def test_the_time_to_wait_is_a_trailer_and_no_time_is_none() -> None:
    assert trailers_of(RateExceededError("x", 7)) == (("retry-after", "7"),)
    assert trailers_of(RateExceededError("x")) == ()
    assert trailers_of(RefusalError(429, "x")) == ()
