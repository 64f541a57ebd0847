"""The recorded searches of a real client, and an emulator's answers to them, where they are on this machine."""

from __future__ import annotations

import base64
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.backends.transports import operation_of, reason_of
from support.exchanges.captures import SHARED_FOLDER
from support.weaviate.conversations import PATH
from support.weaviate.messages import message_type
from vecsieve.adapters.contract import Needs, Reason, RequestHead, SearchCall
from vecsieve.adapters.weaviate.grpc import WeaviateGrpc

ADAPTER = WeaviateGrpc()
FOLDER = Path(os.environ.get("VECSIEVE_CAPTURES", SHARED_FOLDER)) / "weaviate"
RECORDED: dict[str, dict[str, Any]] = {
    file.stem[4:].removesuffix("_GRPC_Search"): json.loads(file.read_bytes())
    for file in sorted(FOLDER.glob("*_GRPC_Search.json"))
}
# What is left alone, and why.
ALONE = {
    "near_vector_offset": Reason.ORDERING_CHOSEN,  # with autocut
    "fetch_objects": Reason.ORDERING_CHOSEN,
    "group_by": Reason.ORDERING_CHOSEN,
    "mmr": Reason.ORDERING_CHOSEN,
    "multi_target": Reason.UNSUPPORTED_FIELD,
}
OURS = sorted(RECORDED.keys() - ALONE.keys())
NEEDS_RECORDINGS = pytest.mark.skipif(
    not RECORDED and not {"REQUIRE_CAPTURES", "REQUIRE_EVAL_DATA"} & os.environ.keys(),
    reason="no recorded searches here: name their folder in VECSIEVE_CAPTURES",
)
pytestmark = NEEDS_RECORDINGS


def request(label: str) -> bytes:
    return base64.b64decode(RECORDED[label]["request_b64"])


def parsed(label: str) -> SearchCall:
    body = request(label)
    operation = operation_of(ADAPTER, RequestHead(method="POST", path=PATH, message=body))
    assert operation.collection == "Docs"
    return ADAPTER.parse_request(operation, body, Needs(known=10))


def test_every_kind_of_search_was_recorded() -> None:
    assert len(RECORDED) == 15
    assert len(OURS) == 10


@pytest.mark.parametrize("label", sorted(ALONE))
def test_what_is_not_ours_is_left_alone(label: str) -> None:
    assert reason_of(parsed, label) is ALONE[label]


@pytest.mark.parametrize("label", OURS)
def test_a_recorded_search_is_widened_behind_its_own_bytes(label: str) -> None:
    call, original = parsed(label), message_type("SearchRequest").FromString(request(label))
    wide = ADAPTER.widen(call, [50])
    assert wide.startswith(request(label))
    read = message_type("SearchRequest").FromString(wide)
    assert (call.searches[0].top_k, read.limit, read.metadata.uuid) == (original.limit or 10, 50, True)
    assert read.metadata.vector or list(read.metadata.vectors) == ["default"]
    for message in (original, read):
        message.ClearField("limit")
        message.ClearField("metadata")
    assert read == original


@pytest.mark.parametrize("label", OURS)
def test_a_recorded_answer_is_read_and_some_of_it_is_cut_out(label: str) -> None:
    call, body = parsed(label), base64.b64decode(RECORDED[label]["response_b64"])
    reply = ADAPTER.parse_reply(call, body)
    results = message_type("SearchReply").FromString(body).results
    assert [json.loads(identifier) for identifier in reply.pools[0].ids] == [result.metadata.id for result in results]
    cut = message_type("SearchReply").FromString(ADAPTER.trim(call, reply, [np.array([0, 2])]))
    assert [result.properties for result in cut.results] == [results[0].properties, results[2].properties]
    assert cut.HasField("generative_grouped_result")


def test_vectors_that_the_client_wants_come_back_as_they_came() -> None:
    call, body = parsed("near_vector_vec"), base64.b64decode(RECORDED["near_vector_vec"]["response_b64"])
    reply = ADAPTER.parse_reply(call, body)
    assert reply.pools[0].vectors.shape == (3, 4)
    assert reply.pools[0].compared_by == "default"
    assert ADAPTER.trim(call, reply, [np.arange(3)]) == body
