"""What the field blocks of an HTTP/2 client decode to (HPACK, RFC 7541), by the lengths of their representations alone.

A byte may name an entry of 4 kB in the table of the decoder: 12 kB of such bytes decode to 31 MB, which the gRPC core holds until the block
ends (grpcio 1.85, whatever its options). So a block is bounded by what it decodes to, and lengths suffice for that.

Names and paths must be ASCII: grpc.aio's server decodes a path as UTF-8 in its main loop, and ends, for all clients and for good, with the
first that is none; a call with such a name gets no answer (1.85). No other text is looked at.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto

from .messages import Buffer

# Flags of HEADERS. The core takes the length of a padding for the first field, and the padding for the last ones (1.85).
PADDED, PRIORITY = 0x8, 0x20
_PRIORITY_BYTES = 5

# Each entry of a table counts with 32 bytes more than its name and value (RFC 7541 4.1).
ENTRY_BYTES = 32
STATIC_ENTRIES, STATIC_NAME_BYTES, STATIC_BYTES = 61, 27, 64  # the longest name, and more than the longest entry
# Entries that are followed: a table of 4,096 bytes, which the core has, cannot have more.
MOST_ENTRIES = 4096 // ENTRY_BYTES
# Fields of a block. Envoy and Apache accept 100; each may be one byte, and following a frame of 16,000 took 50 ms.
MOST_FIELDS = 256
UNKNOWN_BYTES = 4096  # of an entry that is not followed
_PATH, _CODED_PATH = b":path", b"\xb9\x58\xd3\x3f"
_PATH_INDICES = frozenset({4, 5})
# Bytes of an integer behind its first: five have a value, and the core reads up to sixteen more that have none (1.85).
LONGEST_INTEGER = 5 + 16


class _Step(Enum):
    """What comes next."""

    FIELD = auto()
    NAME = auto()  # a string
    VALUE = auto()


@dataclass(slots=True)
class Fields:
    """Follows the field blocks of one direction, in pieces of any size. ``decoded``: bytes that the current block decodes to so far, at most: the
    length of a Huffman code is at least 5 bits. A new size of the table counts like an entry without content: it takes as much time. ``count``:
    fields of the block that have begun. ``is_lost``: the bytes are no HPACK, or the core would read others, or fail, or there are too many
    fields; no more is followed.
    """

    count: int = 0
    decoded: int = 0
    is_lost: bool = False
    # The latest first: bytes of the name, and of the entry; whether it is a path.
    _entries: deque[tuple[int, int, bool]] = field(default_factory=lambda: deque(maxlen=MOST_ENTRIES))
    _rest: bytes = b""  # the beginning of an integer
    _skip: int = 0  # bytes of a string that are left
    _step: _Step = _Step.FIELD
    _name: int = 0
    _is_path: bool = False
    _text: bytearray | None = None  # of a name or a path, as far as it has arrived
    _is_coded: bool = False  # by Huffman's code
    _adds: bool = False
    _front: int = 0  # bytes before the fragment of the current frame

    def begin(self, flags: int, length: int, *, is_first: bool) -> None:
        """A frame of a block begins. ``is_first``: HEADERS; else CONTINUATION."""
        self._front = _PRIORITY_BYTES if is_first and flags & PRIORITY else 0
        if is_first:
            self.is_lost = self.is_lost or bool(flags & PADDED) or length < self._front
            self.count = self.decoded = 0
            self._rest, self._skip, self._step, self._text = b"", 0, _Step.FIELD, None

    def follow(self, data: Buffer, start: int, stop: int) -> int:
        """Part of the frame's content. Returns by how much ``decoded`` has grown."""
        before = self.decoded
        taken = min(self._front, stop - start)
        self._front -= taken
        start += taken
        if start < stop and not self.is_lost:
            self._read(self._rest + bytes(data[start:stop]))
        return self.decoded - before

    def _read(self, data: bytes) -> None:
        at, end = 0, len(data)
        self._rest = b""
        while at < end and not self.is_lost:
            if self._skip:
                taken = min(self._skip, end - at)
                if self._text is not None:
                    self._text += data[at : at + taken]
                self._skip -= taken
                at += taken
                self._check()
                continue
            is_field = self._step is _Step.FIELD
            read = self._next(data, at)
            if read < 0:
                self._rest = data[at:]
                self.is_lost = len(self._rest) > LONGEST_INTEGER
                return
            at, self.count = read, self.count + is_field
            self.is_lost = self.count > MOST_FIELDS

    def _next(self, data: bytes, at: int) -> int:
        """Read the integer here, and what it says. The place behind it; -1 if it is not complete."""
        first = data[at]
        if self._step is not _Step.FIELD:
            length, at = _integer(data, at, 0x7F)
            if at >= 0:
                self._string(length, is_coded=bool(first & 0x80))
            return at
        if first & 0x80:
            index, at = _integer(data, at, 0x7F)
            if at >= 0:
                self.decoded += self._entry(index)[1]
            return at
        if first & 0x60 == 0x20:  # another size of the table
            _, at = _integer(data, at, 0x1F)
            if at >= 0:
                self.decoded += ENTRY_BYTES
            return at
        index, at = _integer(data, at, 0x3F if first & 0x40 else 0x0F)
        if at >= 0:
            self._adds = bool(first & 0x40)
            self._name, _, self._is_path = self._entry(index)
            self._step = _Step.VALUE if index else _Step.NAME
        return at

    def _string(self, length: int, *, is_coded: bool) -> None:
        """A name or a value begins."""
        self._skip, self._is_coded = length, is_coded
        size = length * 8 // 5 + 1 if is_coded else length
        self._text = bytearray() if self._step is _Step.NAME or self._is_path else None
        if self._step is _Step.NAME:
            self._name, self._step = size, _Step.VALUE
        else:
            entry = ENTRY_BYTES + self._name + size
            self.decoded += entry
            self._step = _Step.FIELD
            if self._adds:
                self._entries.appendleft((self._name, entry, self._is_path))

    def _check(self) -> None:
        """Look at a name or a path once it is complete."""
        text = self._text
        if text is None or self._skip:
            return
        self._text = None
        self.is_lost = self.is_lost or not (_is_surely_ascii(text) if self._is_coded else text.isascii())
        if self._step is _Step.VALUE:  # it was the name
            self._is_path = text.startswith(_CODED_PATH) if self._is_coded else text == _PATH

    def _entry(self, index: int) -> tuple[int, int, bool]:
        """At most the bytes of the name and of the whole entry; whether it is a path."""
        if index <= STATIC_ENTRIES:
            return STATIC_NAME_BYTES, STATIC_BYTES, index in _PATH_INDICES
        place = index - STATIC_ENTRIES - 1
        return self._entries[place] if place < len(self._entries) else (UNKNOWN_BYTES, UNKNOWN_BYTES, True)


def _is_surely_ascii(coded: bytearray) -> bool:
    """Whether no character of Huffman's code can have 19 bits or more (RFC 7541, B): these begin with fifteen ones. Of ASCII that is the
    backslash and what cannot be printed. In letters, digits, and the marks of names and paths never more than twelve ones follow each other.
    """
    ones = int.from_bytes(coded)
    for step in (1, 2, 4, 7):
        ones &= ones >> step
    return not ones


def _integer(data: bytes, at: int, most: int) -> tuple[int, int]:
    """An integer whose first byte has the bits ``most`` for it (RFC 7541 5.1), and the place behind it; -1 if it is not complete."""
    value = data[at] & most
    at += 1
    if value < most:
        return value, at
    for shift in range(0, 7 * LONGEST_INTEGER, 7):
        if at == len(data):
            return 0, -1
        byte = data[at]
        at += 1
        value += (byte & 0x7F) << shift
        if not byte & 0x80:
            return value, at
    return 0, -1
