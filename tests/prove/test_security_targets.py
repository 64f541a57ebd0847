"""S3 counts a connection when there is one, and through the proxy there is none."""

from __future__ import annotations

from prove.finding import QUICK
from prove.security_targets import internal, prove, requests, tried


async def test_a_list_that_allows_an_internal_name_is_found_out() -> None:
    async with internal() as inside:
        careless: dict[str, object] = {"pinecone": {"allowed_hosts": (f"a.rebind.example:{inside.port}",)}}
        found = await tried("pinecone", inside, requests(inside.port), careless)
    assert found.met is False
    assert not found.measured.startswith("0;")


async def test_no_form_reaches_an_internal_listener() -> None:
    for found in await prove(QUICK):
        assert found.met, found
