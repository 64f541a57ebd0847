from __future__ import annotations

import pytest
from aiohttp import HttpVersion10, HttpVersion11
from aiohttp.http import HttpVersion

from vecsieve.proxy.http.framing import objection
from vecsieve.proxy.trouble import Trouble

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
