from __future__ import annotations

import pytest
from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import HttpVersion
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.headers import is_reply_sound, objection
from vecsieve.proxy.search.errors import Trouble

TE = b"Transfer-Encoding"
CL = b"content-length"


@pytest.mark.parametrize(
    ("raw", "trouble"),
    [
        ([], None),
        ([(CL, b"3")], None),
        ([(CL, b"0")], None),
        ([(TE, b"chunked")], None),
        ([(TE, b" Chunked ")], None),
        ([(TE, b"chunked"), (CL, b"3")], Trouble.TWO_FRAMINGS),
        ([(TE, b"gzip, chunked")], Trouble.TRANSFER_CODING),
        ([(TE, b"chunked"), (TE, b"chunked")], Trouble.TRANSFER_CODING),
        ([(TE, b"")], Trouble.TRANSFER_CODING),
        ([(CL, b"3"), (CL, b"3")], Trouble.MALFORMED),
        ([(CL, b"+3")], Trouble.MALFORMED),
        ([(CL, b"")], Trouble.MALFORMED),
        ([(CL, "٣".encode())], Trouble.MALFORMED),
        ([(b"Host", b"a"), (b"host", b"a")], Trouble.MALFORMED),
        ([(b"X", b"\xff")], Trouble.HEADER_BYTES),
        ([(b"X", b"a\x01")], Trouble.HEADER_BYTES),
    ],
)
def test_framing_that_two_parsers_could_read_apart_is_refused(
    raw: list[tuple[bytes, bytes]], trouble: Trouble | None
) -> None:
    assert objection("POST", "/a", HttpVersion11, raw) is trouble


@pytest.mark.parametrize("version", [HttpVersion(0, 9), HttpVersion(1, 2), HttpVersion(2, 0)])
def test_only_two_versions_are_spoken(version: HttpVersion) -> None:
    assert objection("GET", "/", version, []) is Trouble.VERSION


def test_an_old_version_has_no_chunks() -> None:
    assert objection("POST", "/", HttpVersion10, [(TE, b"chunked")]) is Trouble.OLD_CHUNKED
    assert objection("POST", "/", HttpVersion10, [(CL, b"1")]) is None


def test_targets_and_connect_are_refused_before_framing() -> None:
    assert objection("CONNECT", "evil:443", HttpVersion11, []) is Trouble.CONNECT_METHOD
    assert objection("GET", "http://evil/", HttpVersion11, [(TE, b"x")]) is Trouble.TARGET


@pytest.mark.parametrize(
    ("raw", "sound"),
    [
        ([], True),
        ([(CL, b"3")], True),
        ([(CL, b"03")], True),
        ([(TE, b"chunked")], True),
        ([(TE, b"Chunked")], True),
        ([(TE, b"identity")], True),
        ([(TE, b"xchunked")], False),
        ([(TE, b"")], False),
        ([(TE, b"gzip")], False),
        ([(TE, b"gzip, chunked")], False),
        ([(TE, b"chunked, gzip")], False),
        ([(TE, b"chunked, chunked")], False),
        ([(TE, b"chunked"), (TE, b"chunked")], False),
        ([(TE, b"chunked"), (TE, b"identity")], False),
        ([(TE, b"chunked"), (CL, b"3")], False),
        ([(TE, b"identity"), (CL, b"3")], False),
        ([(CL, b"3"), (CL, b"3")], False),
        ([(CL, b"+3")], False),
        ([(CL, b"3, 3")], False),
        ([(b"Transfer-Encoding ", b"chunked")], False),
        ([(b"Content-Length ", b"3")], False),
        ([(b"Connection\t", b"close")], False),
        ([(b"", b"3")], False),
    ],
)
def test_a_reply_whose_end_could_be_read_in_two_ways_is_not_sound(raw: list[tuple[bytes, bytes]], sound: bool) -> None:
    assert is_reply_sound(200, HttpVersion11, raw) is sound


@pytest.mark.parametrize(("status", "sound"), [(99, False), (100, True), (599, True), (999, True), (1000, False)])
def test_a_replys_status_has_three_digits(status: int, sound: bool) -> None:
    assert is_reply_sound(status, HttpVersion11, []) is sound


@pytest.mark.parametrize("version", [HttpVersion(0, 9), HttpVersion(2, 0)])
def test_a_reply_of_another_version_is_not_sound(version: HttpVersion) -> None:
    assert not is_reply_sound(200, version, [])


def test_a_reply_of_the_old_version_has_no_transfer_coding() -> None:
    assert is_reply_sound(200, HttpVersion10, [(CL, b"3")])
    assert not is_reply_sound(200, HttpVersion10, [(TE, b"chunked")])


@given(
    st.lists(
        st.tuples(
            st.sampled_from(
                [b"Transfer-Encoding", b"transfer-encoding ", b"Content-Length", b"X-A", b"Content-Length\t"]
            ),
            st.sampled_from([b"chunked", b"identity", b"3", b"03", b"+3", b"", b"gzip, chunked", b"xchunked", b"3, 3"]),
        ),
        max_size=4,
    )
)
def test_a_sound_reply_has_one_framing_that_every_parser_reads_alike(raw: list[tuple[bytes, bytes]]) -> None:
    """For any head: sound means at most one of one length in digits, one `chunked`, and no name with a blank behind it."""
    if not is_reply_sound(200, HttpVersion11, raw):
        return
    assert all(name == name.strip() for name, _ in raw)
    lengths = [value for name, value in raw if name.lower() == b"content-length"]
    codings = [value for name, value in raw if name.lower() == b"transfer-encoding"]
    assert len(lengths) + len(codings) <= 1
    assert all(value.isdigit() for value in lengths)
    assert set(codings) <= {b"chunked", b"identity"}
