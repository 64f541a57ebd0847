"""How long addresses are kept, who asks for them, and in which order they are given."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
from collections.abc import Callable

import pytest
from aiohttp.abc import AbstractResolver, ResolveResult
from hypothesis import given
from hypothesis import strategies as st

from support.network.known_names import Names
from vecsieve.proxy.http.names import Addresses, is_public


async def test_addresses_take_turns_and_are_asked_for_once_in_their_time() -> None:
    names = Names("10.0.0.1", "10.0.0.2")
    addresses = Addresses(names, seconds=60.0, timeout_seconds=5.0)
    firsts = [(await addresses.of("db", 80))[0][4] for _ in range(4)]
    assert firsts == [("10.0.0.1", 80), ("10.0.0.2", 80)] * 2
    assert names.requested == 1
    await addresses.of("db", 81)
    assert names.requested == 2
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
    assert names.requested == 1
    await addresses.close()


async def test_a_name_without_an_address_is_a_failure_of_the_name_and_asked_for_again() -> None:
    names = Names()
    addresses = Addresses(names, seconds=60.0, timeout_seconds=5.0)
    for name in ("db", "fails"):
        for _ in range(2):
            with pytest.raises(OSError, match="no"):
                await addresses.of(name, 80)
    assert names.requested == 4
    await addresses.close()


@pytest.mark.parametrize(("host", "expected"), [("127.0.0.1", ("127.0.0.1", 80)), ("::1", ("::1", 80, 0, 0))])
async def test_an_address_needs_no_name_server(host: str, expected: tuple[object, ...]) -> None:
    names = Names("10.0.0.1")
    addresses = Addresses(names, seconds=60.0, timeout_seconds=5.0)
    assert (await addresses.of(host, 80))[0][4] == expected
    assert names.requested == 0
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


# A name that a request chose leads to public addresses, or nowhere.


@pytest.mark.parametrize(
    "text", ["8.8.8.8", "35.201.97.85", "2600:1901:0:38d7::", "::ffff:8.8.8.8", "64:ff9b::808:808", "2002:808:808::1"]
)
def test_an_address_of_the_internet_is_public(text: str) -> None:
    assert is_public(text)


@pytest.mark.parametrize(
    "text",
    [
        *("127.0.0.1", "127.1.2.3", "0.0.0.0", "10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1"),
        *("169.254.169.254", "224.0.0.1", "255.255.255.255", "192.0.2.1", "198.18.0.1"),
        *("::1", "::", "fe80::1", "fe80::1%eth0", "fd00::1", "ff02::1", "2001:db8::1"),
        *("::ffff:127.0.0.1", "::ffff:169.254.169.254", "64:ff9b::7f00:1", "64:ff9b::a00:1", "2002:7f00:1::"),
        *(
            "fec0::1",
            "64:ff9b:1::a9fe:a9fe",
            "64:ff9b:1:fffe::a00:1",
            "::a9fe:a9fe",
            "::ffff:0:7f00:1",
            "5f00::1",
            "4000::1",
        ),
        *("", "localhost", "127.1", "8.8.8.8:443", "0x08080808"),
    ],
)
def test_every_other_address_and_what_is_none_is_not(text: str) -> None:
    assert not is_public(text)


@given(st.ip_addresses(v=4))
def test_an_address_inside_another_counts_as_itself(address: ipaddress.IPv4Address) -> None:
    """Invariant: an IPv4 address is as public mapped, behind NAT64 and in 6to4 as it is bare."""
    mapped = ipaddress.IPv6Address(0xFFFF << 32 | int(address))
    translated = ipaddress.IPv6Address(0x64FF9B << 96 | int(address))
    tunnelled = ipaddress.IPv6Address(0x2002 << 112 | int(address) << 80)
    assert {is_public(str(form)) for form in (mapped, translated, tunnelled)} == {is_public(str(address))}


class Scripted(AbstractResolver):
    """Answers with the next list of addresses, and remembers that it was closed."""

    def __init__(self, *answers: list[str]) -> None:
        self.answers = list(answers)
        self.closed = False

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        addresses = self.answers.pop(0)
        return [
            ResolveResult(hostname=host, host=address, port=port, family=family, proto=0, flags=0)
            for address in addresses
        ]

    async def close(self) -> None:
        self.closed = True


def checking(resolver: Scripted, may_be_private: Callable[[str], bool]) -> Addresses:
    return Addresses(resolver, seconds=0.0, timeout_seconds=5.0, may_be_private=may_be_private)


@pytest.mark.parametrize("answer", [["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["10.0.0.1", "8.8.8.8"]])
async def test_one_private_address_among_them_is_enough_to_refuse(answer: list[str]) -> None:
    resolver = checking(Scripted(answer), lambda _: False)
    with pytest.raises(OSError, match="not public"):
        await resolver.of("idx.example.com", 443)


async def test_a_name_that_answers_differently_the_second_time_is_looked_at_the_second_time() -> None:
    resolver = checking(Scripted(["8.8.8.8"], ["127.0.0.1"]), lambda _: False)
    await resolver.of("idx.example.com", 443)
    with pytest.raises(OSError, match="not public"):
        await resolver.of("idx.example.com", 443)


async def test_a_name_from_the_settings_may_lead_anywhere() -> None:
    resolver = checking(Scripted(["10.0.0.1"]), lambda name: name == "mine.example.com")
    assert [entry[4] for entry in await resolver.of("mine.example.com", 443)] == [("10.0.0.1", 443)]


async def test_the_warning_names_no_host(caplog: pytest.LogCaptureFixture) -> None:
    resolver = checking(Scripted(["10.0.0.1"]), lambda _: False)
    with pytest.raises(OSError, match="not public"):
        await resolver.of("secret-index.example.com", 443)
    assert "allowed_hosts" in caplog.text
    assert "secret-index" not in caplog.text


async def test_closing_ends_the_resolver_inside() -> None:
    inner = Scripted()
    await checking(inner, lambda _: False).close()
    assert inner.closed


@given(st.ip_addresses(v=6))
def test_no_address_outside_the_internets_own_block_is_public(address: ipaddress.IPv6Address) -> None:
    """Invariant: a public IPv6 address lies in 2000::/3, or carries an IPv4 address that is judged in its stead."""
    carries_ipv4 = address.ipv4_mapped is not None or address in ipaddress.IPv6Network("64:ff9b::/96")
    assert not is_public(str(address)) or carries_ipv4 or address in ipaddress.IPv6Network("2000::/3")
