"""Request bodies that are cheap to send and costly to read, up to the size that is read at all.

Every JSON value of ``VALUES`` is put in place of every member that an adapter knows; the messages are the same for protobuf.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from support.grpc.wire_fields import number_field
from vecsieve.adapters.wire.protobuf import LENGTH, encoded, length_field

MOST = 4 * 1024 * 1024


def _filled(opening: bytes, item: bytes, closing: bytes) -> bytes:
    """As many items as fit into a body beside a small request."""
    count = (MOST - 4096 - len(opening) - len(closing)) // (len(item) + 1)
    return opening + b",".join([item] * count) + closing


def _nested(opening: bytes, inside: bytes, closing: bytes, depth: int) -> bytes:
    return opening * depth + inside + closing * depth


def _names() -> bytes:
    names = b",".join(b'"n%06d"' % number for number in range((MOST - 4096) // 10))
    return b"[" + names + b"]"


def _members() -> bytes:
    return b"{" + b",".join(b'"k%06d":1' % number for number in range((MOST - 4096) // 12)) + b"}"


VALUES: Mapping[str, Callable[[], bytes]] = {
    "searches": lambda: _filled(b"[", b'{"query":1,"limit":2}', b"]"),
    "searches of one result": lambda: _filled(b"[", b'{"query":1,"limit":1}', b"]"),
    "names": _names,
    "equal names": lambda: _filled(b"[", b'"a"', b"]"),
    "members": _members,
    "equal members": lambda: _filled(b"{", b'"limit":1', b"}"),
    "conditions": lambda: _filled(b'{"must":[', b'{"key":"a","match":{}}', b"]}"),
    "opened lists": lambda: b"[" * (MOST - 4096),
    "nested lists": lambda: b"[" * (MOST // 2 - 4096) + b"]" * (MOST // 2 - 4096),
    "opened objects": lambda: b'{"a":' * (MOST // 5 - 4096),
    "empty lists": lambda: _filled(b"[", b"[]", b"]"),
    "empty objects": lambda: _filled(b"[", b"{}", b"]"),
    "rows of one number": lambda: _filled(b"[", b"[1]", b"]"),
    "blanks": lambda: b" " * (MOST - 8192) + b"1",
    "blanks in a list": lambda: b"[1" + b" " * (MOST - 8192) + b"]",
    "digits": lambda: b"9" * (MOST - 4096),
    "digits in a list": lambda: b"[" + b"9" * (MOST - 4096) + b"]",
    "digits behind a point": lambda: b"[0." + b"1" * (MOST - 4096) + b"]",
    "a text": lambda: b'"' + b"x" * (MOST - 4096) + b'"',
    "a text of escapes": lambda: b'"' + b"\\n" * (MOST // 2 - 4096) + b'"',
    "a text of surrogates": lambda: b'"' + b"\\ud800" * (MOST // 6 - 4096) + b'"',
    "a vector": lambda: _filled(b"[", b"0.125", b"]"),
    "a vector of ordinary numbers": lambda: _filled(b"[", b"-0.012345", b"]"),
    "a vector of small numbers": lambda: _filled(b"[", b"1", b"]"),
    "half numbers": lambda: b'["a",' + _filled(b"", b"1", b"]"),
    "nested prefetches": lambda: _nested(
        b'{"prefetch":', b'{"query":[' + b"1," * (MOST // 2 - 8192) + b"1]}", b"}", 60
    ),
    "nested prefetches of filters": lambda: _nested(
        b'{"query":1,"prefetch":', b'{"query":1,"filter":"' + b"x" * (MOST - 8192) + b'"}', b"}", 60
    ),
    "prefetches": lambda: _filled(b"[", b'{"query":1}', b"]"),
    "a sparse vector": lambda: b'{"indices":' + b"[" + b"1," * 500_000 + b'1],"values":[' + b"1," * 500_000 + b"1]}",
}


def bodies(members: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    """Requests in which one member's value, or an unknown member's, is one of ``VALUES``."""
    for name in (*members, "unknown"):
        for what, made in VALUES.items():
            value = made()
            changed = {**members, name: value}
            inside = b",".join(b'"%s":%s' % (key.encode(), value) for key, value in changed.items())
            yield f"{what} as {name}", b"{" + inside + b"}"


def messages(known: Mapping[int, bytes], *, most: int = MOST) -> Iterator[tuple[str, bytes]]:
    """Messages in which one field, or an unknown one, is made of very many small ones. ``known``: field -> its wire bytes."""
    tiny = most // 2 - 4096
    for number in (*known, 99):
        others = b"".join(value for field, value in known.items() if field != number)
        yield f"empty fields {number}", others + length_field(number, b"") * (tiny // len(encoded(number << 3)))
        yield f"numbers {number}", others + number_field(number, 1) * (tiny // len(encoded(number << 3)))
        for inner in (1, 2, 3, 4, 7, 8):
            small = length_field(inner, b"") * tiny
            yield f"empty fields {inner} in {number}", others + length_field(number, small)
            yield f"numbers {inner} in {number}", others + length_field(number, number_field(inner, 1) * tiny)
            deep = length_field(1, length_field(inner, b"") * (tiny - 64))
            yield f"empty fields {inner} in 1 in {number}", others + length_field(number, deep)
        # Messages in messages, as deep as the size allows, written from the inside.
        pieces: list[bytes] = []
        size = 0
        tag = encoded(number << 3 | LENGTH)
        while size < most - 4096:
            head = tag + encoded(size)
            pieces.append(head)
            size += len(head)
        yield f"one in another {number}", others + b"".join(reversed(pieces))
        yield f"groups {number}", others + encoded(number << 3 | 3) * tiny
