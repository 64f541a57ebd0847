"""The content hash is one that other systems can compute too."""

from __future__ import annotations

import xxhash
from hypothesis import given

from support.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.text.canonical import content_hash, folded, unwrapped


def test_the_content_hash_is_xxh64_with_seed_zero() -> None:
    assert content_hash("") == 0xEF46DB3751D8E999  # the published value for no bytes
    assert content_hash("straße") == xxhash.xxh64_intdigest("straße".encode(), seed=0)


@given(ANY_TEXT | ODD_TEXT, ANY_TEXT | ODD_TEXT)
def test_equal_canonical_texts_and_only_those_have_equal_hashes(one: str, other: str) -> None:
    """Invariant: hash(x) == hash(y) exactly when canonical(x) == canonical(y), lone surrogates included."""
    first, second = folded(unwrapped(one)), folded(unwrapped(other))
    assert (content_hash(first) == content_hash(second)) == (first == second)
