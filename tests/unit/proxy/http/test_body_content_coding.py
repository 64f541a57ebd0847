from __future__ import annotations

import gzip
import tracemalloc
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.http.body import coding_of, decoded

MIB = 1024 * 1024


@given(st.binary(max_size=4000), st.sampled_from([b"gzip", b"GZIP", b" x-gzip ", b"deflate", b"identity", b""]))
def test_what_was_encoded_comes_back(body: bytes, coding: bytes) -> None:
    # Invariant: decoding undoes encoding within the limit.
    name = coding.strip().lower()
    packed = gzip.compress(body) if name.endswith(b"gzip") else zlib.compress(body) if name == b"deflate" else body
    assert decoded(packed, coding, limit_bytes=4000) == body


@given(st.binary(max_size=200), st.sampled_from([b"gzip", b"deflate", b"br", b"zstd", b"gzip, gzip", b"\xff"]))
def test_arbitrary_bytes_give_bytes_or_none(body: bytes, coding: bytes) -> None:
    # Invariant: nothing is raised, and what comes back fits the limit.
    plain = decoded(body, coding, limit_bytes=100)
    assert plain is None or len(plain) <= 100


@pytest.mark.parametrize("coding", [b"br", b"zstd", b"compress", b"gzip, deflate", b"*"])
def test_other_codings_are_not_ours(coding: bytes) -> None:
    assert decoded(b"{}", coding, limit_bytes=100) is None


def test_the_limit_is_exact() -> None:
    packed = gzip.compress(b"x" * 1000)
    assert decoded(packed, b"gzip", limit_bytes=1000) == b"x" * 1000
    assert decoded(packed, b"gzip", limit_bytes=999) is None
    assert decoded(b"xx", b"", limit_bytes=1) is None


def test_a_bomb_is_given_up_before_it_fills_the_memory() -> None:
    bomb = gzip.compress(bytes(200 * MIB), compresslevel=1)
    tracemalloc.start()
    assert decoded(bomb, b"gzip", limit_bytes=8 * MIB) is None
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 24 * MIB, "the limit twice, and what zlib's growing buffer takes"


def test_a_ratio_beyond_100_is_a_bomb_however_large_the_limit() -> None:
    packed = gzip.compress(bytes(20 * MIB))
    assert len(packed) * 100 < 20 * MIB
    assert decoded(packed, b"gzip", limit_bytes=512 * MIB) is None


@pytest.mark.parametrize("damage", [slice(0, -1), slice(0, 5), slice(1, None)])
def test_damage_is_none(damage: slice) -> None:
    assert decoded(gzip.compress(b"hello world")[damage], b"gzip", limit_bytes=100) is None


def test_bytes_after_the_end_are_none() -> None:
    assert decoded(gzip.compress(b"one") + gzip.compress(b"two"), b"gzip", limit_bytes=100) is None


ACTIX = frozenset({b"gzip", b"deflate"})


@pytest.mark.parametrize(
    ("lines", "undone", "coding"),
    [
        ([], ACTIX, b""),
        ([], frozenset(), b""),
        ([b"gzip"], ACTIX, b"gzip"),
        ([b" GZip "], ACTIX, b"gzip"),
        ([b"deflate"], ACTIX, b"deflate"),
        ([b"identity"], ACTIX, b"identity"),
        ([b"identity"], frozenset(), b"identity"),
        ([b"gzip"], frozenset(), None),
        ([b"x-gzip"], ACTIX, None),
        ([b"br"], ACTIX, None),
        ([b"nonsense"], ACTIX, None),
        ([b""], ACTIX, None),
        ([b"gzip, identity"], ACTIX, None),
        ([b"identity", b"gzip"], ACTIX, None),
        ([b"gzip", b"gzip"], ACTIX, None),
    ],
)
def test_a_coding_is_undone_only_where_the_database_surely_sees_the_same_body(
    lines: list[bytes], undone: frozenset[bytes], coding: bytes | None
) -> None:
    assert coding_of(lines, undone) == coding
