"""The laws of the adapters over JSON: what a document has beside what every transport has (test_adapters.py)."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.rest_dialects import REST_DIALECTS, exact
from support.backends.transports import REST
from support.exchanges.adapter_laws import NEEDS, damaged, fetched, parse
from vecsieve.adapters.base import NOTE
from vecsieve.adapters.contract import MalformedReplyError, Needs, NotesResults, RequestHead, UnsupportedError

NOTES = [None, b'{"collapsed_ids":[1,"\xc3\xa4 \\"b\\""]}', b'{"collapsed_ids":[],"omitted":2}']
every_adapter = pytest.mark.parametrize("backend", sorted(REST_DIALECTS))


@every_adapter
@given(method=st.text(max_size=8), path=st.text(max_size=60), content_type=st.text(max_size=30))
def test_classify_never_raises_and_names_nothing_unknown(
    backend: str, method: str, path: str, content_type: str
) -> None:
    # Invariant: classify is total; what is not one of the adapter's own paths is None.
    adapter = REST[backend].adapter()
    assert adapter.classify(RequestHead(method=method, path=path, content_type=content_type)) is None
    for other in ("GET", "PUT", "HEAD", "OPTIONS", "post", ""):
        is_search = adapter.classify(RequestHead(method=other, path=REST_DIALECTS[backend].path)) is not None
        assert is_search == (REST_DIALECTS[backend].by_get and other == "GET")
    assert (
        adapter.classify(RequestHead(method="POST", path=REST_DIALECTS[backend].path + "/x" + path.replace("/", "")))
        is None
    )


@every_adapter
@given(data=st.data(), needs=NEEDS, most=st.integers(0, 9))
def test_payloads_have_what_the_fields_have(backend: str, data: st.DataObject, needs: Needs, most: int) -> None:
    # Invariant: of the first candidates, each payload is an object or nothing, and has the values of the optional fields.
    talk = data.draw(REST_DIALECTS[backend].conversations())
    _, _, reply = fetched(REST[backend].adapter(), talk, needs)
    for pool in reply.pools:
        assert pool.payloads is not None
        rows = range(min(most, pool.size))[::-1]
        payloads = pool.payloads(rows)
        assert len(payloads) == len(rows)
        for raw, fields in zip(payloads, [pool.fields[row] for row in rows] if pool.fields else (), strict=False):
            optional = dict(zip(needs.optional_fields, fields[len(needs.payload_fields) :], strict=True))
            payload = exact(raw) if raw is not None and raw != b"null" else {}
            assert isinstance(payload, dict)
            assert {key for key, value in optional.items() if value is not None} <= payload.keys()
            assert all(payload[key] == exact(value) for key, value in optional.items() if value is not None)


@every_adapter
@given(data=st.data())
def test_a_note_is_one_more_member_of_a_payload_and_changes_nothing_else(backend: str, data: st.DataObject) -> None:
    # Invariant: without its notes the answer is the trimmed one; each payload that is an object has its note, no other result.
    adapter, dialect = REST[backend].adapter(), REST_DIALECTS[backend]
    talk = data.draw(dialect.conversations(operation="query"))
    call, _, reply = fetched(adapter, talk, Needs())
    answer = adapter.trim(call, reply, [np.arange(pool.size, dtype=np.intp) for pool in reply.pools])
    notes = [
        data.draw(st.lists(st.sampled_from(NOTES), min_size=pool.size, max_size=pool.size)) for pool in reply.pools
    ]
    assert isinstance(adapter, NotesResults)
    noted = adapter.noted(call, answer, notes)
    plain, noted_results = dialect.results(exact(answer)), dialect.results(exact(noted))
    for before, after, note in zip(plain, noted_results, notes[0], strict=True):
        if note is not None and isinstance(before.get(dialect.payload), dict) and NOTE not in before[dialect.payload]:
            value = after[dialect.payload].pop(NOTE)
            assert (exact(value.encode()) if isinstance(value, str) else value) == exact(note)
        assert after == before
    assert adapter.noted(call, answer, [[None] * len(listed) for listed in notes]) == answer


@every_adapter
@given(data=st.data(), body=st.binary(max_size=80))
def test_arbitrary_bytes_raise_only_the_two_verdicts(backend: str, data: st.DataObject, body: bytes) -> None:
    # Invariant: a request is unsupported, a reply malformed; nothing else is ever raised.
    adapter = REST[backend].adapter()
    talk = data.draw(REST_DIALECTS[backend].conversations())
    call = parse(adapter, talk, Needs())
    with pytest.raises(UnsupportedError):
        adapter.parse_request(call.operation, body, Needs())
    with pytest.raises(MalformedReplyError):
        adapter.parse_reply(call, body)


@every_adapter
@given(data=st.data(), needs=NEEDS, noise=st.binary(max_size=6))
def test_a_damaged_request_is_left_alone_or_read_as_it_stands(
    backend: str, data: st.DataObject, needs: Needs, noise: bytes
) -> None:
    # Invariant: after any damage the request is unsupported, or widening it yields a document the damage still shows in.
    adapter = REST[backend].adapter()
    talk = data.draw(REST_DIALECTS[backend].conversations())
    operation = parse(adapter, talk, needs).operation
    body = damaged(data, talk.body, noise)
    try:
        call = adapter.parse_request(operation, body, needs)
    except UnsupportedError:
        return
    assert adapter.widen(call, [search.top_k for search in call.searches])
    exact(body)
