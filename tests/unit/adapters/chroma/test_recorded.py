"""The recorded exchanges of real clients with a real server."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

from support.chroma.captures import NEEDS_EXCHANGES, Exchanged, exchanges
from vecsieve.adapters.chroma.rest import ChromaRest
from vecsieve.adapters.contract import Needs, Operation, Reason, RequestHead, SearchCall, UnsupportedError

RECORDED = exchanges()
ADAPTER = ChromaRest()
TEXT = Needs(optional_fields=("#document", "text"))


def named(exchanged: Exchanged) -> Operation | None:
    request = exchanged.request
    return ADAPTER.classify(RequestHead(method=request.method, path=request.path, content_type=request.content_type))


def read(exchanged: Exchanged, needs: Needs) -> SearchCall:
    operation = named(exchanged)
    assert operation is not None
    return ADAPTER.parse_request(operation, exchanged.request.body, needs)


def searches() -> list[Exchanged]:
    return [recording for recording in RECORDED if recording.is_query and "ids_filter" not in recording.request.label]


@NEEDS_EXCHANGES
def test_every_recorded_query_is_recognised_and_nothing_else_is() -> None:
    assert len(RECORDED) > 50
    assert len(searches()) >= 15
    assert all((named(recording) is not None) is recording.is_query for recording in RECORDED)
    assert {operation.name for recording in RECORDED if (operation := named(recording))} == {"query"}


@NEEDS_EXCHANGES
@pytest.mark.parametrize("exchanged", searches(), ids=lambda item: item.request.label)
def test_widening_a_recorded_query_changes_only_how_much_it_asks_for(exchanged: Exchanged) -> None:
    call = read(exchanged, TEXT)
    wide, original = (
        json.loads(body) for body in (ADAPTER.widen(call, [50] * len(call.searches)), exchanged.request.body)
    )
    assert wide.pop("n_results") == 50
    assert original.pop("n_results") == call.searches[0].top_k
    added, included = wide.pop("include"), original.pop("include")
    assert added[: len(included)] == included
    assert wide == original
    assert ADAPTER.widen(call, [0] * len(call.searches)) == exchanged.request.body


@NEEDS_EXCHANGES
@pytest.mark.parametrize(
    "exchanged", [search for search in searches() if search.status == 200], ids=lambda item: item.request.label
)
def test_a_recorded_answer_without_what_we_add_is_that_answer(exchanged: Exchanged) -> None:
    # As it would come to a widened request: with the columns that the client asked for alone, nothing is added or cut.
    call = read(exchanged, Needs(vectors=False))
    include = json.loads(exchanged.request.body)["include"]
    content = exchanged.answer
    if "distances" not in include:
        assert content.endswith(b"]}")
        content = content[:-2] + (b"," if include else b"") + b'"distances"]}'
    reply = ADAPTER.parse_reply(call, content)
    keep = [np.arange(pool.size) for pool in reply.pools]
    assert ADAPTER.trim(call, reply, keep) == exchanged.answer
    assert [pool.size for pool in reply.pools] == [len(ids) for ids in json.loads(exchanged.answer)["ids"]]


@NEEDS_EXCHANGES
def test_a_recorded_query_among_fewer_records_than_it_wants_is_left_alone() -> None:
    (exchanged,) = (
        recording for recording in RECORDED if recording.is_query and "ids_filter" in recording.request.label
    )
    with pytest.raises(UnsupportedError, match=Reason.NOTHING_TO_DO.value):
        read(exchanged, TEXT)


@NEEDS_EXCHANGES
def test_a_recorded_refusal_is_no_refusal_of_a_limit() -> None:
    from vecsieve.adapters.chroma.rest import ChromaDialect

    refused = [recording for recording in RECORDED if recording.status >= 400]
    assert refused
    for refusal in refused:
        assert ChromaDialect().refused_limit(refusal.status, refusal.answer) is None
        content = json.loads(refusal.answer)
        assert json.loads(ChromaDialect().error(refusal.status, content["message"]).body).keys() == content.keys()
        assert re.fullmatch(r"\w*Error", content["error"])
