"""The contract of the second step: vectors that a search cannot bring, read by their candidates' identifiers.

Rule of this file: contracts only, as in contract.py. An adapter implements it where its backend has such a search.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from vecsieve.adapters.contract import Reply, SearchCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A request without a body that reads records, at the upstream of the search and with the client's credentials.

    ``target``: origin form, ready to be sent. ``ids``: whom it asks for.
    """

    method: str
    target: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a lookup brought: its price in the backend's read units, and the adapter's own reading of its records."""

    read_units: int
    document: object


@runtime_checkable
class SecondStep(Protocol):
    """Four more verbs, all pure."""

    def lookups(self, call: SearchCall, reply: Reply, known: Collection[str]) -> tuple[Lookup, ...]:
        """What brings the vectors of the reply's candidates, but for those of ``known`` ids; none where nothing is to be
        compared, or the search brings them itself.
        """
        ...

    def found(self, lookup: Lookup, body: bytes) -> Found:
        """Read a successful reply to a lookup. Raises Malformed, nothing else."""
        ...

    def joined(self, reply: Reply, found: Sequence[Found]) -> Reply:
        """The reply with the vectors that were found, in whatever order; a row of NaN for who is in none of them.

        Raises Malformed, nothing else.
        """
        ...

    def charged(self, reply: Reply, read_units: int) -> Reply:
        """The reply whose answer names so many more read units than upstream wrote. Where it wrote none that can be added
        to with certainty, the reply as it is.
        """
        ...
