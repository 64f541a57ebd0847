"""The contract of names: what collections are called, where requests say their ids alone.

Rule of this file: contracts only, as in contract.py. An adapter implements it where its backend's paths carry ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from vecsieve.adapters.contract import RequestHead


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One collection: ``id`` as ``Operation.id``, ``name`` as ``Operation.collection`` has it once it is known."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """Whose name a request may change or take away: the collection of this id or name, and all whose names begin with
    ``scope``; None: no others.
    """

    key: str = ""
    scope: str | None = None


class Naming(Protocol):
    """Three more verbs, all pure and total."""

    def describes(self, head: RequestHead) -> bool:
        """Whether a success of this request tells what collections are called."""
        ...

    def described(self, body: bytes) -> tuple[Called, ...]:
        """What it tells; () for whatever is no such description."""
        ...

    def unsettles(self, head: RequestHead) -> Unsettled | None:
        """Whose names this request may change; None for one that changes none."""
        ...
