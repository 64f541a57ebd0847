"""S2 sees a secret where there is one, however it is written."""

from __future__ import annotations

import base64

import pytest

from prove.security_canaries import CANARY, Found


@pytest.mark.parametrize(
    "text",
    [
        b'{"msg":"' + CANARY + b'"}',
        CANARY.upper(),
        b"Basic " + base64.b64encode(b"u:" + CANARY),
        b"Basic " + base64.b64encode(b"us:" + CANARY + b"!"),
        b"Basic " + base64.b64encode(b"user:" + CANARY),
    ],
)
def test_a_secret_is_seen_in_any_case_and_in_base64(text: bytes) -> None:
    found = Found()
    found.look("here", text)
    assert found.places == ["here"]


def test_other_words_are_none() -> None:
    found = Found()
    found.look("here", b"s3cr3t canary " + base64.b64encode(b"another long secret"))
    assert found.places == []
