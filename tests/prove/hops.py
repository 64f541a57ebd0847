"""What of a message goes from end to end, after RFC 9110 7.6.1: written from the RFC, sharing nothing with the proxy."""

from __future__ import annotations

from collections.abc import Sequence

Fields = Sequence[tuple[bytes, bytes]]

OF_ONE_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"proxy-authenticate", b"proxy-authorization", b"te", b"trailer", b"upgrade")
)  # fmt: skip


def end_to_end(fields: Fields) -> list[tuple[bytes, bytes]]:
    """The fields in their order, case and number, without those of one hop. Framing stays: it must be the same too."""
    named = {
        token.strip().lower() for name, value in fields if name.lower() == b"connection" for token in value.split(b",")
    }
    dropped = OF_ONE_HOP | (named - {b"content-length", b"transfer-encoding", b"host"})
    return [pair for pair in fields if pair[0].lower() not in dropped]
