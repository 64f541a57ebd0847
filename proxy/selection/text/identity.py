"""Names of a text that do not change from process to process, for records, caches and other systems."""

from __future__ import annotations

import hashlib

import xxhash

# What separates the parts of a snippet's identity: "a" + "bc" and "ab" + "c" are two snippets. It is the unit separator
# of ASCII, which no identifier contains.
_SEPARATOR = "\x1f"


def content_hash(canonical: str) -> int:
    """xxh64 (seed 0) of the canonical text in UTF-8; lone surrogates, which JSON can carry, as three bytes each."""
    return xxhash.xxh64_intdigest(canonical.encode("utf-8", "surrogatepass"), seed=0)


def hexadecimal(content: int) -> str:
    """A content hash as it is written: 16 lower-case digits."""
    return f"{content:016x}"


def snippet_id(document: str, section: str, content_hash_hex: str) -> str:
    """sha256 (64 lower-case digits) of document, section and content hash, separated by the unit separator.

    A section that is not known is the empty string: the same text twice in one document is one snippet then.
    """
    joined = _SEPARATOR.join((document, section, content_hash_hex))
    return hashlib.sha256(joined.encode("utf-8", "surrogatepass")).hexdigest()
