"""A project's indexes, and where each can be reached."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable
from typing import NamedTuple

from servers.pinecone.errors import ALREADY_EXISTS, FORBIDDEN, NOT_FOUND, Refusal
from servers.pinecone.schema import Description
from servers.pinecone.store import Index


class Place(NamedTuple):
    """Where an index is: the strings the control plane shows for it."""

    host: str
    private_host: str


class Project:
    """Indexes by name. `place` decides where a new one, known by its label, can be reached."""

    def __init__(self, place: Callable[[str], Place]) -> None:
        self.indexes: dict[str, Index] = {}
        self._place = place
        self._numbers = itertools.count(1)

    def unused_name(self) -> str:
        """A name for an index that brings none."""
        return next(name for number in self._numbers if (name := f"index-{number}") not in self.indexes)

    def add(self, description: Description) -> Index:
        """Make an index. Raises Refusal when the name is taken."""
        if description.name in self.indexes:
            raise Refusal(ALREADY_EXISTS, "Resource  already exists")
        place = self._place(label_of(description.name))
        index = Index(description=description, host=place.host, private_host=place.private_host)
        self.indexes[description.name] = index
        return index

    def index(self, name: str) -> Index:
        """The index of this name. Raises Refusal."""
        if name not in self.indexes:
            raise Refusal(NOT_FOUND, f"Resource {name} not found")
        return self.indexes[name]

    def remove(self, name: str) -> None:
        """Delete an index, unless it is protected. Raises Refusal."""
        if self.index(name).description.deletion_protection == "enabled":
            raise Refusal(
                FORBIDDEN,
                "Deletion protection is enabled for this index. Disable deletion protection before retrying.",
            )
        del self.indexes[name]

    def labelled(self, label: str) -> Index | None:
        """The index whose host begins with this label."""
        return next((index for name, index in self.indexes.items() if label_of(name) == label), None)


def label_of(name: str) -> str:
    """The first label of an index's host: its name and a hash, as in `movies-c01b5b5.svc.….pinecone.io`."""
    return f"{name}-{hashlib.blake2b(name.encode(), digest_size=4).hexdigest()[:7]}"
