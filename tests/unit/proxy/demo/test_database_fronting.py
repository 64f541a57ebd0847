"""The proxy of the demo, in front of what is to be asked."""

from __future__ import annotations

import json

import pytest

from support.emulated import emulated
from support.stack import exchange
from vecsieve.proxy.demo.database import ChildFailedError, fronted


def test_the_proxy_leads_to_the_engine_and_its_admin_pages_are_there() -> None:
    with emulated() as emulator, fronted(emulator.url, backend="pinecone") as at:
        assert at.engine == emulator.url
        assert exchange(at.proxy, "GET", "/indexes", headers={"Api-Key": "any"}).body == b'{"indexes":[]}'
        assert json.loads(exchange(at.admin, "GET", "/egress").body)["searches"] == 0
        assert exchange(at.admin, "GET", "/livez").status == 200


def test_a_proxy_that_cannot_start_says_why() -> None:
    with (
        pytest.raises(ChildFailedError, match=r"vecsieve serve did not come up(.|\n)*upstream"),
        fronted("nonsense", backend="qdrant"),
    ):
        pass
