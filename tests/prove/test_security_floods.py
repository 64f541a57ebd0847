"""The judge of S4 sees a server that suffers slow heads for ever, and one that does not."""

from __future__ import annotations

import re
import shutil
import time

import pytest

from prove.differential import WHERE
from prove.security_apart import Fared, crowd_apart, good_apart
from prove.security_floods import HEADS, READERS, Slow, beside_nginx, verdict
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


@pytest.mark.skipif(shutil.which("nginx", path=WHERE) is None, reason="nginx is not installed here")
async def test_the_yardstick_is_what_a_good_client_of_nginx_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("prove.security_floods.OTHERS_SECONDS", 0.5)
    said = await beside_nginx(Slow("slow readers", READERS, b"", 3))
    times = r"p99 \d+\.\d ms, slowest \d+ ms"
    assert re.fullmatch(rf"{times}; before {times}; 25 × 200", said)


async def test_attackers_that_are_paced_come_over_the_whole_time() -> None:
    async with (
        FaultyUpstream(answering(reply())) as upstream,
        crowd_apart(upstream.port, HEADS, 10, a_second=20.0, letters=b"a") as crowd,
    ):
        begun = time.monotonic()
        crowd.begin()
        await crowd.connected()
        assert time.monotonic() - begun >= 9 / 20
        assert (await crowd.fared()).count == 10


def test_without_attackers_nothing_is_proved() -> None:
    assert verdict(Fared(0, 0, 0.0)) == ("longest 0.0 s, 0 of 0 open still", False)


async def test_what_a_good_client_in_a_process_of_its_own_is_answered_is_counted() -> None:
    async with FaultyUpstream(answering(reply(status=b"503 Service Unavailable"))) as upstream:
        async with good_apart(upstream.port, 50.0, 0.2) as asking:
            served = await asking.served()
        assert (served.words(), served.failed, len(upstream.requests)) == ("10 × 503", 10, 10)
    assert served.p50_seconds is not None
    assert served.p99_seconds is not None
    assert served.slowest_seconds is not None
    assert served.p50_seconds <= served.p99_seconds <= served.slowest_seconds
