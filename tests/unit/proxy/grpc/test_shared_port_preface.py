from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.grpc.shared_port import PREFACE, HttpVersion, version_of


@pytest.mark.parametrize("length", range(len(PREFACE)))
def test_a_beginning_of_the_preface_says_nothing_yet(length: int) -> None:
    assert version_of(PREFACE[:length]) is None


def test_the_whole_preface_is_http_2_whatever_follows() -> None:
    assert version_of(PREFACE) is HttpVersion.HTTP_2
    assert version_of(PREFACE + b"\0\0\0\4\0\0\0\0\0") is HttpVersion.HTTP_2


@pytest.mark.parametrize(
    "method", [b"GET", b"POST", b"PUT", b"PATCH", b"PROPFIND", b"DELETE", b"PRI", b"PRIME", b"\r\nGET"]
)
def test_a_request_line_is_http_1(method: bytes) -> None:
    assert version_of(method + b" / HTTP/1.1\r\n") is HttpVersion.HTTP_1


@pytest.mark.parametrize("first", [b"G", b"PO", b"PU", b"PA", b"PRO", b"p", b"\r", b"\x16\x03\x01"])
def test_http_1_is_known_as_soon_as_it_can_be(first: bytes) -> None:
    assert version_of(first) is HttpVersion.HTTP_1


@given(st.integers(0, len(PREFACE) - 1), st.integers(0, 255))
def test_one_wrong_byte_anywhere_is_http_1(place: int, wrong: int) -> None:
    """A preface with a changed byte is not HTTP/2."""
    damaged = PREFACE[:place] + bytes([wrong]) + PREFACE[place + 1 :]
    assert (version_of(damaged) is HttpVersion.HTTP_2) == (damaged == PREFACE)


@given(st.one_of(st.binary(min_size=1), st.binary().map(lambda rest: PREFACE + rest)))
def test_once_decided_more_bytes_change_nothing(data: bytes) -> None:
    """The first answer that is given for a growing prefix is the answer for the whole."""
    answers = [version_of(data[:length]) for length in range(1, len(data) + 1)]
    decided = [answer for answer in answers if answer is not None]
    assert len(set(decided)) <= 1
    assert answers[len(answers) - len(decided) :] == decided, "an answer was taken back"
