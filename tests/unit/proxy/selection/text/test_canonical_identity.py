"""Identities that other systems can compute too."""

from __future__ import annotations

import hashlib

import xxhash
from hypothesis import given

from support.texts import ANY_TEXT, ODD_TEXT
from vecsieve.proxy.selection.text.canonical import content_hash, folded, hexadecimal, snippet_id, unwrapped


def test_the_content_hash_is_xxh64_with_seed_zero() -> None:
    assert content_hash("") == 0xEF46DB3751D8E999  # the published value for no bytes
    assert content_hash("straße") == xxhash.xxh64_intdigest("straße".encode(), seed=0)


def test_a_hash_is_written_with_sixteen_digits() -> None:
    assert hexadecimal(0xAB) == "00000000000000ab"
    assert hexadecimal(2**64 - 1) == "f" * 16


def test_a_snippet_is_its_document_section_and_content() -> None:
    assert snippet_id("d", "s", "00ff") == hashlib.sha256(b"d\x1fs\x1f00ff").hexdigest()


def test_parts_of_an_identity_cannot_run_into_each_other() -> None:
    assert snippet_id("a", "bc", "0") != snippet_id("ab", "c", "0")
    assert snippet_id("a", "", "0") != snippet_id("", "a", "0")


@given(ANY_TEXT | ODD_TEXT, ANY_TEXT | ODD_TEXT)
def test_equal_canonical_texts_and_only_those_have_equal_hashes(one: str, other: str) -> None:
    """Invariant: hash(x) == hash(y) exactly when canonical(x) == canonical(y), lone surrogates included."""
    first, second = folded(unwrapped(one)), folded(unwrapped(other))
    assert (content_hash(first) == content_hash(second)) == (first == second)
    assert len(snippet_id(one, other, hexadecimal(content_hash(first)))) == 64
