"""The laws of the adapters over messages of gRPC, beside what every transport has (test_adapters.py).

A message has no end of its own: where a JSON text is refused, a message may be read for what it then says. What must hold
instead is stated in each law.
"""

from __future__ import annotations

import json

import numpy as np
import pytest
from google.protobuf import json_format
from google.protobuf.message import DecodeError
from hypothesis import given
from hypothesis import strategies as st
from qdrant_client.conversions.conversion import value_to_json

from support.backends.grpc_dialects import GRPC_DIALECTS
from support.backends.transports import GRPC
from support.exchanges.adapter_laws import NEEDS, damaged, fetched, parse
from vecsieve.adapters.base import NOTE
from vecsieve.adapters.contract import MalformedReplyError, Needs, NotesResults, RequestHead, UnsupportedError

every_adapter = pytest.mark.parametrize("backend", sorted(GRPC_DIALECTS))


@every_adapter
@given(method=st.text(max_size=8), path=st.text(max_size=60), message=st.binary(max_size=30))
def test_classify_never_raises_and_names_nothing_unknown(backend: str, method: str, path: str, message: bytes) -> None:
    """Classify is total; what is not one of the adapter's own paths is None, and any message under one is named."""
    adapter = GRPC[backend].adapter()
    path_of_searches = GRPC_DIALECTS[backend].path
    assert adapter.classify(RequestHead(method=method, path=path, message=message)) is None
    assert adapter.classify(RequestHead(method="GET", path=path_of_searches)) is None
    assert adapter.classify(RequestHead(method="POST", path=path_of_searches + "/" + path)) is None
    assert adapter.classify(RequestHead(method="POST", path=path_of_searches, message=message)) is not None
    assert adapter.classify(RequestHead(method="POST", path=path_of_searches)) is not None


@every_adapter
@given(data=st.data(), needs=NEEDS, factor=st.integers(1, 9))
def test_what_widening_says_of_a_single_search_comes_behind_the_clients_own_message(
    backend: str, data: st.DataObject, needs: Needs, factor: int
) -> None:
    talk, adapter = data.draw(GRPC_DIALECTS[backend].conversations()), GRPC[backend].adapter()
    call = parse(adapter, talk, needs)
    wide = adapter.widen(call, [factor * search.top_k for search in call.searches])
    assert "batch" in call.operation.name or wide.startswith(talk.body)


@every_adapter
@given(data=st.data(), needs=NEEDS, most=st.integers(0, 9))
def test_payloads_have_what_the_fields_have(backend: str, data: st.DataObject, needs: Needs, most: int) -> None:
    """Of the first candidates, each payload that has a JSON form has the values of the optional fields."""
    talk = data.draw(GRPC_DIALECTS[backend].conversations())
    _, _, reply = fetched(GRPC[backend].adapter(), talk, needs)
    for pool in reply.pools:
        assert pool.payloads is not None
        rows = range(min(most, pool.size))[::-1]
        payloads = pool.payloads(rows)
        assert len(payloads) == len(rows)
        for raw, row in zip(payloads, [pool.fields[row] for row in rows] if pool.fields else (), strict=False):
            payload = None if raw is None else json.loads(raw)
            optional = dict(zip(needs.optional_fields, row[len(needs.payload_fields) :], strict=True))
            assert payload is None or isinstance(payload, dict)
            if needs.optional_fields and payload is not None:
                assert {key: json.loads(value) for key, value in optional.items() if value is not None}.items() <= {
                    key: payload[key] for key in optional if key in payload
                }.items() or any(isinstance(value, dict | list) for value in payload.values())


@pytest.mark.parametrize("backend", ["pinecone", "qdrant"])
@given(data=st.data())
def test_a_note_is_one_more_member_of_a_payload_and_changes_nothing_else(backend: str, data: st.DataObject) -> None:
    """Without its notes the answer is the trimmed one; each payload that is not empty has its note, no other result."""
    adapter, dialect = GRPC[backend].adapter(), GRPC_DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query"))
    call, _, reply = fetched(adapter, talk, Needs())
    answer = adapter.trim(call, reply, [np.arange(pool.size, dtype=np.intp) for pool in reply.pools])
    sizes = [pool.size for pool in reply.pools]
    notes = [data.draw(st.lists(st.sampled_from([None, b"{}", b'{"a":["x"]}']), min_size=n, max_size=n)) for n in sizes]
    assert isinstance(adapter, NotesResults)
    noted = dialect.reply.FromString(adapter.noted(call, answer, notes))
    plain = dialect.reply.FromString(answer)
    for before, after, note in zip(dialect.results(plain), dialect.results(noted), notes[0], strict=True):
        stored = dialect.payload(after)
        if note is not None and len(dialect.payload(before)):
            value = json_format.MessageToDict(stored)[NOTE] if backend == "pinecone" else value_to_json(stored[NOTE])
            assert (json.loads(value) if isinstance(value, str) else value) == json.loads(note)
            del stored[NOTE]
    assert noted == plain


@every_adapter
@given(data=st.data(), body=st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_the_two_verdicts(backend: str, data: st.DataObject, body: bytes) -> None:
    """A request is unsupported or goes out behind its own bytes; a reply is malformed or comes back as it is."""
    adapter = GRPC[backend].adapter()
    talk = data.draw(GRPC_DIALECTS[backend].conversations(operation="query", extra=GRPC_DIALECTS[backend].content))
    call = parse(adapter, talk, Needs())
    try:
        other = adapter.parse_request(call.operation, body, Needs())
    except UnsupportedError:
        pass
    else:
        assert adapter.widen(other, [7]).startswith(body)
    try:
        reply = adapter.parse_reply(call, body)
        assert adapter.trim(call, reply, [np.arange(reply.pools[0].size)]) == body
    except MalformedReplyError:
        return


@every_adapter
@given(data=st.data(), needs=NEEDS, noise=st.binary(max_size=6))
def test_a_damaged_request_is_left_alone_or_read_as_protobuf_reads_it(
    backend: str, data: st.DataObject, needs: Needs, noise: bytes
) -> None:
    """After any damage the request is unsupported, or what is not declared goes out as it would have gone."""
    dialect = GRPC_DIALECTS[backend]
    adapter = GRPC[backend].adapter()
    talk = data.draw(dialect.conversations())
    operation = parse(adapter, talk, needs).operation
    body = damaged(data, talk.body, noise)
    try:
        call = adapter.parse_request(operation, body, needs)
    except UnsupportedError:
        return
    wide = adapter.widen(call, [search.top_k + 1 for search in call.searches])
    try:
        expected = dialect.undeclared(body, operation.name)
    except DecodeError:  # the server will refuse the one as it would have refused the other
        return
    assert dialect.undeclared(wide, operation.name) == expected
