"""The contract of the first step: what a collection is like, asked once where a search itself does not tell.

Rule of this file: contracts only, as in contract.py. An adapter implements it where its backend has such searches; whatever
becomes of the question, the search can be parsed without an answer, and is then left alone where it needs one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from vecsieve.adapters.contract import Operation


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request that reads, at the upstream of the search and with the client's credentials.

    ``target``: origin form, or the path of a gRPC method. ``body``: JSON, or the method's one message.
    """

    method: str
    target: str
    body: bytes = b""


@runtime_checkable
class FirstStep(Protocol):
    """Two more verbs, both pure."""

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What to ask about the search's collection; None where there is nothing to ask. Total."""
        ...

    def told(self, body: bytes) -> object:
        """Read a successful reply: what ``Needs.known`` is to hold. Raises Malformed, nothing else."""
        ...
