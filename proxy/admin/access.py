"""Who may use VecSieve's own listeners: holders of a token, and on loopback only requests that name this machine as their host.

The second rule keeps out pages of other sites: their name may resolve to 127.0.0.1, but a browser then sends that name as the host.
"""

from __future__ import annotations

import hmac
import re
from pathlib import Path

from vecsieve.config.problems import Problem, SettingsError

from ..runtime.files import read_input

_THIS_MACHINE = re.compile(r"(localhost|\[::1\]|127(\.[0-9]{1,3}){3})(:[0-9]{1,5})?", re.IGNORECASE | re.ASCII)
SHORTEST_TOKEN = 16


def names_this_machine(host: str | None) -> bool:
    """Whether a request's Host is a loopback address or localhost."""
    return _THIS_MACHINE.fullmatch(host or "") is not None


def has_token(token: bytes, authorization: str | None) -> bool:
    """Whether a request's Authorization is this token, as `Bearer TOKEN`. Compares in constant time."""
    given = (authorization or "").encode("utf-8", "surrogateescape")
    return hmac.compare_digest(given, b"Bearer " + token)


def token_in(file: str | None, setting: str) -> bytes | None:
    """The content of a token file; None without one. ``setting``: the setting that names the file.

    Raises SettingsError, which never shows a part of the token.
    """
    if file is None:
        return None
    token = read_input(Path(file), setting=setting, expected="a readable file with a token").strip()
    if len(token) < SHORTEST_TOKEN:
        expected = f"a token of at least {SHORTEST_TOKEN} characters"
        raise SettingsError([Problem(setting, f"{len(token)} characters", expected)])
    return token
