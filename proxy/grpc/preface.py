"""Which HTTP a client speaks, told from its first bytes.

Every HTTP/2 connection begins with 24 bytes that no HTTP/1.x request can be (RFC 9113 3.4). Pure: bytes in, answer out.
"""

from __future__ import annotations

from enum import Enum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"


class Speech(Enum):
    """What is spoken on a connection."""

    HTTP_1 = 1
    HTTP_2 = 2


def spoken(first: bytes) -> Speech | None:
    """What a connection that began with ``first`` speaks; None while POST, PUT, PATCH and the preface are all possible."""
    if not PREFACE.startswith(first[: len(PREFACE)]):
        return Speech.HTTP_1
    return Speech.HTTP_2 if len(first) >= len(PREFACE) else None
