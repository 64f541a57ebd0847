"""Rows of the journal: points that were left out of writes, deleted or changed, and their states. Loads no SQLite."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b

NO_ID = b"null"  # of a point whose id the database would have created
# Placeholders for unknown ids or partitions, and for an unknown collection.
ANY, EVERYWHERE = b"*", ""
# Seconds after which reads show a write. A longer update queue is a fault of the database.
UNSEEN_SECONDS = 600.0
BUSY_SECONDS = 2.0  # seconds to wait for another process's transaction
EXPECTED = "wanted a journal of VecSieve that this process may write, on a disk with room"


class JournalError(Exception):
    """The file cannot be read or written. The message contains no content."""


class State(StrEnum):
    PENDING = "pending"  # the database has not answered
    DONE = "done"  # the client's write was acknowledged, or soon will be
    REFUSED = "refused"  # the write was not acknowledged
    UNDONE = "undone"  # it was stored after all
    REJECTED = "rejected"  # VecSieve refused the write
    SUPERSEDED = "superseded"  # a later content of its id was stored, or a client deleted it
    DOUBTED = "doubted"  # a client may have deleted it


class Kind(StrEnum):
    LEFT_OUT = "left_out"  # it is not stored
    REMOVED = "removed"  # it was stored, until a new point replaced it or a sweep deleted it
    CHANGED = "changed"  # it was stored, but changed


def new_number() -> int:
    """The first number of a pending deletion, with room for its ids: its process can end it, even if the journal never answered."""
    return secrets.randbits(46) << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A point that is not stored as it was. ``partition``: the part of the collection that the write named, in its spelling, b"" without one. ``id``,
    ``survivor``: JSON. ``point``: in the form that the backend accepts; the client's own bytes, unless it was stored. ``became``: what is
    stored in place of a changed point, None for others.
    """

    collection: str
    partition: bytes
    id: bytes
    survivor: bytes
    tier: str
    similarity: float
    point: bytes
    kind: Kind = Kind.LEFT_OUT
    became: bytes | None = None

    @property
    def hash(self) -> bytes:
        """Of the content; rows with equal hashes are the same point."""
        return blake2b(self.point, digest_size=16).digest()

    @property
    def key(self) -> tuple[str, bytes, bytes]:
        return self.collection, self.partition, self.hash


@dataclass(frozen=True, slots=True, kw_only=True)
class Row(LeftOut):
    """A point in the journal. ``at``: seconds since the epoch."""

    number: int
    at: float


@dataclass(frozen=True, slots=True)
class Head:
    """The description of a row, without its content. ``size``: bytes of the content."""

    number: int
    collection: str
    partition: bytes
    id: bytes
    size: int
    kind: Kind
