from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from vecsieve.config.problems import SettingsError
from vecsieve.proxy.mcp import Arguments, Message, guarded, run

TOKEN = b"a token of a good length"


def arguments(**changed: Any) -> Arguments:
    unset: dict[str, Any] = dict.fromkeys(("admin_token_file", "tokenizer", "api_key_env", "listen", "token_file"))
    places = {"backend": "qdrant", "url": "http://127.0.0.1:1", "admin": "http://127.0.0.1:1"}
    return Arguments(**{**places, **unset, **changed})


async def responses(*head: tuple[bytes, bytes], token: bytes | None = TOKEN, kind: str = "http") -> list[Message]:
    """What a guarded application that answers 200 sends."""
    sent: list[Message] = []

    async def app(_scope: Message, _receive: object, send: Callable[[Message], Awaitable[None]]) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})

    async def receive() -> Message:
        return {}

    async def send(message: Message) -> None:
        sent.append(message)

    await guarded(app, token)({"type": kind, "headers": list(head)}, receive, send)
    return sent


@pytest.mark.parametrize("head", [(), ((b"authorization", b"Bearer wrong"),), ((b"authorization", b"\xff"),)])
async def test_with_a_token_a_request_needs_it(head: tuple[tuple[bytes, bytes], ...]) -> None:
    start, _ = await responses(*head)
    assert (start["status"], start["headers"][0]) == (401, (b"www-authenticate", b"Bearer"))


async def test_who_holds_the_token_is_answered_and_so_is_everyone_without_one() -> None:
    assert (await responses((b"authorization", b"Bearer " + TOKEN)))[0]["status"] == 200
    assert (await responses(token=None))[0]["status"] == 200
    assert (await responses(kind="lifespan"))[0]["status"] == 200


@pytest.mark.parametrize(
    ("listen", "words"),
    [("nowhere", "--listen"), ("0.0.0.0:9467", "--token-file is not set"), ("[::]:9467", "--token-file")],
)
def test_an_address_that_is_none_or_that_others_reach_without_a_token_is_refused(listen: str, words: str) -> None:
    with pytest.raises(SettingsError, match=words):
        run(arguments(listen=listen))


@pytest.mark.parametrize("option", ["token_file", "admin_token_file"])
def test_a_token_file_that_cannot_be_used_is_refused(option: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="--" + option.replace("_", "-")):
        run(arguments(**{option: str(tmp_path / "nothing")}))
