from __future__ import annotations

from pathlib import Path

import pytest

from vecsieve.config.problems import SettingsError
from vecsieve.proxy.admin.access import has_token, names_this_machine, token_in

TOKEN = b"a token of a good length"


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:9466", "127.0.0.1", "127.8.9.1:80", "[::1]", "[::1]:9464"])
def test_a_request_for_this_machine_is_known_by_its_host(host: str) -> None:
    assert names_this_machine(host)


@pytest.mark.parametrize("host", [None, "", "example.com", "localhost.example.com", "127.0.0.1.example.com", "[::2]"])
def test_any_other_host_is_foreign(host: str | None) -> None:
    assert not names_this_machine(host)


def test_a_token_is_held_by_who_sends_it_as_a_bearer() -> None:
    assert has_token(TOKEN, "Bearer " + TOKEN.decode())


@pytest.mark.parametrize("given", [None, "", TOKEN.decode(), "Bearer ", "bearer " + TOKEN.decode(), "Bearer \udcff"])
def test_anything_else_holds_no_token(given: str | None) -> None:
    assert not has_token(TOKEN, given)


def test_a_token_file_is_read_without_the_blanks_around_its_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_bytes(b"\n " + TOKEN + b" \n")
    assert token_in(str(file), "api.token_file") == TOKEN
    assert token_in(None, "api.token_file") is None


@pytest.mark.parametrize("content", [None, "", "short"])
@pytest.mark.parametrize("setting", ["api.token_file", "explain.token_file"])
def test_a_token_file_that_is_absent_or_holds_too_little_is_refused(
    tmp_path: Path, content: str | None, setting: str
) -> None:
    file = tmp_path / "token"
    if content is not None:
        file.write_text(content)
    with pytest.raises(SettingsError, match=rf"{setting}: wanted a"):
        token_in(str(file), setting)
