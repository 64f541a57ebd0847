"""How long addresses are kept, who asks for them, and in which order they are given."""

from __future__ import annotations

import asyncio

import pytest
from aiohttp.abc import ResolveResult

from support.network.known_names import Names
from vecsieve.proxy.http.names import Addresses


async def test_addresses_take_turns_and_are_asked_for_once_in_their_time() -> None:
    names = Names("10.0.0.1", "10.0.0.2")
    addresses = Addresses(names, seconds=60.0, timeout_seconds=5.0)
    firsts = [(await addresses.of("db", 80))[0][4] for _ in range(4)]
    assert firsts == [("10.0.0.1", 80), ("10.0.0.2", 80)] * 2
    assert names.asked == 1
    await addresses.of("db", 81)
    assert names.asked == 2
    await addresses.close()


async def test_an_address_that_is_too_old_is_asked_for_again() -> None:
    names = Names("10.0.0.1")
    addresses = Addresses(names, seconds=0.0, timeout_seconds=5.0)
    await addresses.of("db", 80)
    await asyncio.sleep(0.01)
    names.hosts = ("10.0.0.9",)
    assert (await addresses.of("db", 80))[0][4] == ("10.0.0.9", 80)
    await addresses.close()


async def test_those_who_ask_at_once_share_one_question_and_none_takes_it_away() -> None:
    names = Names("10.0.0.1")
    names.may_answer.clear()
    addresses = Addresses(names, seconds=60.0, timeout_seconds=5.0)
    leaving, staying = (asyncio.create_task(addresses.of("db", 80)) for _ in range(2))
    await asyncio.sleep(0.01)
    leaving.cancel()
    await asyncio.sleep(0)
    names.may_answer.set()
    assert (await staying)[0][4] == ("10.0.0.1", 80)
    assert names.asked == 1
    await addresses.close()


async def test_a_name_without_an_address_is_a_failure_of_the_name_and_asked_for_again() -> None:
    names = Names()
    addresses = Addresses(names, seconds=60.0, timeout_seconds=5.0)
    for name in ("db", "fails"):
        for _ in range(2):
            with pytest.raises(OSError, match="no"):
                await addresses.of(name, 80)
    assert names.asked == 4
    await addresses.close()


@pytest.mark.parametrize(("host", "expected"), [("127.0.0.1", ("127.0.0.1", 80)), ("::1", ("::1", 80, 0, 0))])
async def test_an_address_needs_no_name_server(host: str, expected: tuple[object, ...]) -> None:
    names = Names("10.0.0.1")
    addresses = Addresses(names, seconds=60.0, timeout_seconds=5.0)
    assert (await addresses.of(host, 80))[0][4] == expected
    assert names.asked == 0
    await addresses.close()


async def test_a_lookup_that_hangs_fails_in_time() -> None:
    class Stuck(Names):
        async def resolve(self, *_: object, **__: object) -> list[ResolveResult]:
            await asyncio.sleep(10)
            return []

    addresses = Addresses(Stuck(), seconds=60.0, timeout_seconds=0.01)
    with pytest.raises(OSError):  # noqa: PT011 - a TimeoutError is one, and has no words
        await addresses.of("slow.example", 80)
    await addresses.close()
