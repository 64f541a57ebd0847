"""The API key, the same over both transports: where it stands, and what is said when it does not open."""

from __future__ import annotations

import hmac
from collections.abc import Mapping


def refused_key(given: Mapping[str, str], wanted: str | None) -> str | None:
    """Why a request with these headers is refused; None when it is not. `wanted` None: no key is needed."""
    if wanted is None:
        return None
    key = _given(given)
    if key is None:
        return "Must provide an API key or an Authorization bearer token"
    return None if hmac.compare_digest(key.encode(), wanted.encode()) else "Invalid API key or JWT"


def _given(headers: Mapping[str, str]) -> str | None:
    bearer = headers.get("authorization", "")
    return headers.get("api-key") or (bearer[7:] if bearer.lower().startswith("bearer ") else None)
