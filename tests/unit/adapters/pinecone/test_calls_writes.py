"""Which requests may change an index unseen, by method, path and host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.pinecone.calls import index_named, reshaped


@pytest.mark.parametrize("method", ["DELETE", "POST", "PATCH"])
def test_a_change_to_the_control_plane_may_touch_any_index(method: str) -> None:
    assert reshaped(RequestHead(method=method, path="/indexes/docs")) == Touched(collection=None)


@pytest.mark.parametrize(
    ("method", "path", "host"),
    [("GET", "/indexes", ""), ("POST", "/embed", ""), ("POST", "/vectors/upsert", "docs-abc123.svc.pinecone.io")],
)
def test_what_only_reads_or_shows_in_a_reply_touches_none(method: str, path: str, host: str) -> None:
    assert reshaped(RequestHead(method=method, path=path, host=host)) is None


@given(method=st.text(max_size=9), path=st.text(max_size=60), host=st.text(max_size=30))
def test_any_request_is_classified(method: str, path: str, host: str) -> None:
    """Invariant: total; a request to an index's own host touches that index alone, where its host names one."""
    head = RequestHead(method=method, path=path, host=host)
    assert reshaped(head) in {None, Touched(collection=index_named(head) or None)}
