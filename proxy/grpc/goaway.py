"""Says GOAWAY to a client in the gRPC server's place: before the server does, and to one that floods us.

When grpcio's server is told to stop, its core first cancels every call that reaches it and then says GOAWAY (1.85, and so a bare
`grpc.aio` server): what a client sends until it hears of that is CANCELLED, which nobody tries again. RFC 9113 6.8 has the
remedy: a first GOAWAY that refuses nothing, a while for what is on its way, then the end. The frame may stand between any two of the
server's, but not within a block of fields.
"""

from __future__ import annotations

# The largest stream there can be: nothing that was or will be sent is refused. NO_ERROR.
GOAWAY = b"\x00\x00\x08\x07\x00" + bytes(4) + b"\x7f\xff\xff\xff" + bytes(4)
# For the frame to reach the client and for what it had sent by then to reach us: a long way round the world and a busy loop.
FAREWELL_SECONDS = 0.5
_ENHANCE_YOUR_CALM = 0xB
_NO_SETTINGS = b"\x00\x00\x00\x04\x00" + bytes(4)


def reset_stream(stream: int) -> bytes:
    """What ends one call that brings too much: gRPC's libraries make RESOURCE_EXHAUSTED of it."""
    return b"\x00\x00\x04\x03\x00" + stream.to_bytes(4) + _ENHANCE_YOUR_CALM.to_bytes(4)


def calm_down(last: int, *, is_first: bool) -> bytes:
    """What a client is told that floods us (RFC 9113 10.5). ``last``: the highest stream that was let through.

    ``is_first``: before anything else the server has said, for SETTINGS must be the first frame (RFC 9113 3.4).
    """
    said = b"too many frames without content"
    length = (8 + len(said)).to_bytes(3)
    goaway = length + b"\x07\x00" + bytes(4) + last.to_bytes(4) + _ENHANCE_YOUR_CALM.to_bytes(4) + said
    return _NO_SETTINGS + goaway if is_first else goaway
