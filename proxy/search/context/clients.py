"""Who sent a request: its credentials and its address, as digests that tell clients apart. Nothing of them is kept or logged."""

from __future__ import annotations

import re
from collections.abc import Iterable
from hashlib import blake2b, sha256
from typing import NamedTuple

DIGEST_BYTES = 16

# Fields that say who a client is: its own credentials, and what a gateway made of them (`x-jwt-assertion`, `x-forwarded-user`). One too many
# divides a session, one too few would share it.
_IDENTIFIES = re.compile(
    "auth|token|key|secret|cookie|credential|user|jwt|assertion|session|tenant|identity|principal|email|subject|cert|account|org"
)
# Where clients of the databases send an API key: the same for all requests of one client, unlike other fields of the kind.
_KEYS = frozenset({"api-key", "authorization", "x-api-key", "x-chroma-token"})
# Of the client that a gateway speaks for: several gateways would divide it.
_FORWARDED = "x-forwarded-for"

Headers = Iterable[tuple[str, str]]


def credentials_digest(seed: bytes, headers: Headers) -> bytes:
    """A digest of the seed and of every field that identifies a client."""
    state = blake2b(seed, digest_size=DIGEST_BYTES)
    for name, value in sorted((name.lower(), value) for name, value in headers if _IDENTIFIES.search(name.lower())):
        for part in (name, value):
            raw = part.encode("utf-8", "surrogateescape")
            state.update(b"%d:" % len(raw) + raw)
    return state.digest()


class Client(NamedTuple):
    """``key``: the API key without its scheme, "" without one. ``address``: "" if unknown, as over gRPC behind no gateway. ``headers``: all
    fields or metadata.
    """

    key: str
    address: str
    headers: Headers = ()

    @classmethod
    def of(cls, headers: Headers, peer: str | None) -> Client:
        """``headers``: fields or metadata. ``peer``: the address of the connection."""
        key, address, headers = "", peer or "", tuple(headers)
        for name, value in headers:
            lower = name.lower()
            if lower in _KEYS and not key:
                key = value.strip().rpartition(" ")[2]
            elif lower == _FORWARDED:
                address = value.partition(",")[0].strip() or address
        return cls(key, address, headers)

    def place(self, collection: str) -> float:
        """A number in [0, 1) that stays the same for this client and collection: of its key, else of its address."""
        name = f"key {self.key}" if self.key else f"address {self.address}"
        state = blake2b(name.encode("utf-8", "surrogateescape"), digest_size=8)
        state.update(b"\0" + collection.encode("utf-8", "surrogatepass"))
        return (int.from_bytes(state.digest()) >> 11) / 2**53  # exact: never 1

    def key_digest(self) -> str | None:
        """The SHA-256 of the key in hexadecimal digits, as settings name it; None without a key."""
        return sha256(self.key.encode("utf-8", "surrogateescape")).hexdigest() if self.key else None
