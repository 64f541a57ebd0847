"""A labelled set as evaluation sees it. Items and relevant ids are row numbers from here on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.proxy.selection.values import Indices

Vectors = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Item:
    """One row. ``atoms``: labels of what it says. ``payload``: its other members, key to raw JSON."""

    doc: str
    atoms: tuple[str, ...]
    payload: Mapping[str, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class Query:
    """``subtopics``: per need the rows that satisfy it, in the file's order. ``relevant``: their union where the file says
    nothing else. ``candidates``: the closed list that is ranked, None for the whole corpus.
    """

    subtopics: Mapping[str, frozenset[int]]
    relevant: frozenset[int]
    candidates: Indices | None


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelledSet:
    """``vectors``: (items, d), ``query_vectors``: (queries, d); rows of length one, or zero where a vector was zero."""

    name: str
    items: tuple[Item, ...]
    queries: tuple[Query, ...]
    vectors: Vectors
    query_vectors: Vectors
