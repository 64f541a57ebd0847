"""Which of a collection's vectors a job reads: one dense vector a point, chosen by name or because there is no other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from vecsieve.proxy.jobs.source import SourceError


class _Metric(Protocol):
    @property
    def value(self) -> str: ...


class _Declared(Protocol):
    """What is read of the client's VectorParams, whose module is not loaded before a job runs."""

    @property
    def size(self) -> int: ...
    @property
    def distance(self) -> _Metric: ...
    @property
    def multivector_config(self) -> object | None: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Dense:
    """The chosen vector. ``names``: every one that could have been chosen, sorted; "" is the unnamed one."""

    name: str
    dimension: int
    distance: str
    names: tuple[str, ...]


def choose(vectors: _Declared | Mapping[str, _Declared] | None, *, wanted: str | None, collection: str) -> Dense:
    """The vector called ``wanted``; None: the unnamed one, or the only one. Raises SourceError that names those there are.

    ``vectors``: as the client gives a collection's, sparse ones apart.
    """
    declared = {} if vectors is None else dict(vectors) if isinstance(vectors, Mapping) else {"": vectors}
    if not declared:
        raise SourceError(f"collection {collection!r} has only sparse vectors; wanted a dense one")
    names = tuple(sorted(name for name, each in declared.items() if each.multivector_config is None))
    if not names:
        raise SourceError(f"collection {collection!r} has only multivectors; wanted one dense vector a point")
    there = ", ".join(name or '"" (unnamed)' for name in names)
    if wanted is None and len(names) > 1 and "" not in names:
        raise SourceError(f"collection {collection!r} has several vectors; say which with --vector: {there}")
    name = names[0] if wanted is None else wanted  # sorted: the unnamed one first
    if name in declared and name not in names:
        raise SourceError(f"vector {name!r} of {collection!r} holds several vectors a point; wanted one of: {there}")
    if name not in names:
        raise SourceError(f"collection {collection!r} has no dense vector {name!r}; it has: {there}")
    found = declared[name]
    return Dense(name=name, dimension=found.size, distance=found.distance.value, names=names)
