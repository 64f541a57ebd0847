"""What a block of fields decodes to, by its lengths alone, beside a real encoder and decoder."""

from __future__ import annotations

import itertools
import string

import pytest
from hpack import Encoder
from hpack.hpack import encode_integer
from hpack.huffman import HuffmanEncoder
from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH
from hpack.struct import HeaderTuple, NeverIndexedHeaderTuple
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.grpc.fields import ENTRY_BYTES, MOST_FIELDS, PADDED, PRIORITY, Fields

NAMES = st.sampled_from([b":authority", b":method", b"user-agent", b"authorization", b"x-own", b"grpc-timeout"])
VALUES = st.one_of(st.binary(max_size=40), st.sampled_from([b"POST", b"/", b"a" * 900, b"\xff" * 600]))
BLOCKS = st.lists(st.lists(st.tuples(NAMES, VALUES, st.booleans()), min_size=1, max_size=8), min_size=1, max_size=5)


def encoded(encoder: Encoder, fields: list[tuple[bytes, bytes, bool]], *, huffman: bool) -> bytes:
    made = [(NeverIndexedHeaderTuple if never else HeaderTuple)(name, value) for name, value, never in fields]
    block: bytes = encoder.encode(made, huffman=huffman)
    return block


def pieces(data: bytes, cuts: list[int]) -> list[tuple[int, int]]:
    places = sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    return list(itertools.pairwise(places))


@given(blocks=BLOCKS, huffman=st.booleans(), cuts=st.lists(st.integers(0, 5_000), max_size=12))
def test_a_block_decodes_to_no_more_than_is_said_and_hardly_less(
    blocks: list[list[tuple[bytes, bytes, bool]]], huffman: bool, cuts: list[int]
) -> None:
    """Invariant: however a block is cut into pieces, what is said is at least its decoded size. A Huffman code has 5 to 30 bits, so it is at most
    six times that.
    """
    encoder, fields = Encoder(), Fields()
    for block in blocks:
        data = encoded(encoder, block, huffman=huffman)
        fields.begin(0, len(data), is_first=True)
        grown = sum(fields.follow(data, start, stop) for start, stop in pieces(data, cuts))
        real = sum(len(name) + len(value) + ENTRY_BYTES for name, value, _ in block)
        assert not fields.is_lost
        assert grown == fields.decoded
        assert real <= fields.decoded <= 6 * real + 64 * len(block)


PATHS = st.text(st.sampled_from(string.ascii_letters + string.digits + "_./-"), max_size=60)
WIRES = st.sampled_from(["static", "literal", "table"])


def path_block(path: bytes, wire: str, *, huffman: bool) -> list[bytes]:
    """Blocks of which the last has a path, whose name is in the static table, or written out, or in the dynamic table."""
    code = HuffmanEncoder(REQUEST_CODES, REQUEST_CODES_LENGTH)
    texts = [code.encode(text) if huffman else text for text in (b":path", path)]
    name, value = (encode_integer(len(text), 7) + text for text in texts)
    for text in (name, value):
        text[0] |= 0x80 * huffman
    if wire == "static":
        return [b"\x04" + value]
    written = b"\x40" + name
    return [written + value] if wire == "literal" else [written + b"\x01/", b"\x7e" + value]


def is_lost_by(blocks: list[bytes], step: int) -> bool:
    fields = Fields()
    for block in blocks:
        fields.begin(0, len(block), is_first=True)
        for start in range(0, len(block), step):
            fields.follow(block, start, min(start + step, len(block)))
    return fields.is_lost


@given(path=PATHS, wire=WIRES, huffman=st.booleans(), step=st.integers(1, 90))
def test_the_paths_of_calls_are_followed(path: str, wire: str, huffman: bool, step: int) -> None:
    assert not is_lost_by(path_block(path.encode(), wire, huffman=huffman), step)


@given(
    before=PATHS, byte=st.integers(128, 255), after=PATHS, wire=WIRES, huffman=st.booleans(), step=st.integers(1, 90)
)
def test_a_path_that_is_not_ascii_is_none(
    before: str, byte: int, after: str, wire: str, huffman: bool, step: int
) -> None:
    """Invariant: no such path reaches the core, however it is written and cut into pieces."""
    path = before.encode() + bytes([byte]) + after.encode()
    assert is_lost_by(path_block(path, wire, huffman=huffman), step)


@pytest.mark.parametrize("name", [b"\x01\xff", b"\x84\xff\xff\xff\xff"])
def test_a_name_that_is_not_ascii_is_none(name: bytes) -> None:
    assert is_lost_by([b"\x00" + name + b"\x01v"], 1)


def test_a_value_may_be_any_bytes() -> None:
    """gRPC's libraries send the values of names with -bin as they are."""
    assert not is_lost_by([b"\x00\x05x-bin\x02\x00\xff"], 1)


@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=8))
def test_any_bytes_in_any_pieces_count_the_same(data: bytes, cuts: list[int]) -> None:
    """Invariant: bytes that are no HPACK raise nothing, and count the same in one piece and in several."""
    whole, parts = Fields(), Fields()
    for fields in (whole, parts):
        fields.begin(0, len(data), is_first=True)
    whole.follow(data, 0, len(data))
    for start, stop in pieces(data, cuts):
        parts.follow(data, start, stop)
    assert parts.decoded == whole.decoded


@pytest.mark.parametrize("flags", [0, PRIORITY])
def test_a_priority_is_no_field(flags: int) -> None:
    block = encoded(Encoder(), [(b"x-own", b"value", False)], huffman=False)
    content = (bytes(5) if flags & PRIORITY else b"") + block
    for step in (1, len(content)):
        fields = Fields()
        fields.begin(flags, len(content), is_first=True)
        for start in range(0, len(content), step):
            fields.follow(content, start, min(start + step, len(content)))
        assert fields.decoded == ENTRY_BYTES + len(b"x-own") + len(b"value")


@pytest.mark.parametrize(("flags", "length"), [(PADDED, 100), (PADDED | PRIORITY, 100), (PRIORITY, 4)])
def test_frames_that_the_core_reads_otherwise_are_no_blocks(flags: int, length: int) -> None:
    """The core knows no padding, and no priority that goes on in the next frame. What differs here would be followed wrongly."""
    fields = Fields()
    fields.begin(flags, length, is_first=True)
    assert fields.is_lost


@pytest.mark.parametrize("zeros", range(1, 17))
def test_an_integer_may_have_bytes_without_a_value(zeros: int) -> None:
    """The core reads up to sixteen (1.85)."""
    block = b"\x3f\xe1\x9f" + b"\x80" * zeros + b"\x00" + b"\x82"
    for step in (1, len(block)):
        fields = Fields()
        fields.begin(0, len(block), is_first=True)
        for start in range(0, len(block), step):
            fields.follow(block, start, min(start + step, len(block)))
        assert not fields.is_lost
        assert fields.decoded == ENTRY_BYTES + 64


def test_a_byte_that_names_a_large_entry_counts_with_all_of_it() -> None:
    fields = Fields()
    entry = b"\x40\x01a\x7f\xbd\x1d" + bytes(3_900)
    fields.begin(0, len(entry), is_first=True)
    fields.follow(entry, 0, len(entry))
    fields.begin(0, MOST_FIELDS, is_first=True)
    fields.follow(b"\xbe" * MOST_FIELDS, 0, MOST_FIELDS)
    assert fields.decoded == MOST_FIELDS * (3_900 + 1 + ENTRY_BYTES)
    assert not fields.is_lost


def test_no_more_fields_are_followed_than_a_block_may_have() -> None:
    fields = Fields()
    fields.begin(0, 16_000, is_first=True)
    fields.follow(b"\x82" * 16_000, 0, 16_000)
    assert fields.is_lost
    assert fields.decoded == (MOST_FIELDS + 1) * 64


def test_a_block_that_goes_on_is_one_block() -> None:
    fields = Fields()
    fields.begin(0, 2, is_first=True)
    fields.follow(b"\x82\x84", 0, 2)
    fields.begin(0, 1, is_first=False)
    fields.follow(b"\x86", 0, 1)
    assert fields.decoded == 3 * 64
