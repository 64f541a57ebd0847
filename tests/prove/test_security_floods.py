"""The judge of S4 sees a server that suffers slow heads for ever, and one that does not."""

from __future__ import annotations

from prove.security_apart import Fared, crowd_apart
from prove.security_floods import HEADS, verdict
from support.network.faulty_upstream import FaultyUpstream, answering, reply
from support.network.relay_server import bare_relay
from vecsieve.config.schema import LimitSettings


async def attacked(port: int, seconds: float) -> tuple[str, bool]:
    async with crowd_apart(port, HEADS, 5, letters=b"a", seconds=seconds) as crowd:
        crowd.begin()
        await crowd.connected()
        return verdict(await crowd.fared())


async def test_a_server_without_a_deadline_is_found_out() -> None:
    async with FaultyUpstream(answering(reply())) as patient:
        said, met = await attacked(patient.port, 0.3)
    assert (said, met) == ("longest 0.0 s, 5 of 5 open still", False)


async def test_one_with_a_deadline_passes() -> None:
    limits = LimitSettings(head_timeout_seconds=0.2)
    async with FaultyUpstream(answering(reply())) as upstream, bare_relay(upstream.url, limits=limits) as relay:
        said, met = await attacked(relay.port, 1.0)
        assert met, said
        assert relay.heard.rejected == ["head_timeout"] * 5


def test_without_attackers_nothing_is_proved() -> None:
    assert verdict(Fared(0, 0, 0.0)) == ("longest 0.0 s, 0 of 0 open still", False)
