"""Which requests create, alter or delete an index, by method and path."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.adapters.contract import RequestHead, Touched
from vecsieve.adapters.pinecone.calls import reshaped


@pytest.mark.parametrize("method", ["DELETE", "POST", "PATCH"])
def test_a_change_to_the_control_plane_may_touch_any_index(method: str) -> None:
    assert reshaped(RequestHead(method=method, path="/indexes/docs")) == Touched(collection=None)


@pytest.mark.parametrize(
    ("method", "path", "host"),
    [("GET", "/indexes", ""), ("POST", "/embed", ""), ("POST", "/vectors/upsert", "docs-abc123.svc.pinecone.io")],
)
def test_every_other_request_touches_none(method: str, path: str, host: str) -> None:
    assert reshaped(RequestHead(method=method, path=path, host=host)) is None


@given(method=st.text(max_size=9), path=st.text(max_size=60), host=st.text(max_size=30))
def test_any_request_is_classified(method: str, path: str, host: str) -> None:
    """Invariant: total; no request to an index's own host touches the index as a whole."""
    found = reshaped(RequestHead(method=method, path=path, host=host))
    assert found is None or (found == Touched(collection=None) and not host)
