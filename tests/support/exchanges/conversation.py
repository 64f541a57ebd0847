"""One request and a server that answers any version of it: what the laws of the adapters are about."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

STYLES: tuple[dict[str, Any], ...] = (
    {"separators": (",", ":")},
    {},
    {"indent": 1},
    {"separators": (" ,\t", " :\n"), "ensure_ascii": False},
)


@dataclass(frozen=True, slots=True)
class Conversation:
    """``answer``: the server's reply to the request it is given."""

    path: str
    body: bytes
    answer: Callable[[bytes], bytes]


@st.composite
def spelled(draw: st.DrawFn, document: Any) -> bytes:
    """A document as clients write it."""
    around = draw(st.sampled_from(["", " ", "\r\n\t"]))
    return (around + json.dumps(document, **draw(st.sampled_from(STYLES))) + around).encode()
