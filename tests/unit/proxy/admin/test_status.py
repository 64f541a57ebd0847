"""The status page tells an operator what runs, and nobody a secret."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.policy import PolicySettings
from vecsieve.config.schema import Settings, UpstreamSettings
from vecsieve.proxy.admin.status import Status, WorkerStatus, settings_hash, upstream_address
from vecsieve.proxy.telemetry.labels import BreakerState

STATUS = Status(
    version="1.2.3",
    state="ready",
    uptime_seconds=12.5,
    backend="qdrant",
    mode=None,
    upstream="qdrant:6333",
    settings_hash="0123456789ab",
    requests_in_flight=3,
    searches_in_flight=1,
    breaker=BreakerState.CLOSED,
    learned_collections=2,
    index_ports=(8101, 8102),
    workers=(WorkerStatus(index=0, state="ready", pid=7, restarts=1),),
)


def test_a_status_is_one_json_object() -> None:
    assert json.loads(STATUS.as_json()) == {
        "version": "1.2.3",
        "state": "ready",
        "uptime_seconds": 12.5,
        "backend": "qdrant",
        "mode": None,
        "upstream": "qdrant:6333",
        "settings_hash": "0123456789ab",
        "requests_in_flight": 3,
        "searches_in_flight": 1,
        "breaker": "closed",
        "learned_collections": 2,
        "index_ports": [8101, 8102],
        "workers": [{"index": 0, "state": "ready", "pid": 7, "restarts": 1}],
    }


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://127.0.0.1:6333", "127.0.0.1:6333"),
        ("https://db.example/some/path?api-key=SECRET#SECRET", "db.example"),
        ("http://user:SECRET@db.example:6333", "db.example:6333"),
        ("http://[::1]:6333", "[::1]:6333"),
        ("http://db.example:port", "invalid"),
        ("http://[::1", "invalid"),
        ("no url at all", "invalid"),
        ("", "invalid"),
    ],
)
def test_of_an_upstream_url_only_host_and_port_remain(url: str, address: str) -> None:
    assert upstream_address(url) == address


SECRETS = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=8)


@given(SECRETS, SECRETS, SECRETS)
def test_no_user_password_or_query_is_ever_shown(user: str, password: str, query: str) -> None:
    """Invariant: what stands before the @ or behind the port is in no address."""
    assert upstream_address(f"http://{user}:{password}@db:1/{query}?{query}") == "db:1"


def test_the_hash_changes_with_any_setting_and_with_nothing_else() -> None:
    plain = settings_hash(Settings())
    assert re.fullmatch(r"[0-9a-f]{12}", plain)
    assert plain == settings_hash(Settings())
    assert plain != settings_hash(Settings(report_header=False))
    assert plain != settings_hash(Settings(policy=PolicySettings(mode="shadow")))
    assert plain != settings_hash(Settings(upstream=UpstreamSettings(url="http://elsewhere:6333")))


def test_a_password_does_not_enter_the_hash() -> None:
    one, other = (
        Settings(upstream=UpstreamSettings.model_construct(url=f"http://user:{password}@db:6333"))
        for password in ("first", "second")
    )
    assert settings_hash(one) == settings_hash(other)
