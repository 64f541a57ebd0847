"""When a connection may go on behind a chunked body, and when its parser may still hold a trailer."""

from __future__ import annotations

from itertools import pairwise

import pytest
from aiohttp.base_protocol import BaseProtocol
from aiohttp.http import HttpRequestParser
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.protocol import NO_TRAILERS, TrailerWatch

HEAD = b"POST / HTTP/1.1\r\nHost: c\r\nTransfer-Encoding: chunked\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nHost: c\r\n\r\n"


class Fed:
    """aiohttp's parser beside the watch that follows it."""

    def __init__(self) -> None:
        self.parser = HttpRequestParser(BaseProtocol(loop=None), None, 2**16)  # type: ignore[arg-type]  # - it asks no loop
        self.watch = TrailerWatch()

    def feed(self, data: bytes) -> int | None:
        messages, _, _ = self.parser.feed_data(data)
        return self.watch.following(data, messages)


async def test_control_aiohttp_hands_the_last_trailer_to_the_next_request() -> None:
    fed = Fed()
    fed.feed(HEAD + b"0\r\nA: 1\r\nApi-Key: stolen\r\n\r\n")
    ((message, _),), _, _ = fed.parser.feed_data(NEXT)
    assert message.raw_headers[0] == (b"Api-Key", b"stolen"), "aiohttp was mended: the watch may go"


@pytest.mark.parametrize("body", [b"0\r\n\r\n", b"3\r\nabc\r\n0\r\n\r\n", b"3;x=y\r\nabc\r\n0\r\n\r\n"])
async def test_a_body_without_trailers_lets_the_connection_go_on(body: bytes) -> None:
    assert Fed().feed(HEAD + body) is None


@pytest.mark.parametrize(
    "body", [b"0\r\nA: 1\r\n\r\n", b"0\r\nA: 0\r\n\r\n", b"3\r\nabc\r\n0\r\nA: 1\r\nB: \r\n\r\n", b"0;x\r\n\r\n"]
)
async def test_a_body_that_may_have_had_trailers_ends_it(body: bytes) -> None:
    assert Fed().feed(HEAD + body) == 0


async def test_a_request_in_the_same_segment_stands_behind_it() -> None:
    assert Fed().feed(HEAD + b"0\r\n\r\n" + NEXT * 2) == 2
    assert Fed().feed(HEAD + b"0\r\n\r\n" + NEXT[:9]) == 0


@given(
    trailers=st.lists(st.sampled_from([b"A: 1", b"B: 0", b"C:", b"X: \t0"]), max_size=3),
    cuts=st.lists(st.integers(0, 120), max_size=6),
)
async def test_however_it_is_cut_no_trailer_is_handed_on_and_no_clean_body_punished(
    trailers: list[bytes], cuts: list[int]
) -> None:
    """Of a connection that goes on, the next request's fields are its own; without trailers it always goes on."""
    whole = HEAD + b"3\r\nabc\r\n0\r\n" + b"".join(line + b"\r\n" for line in trailers) + b"\r\n"
    edges = sorted({0, len(whole), *(cut for cut in cuts if cut < len(whole))})
    fed = Fed()
    told = [fed.feed(whole[start:end]) for start, end in pairwise(edges)]
    assert any(each is not None for each in told) == bool(trailers)
    if not trailers:
        messages, _, _ = fed.parser.feed_data(NEXT)
        assert fed.watch.following(NEXT, messages) is None
        ((message, _),) = messages
        assert message.raw_headers == ((b"Host", b"c"),)


def test_the_clean_end_needs_the_line_before_the_last_chunk() -> None:
    assert NO_TRAILERS.startswith(b"\r\n"), "`A: 0` ends in 0 and an empty line, too"
