from __future__ import annotations

import json

import pytest

from support.relay_server import PlainDialect
from vecsieve.adapters.contract import NativeAnswer
from vecsieve.proxy.http.answers import LocalAnswers
from vecsieve.proxy.search.errors import WORDING, Trouble

ANSWERS = LocalAnswers(PlainDialect())


@pytest.mark.parametrize("trouble", list(Trouble))
def test_every_trouble_has_a_native_answer_that_says_it_is_ours(trouble: Trouble) -> None:
    response = ANSWERS.response(trouble, "/")
    assert response.status == WORDING[trouble][0]
    assert response.headers["x-vecsieve-origin"] == "proxy"
    assert response.headers["Content-Type"] == "application/json"
    assert (response.headers.get("Retry-After") == "1") is (response.status == 503)


@pytest.mark.parametrize("trouble", list(Trouble))
def test_the_same_answer_as_bytes_is_whole_and_says_that_it_closes(trouble: Trouble) -> None:
    head, body = ANSWERS.wire(trouble).split(b"\r\n\r\n", 1)
    lines = head.split(b"\r\n")
    assert lines[0].startswith(b"HTTP/1.1 %d " % WORDING[trouble][0])
    assert b"Content-Length: %d" % len(body) in lines
    assert b"Connection: close" in lines
    assert json.loads(body)["status"]["error"] == WORDING[trouble][1]


@pytest.mark.parametrize("trouble", [Trouble.MALFORMED, Trouble.BODY_TIMEOUT, Trouble.TWO_FRAMINGS, Trouble.INTERNAL])
def test_what_leaves_a_connection_in_doubt_ends_it(trouble: Trouble) -> None:
    assert ANSWERS.response(trouble, "/").keep_alive is False


@pytest.mark.parametrize("trouble", [Trouble.NO_UPSTREAM, Trouble.UPSTREAM_TIMEOUT, Trouble.OVERLOADED])
def test_what_is_the_databases_doing_keeps_the_connection(trouble: Trouble) -> None:
    assert ANSWERS.response(trouble, "/").keep_alive is None


def test_an_answer_without_a_type_sends_none() -> None:
    response = ANSWERS.native(NativeAnswer(status=401, content_type="", body=b"no"))
    assert "Content-Type" not in response.headers
