"""What a Milvus search is made by: the placeholder group of its request."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Reason, Unsupported
from vecsieve.adapters.milvus_schema import COMPARABLE
from vecsieve.adapters.milvus_vectors import as_query
from vecsieve.adapters.proto_request import Shape, messages, number_of, read

_PLACEHOLDERS = 1
_GROUP = Shape(frozenset(), frozenset({_PLACEHOLDERS}))
_TAG, _TYPE, _VALUES = 1, 2, 3
# 4, the level of an embedding list, is not spoken.
_PLACEHOLDER = Shape(frozenset({_TAG, _TYPE}), frozenset({_VALUES}))


@dataclass(frozen=True, slots=True, eq=False)
class Queries:
    """The queries of one search, and the DataType of the field they are made at."""

    kind: int
    packed: tuple[bytes, ...]

    @property
    def is_comparable(self) -> bool:
        """Whether they are vectors of numbers; not bits, not sparse, no text."""
        return self.kind in COMPARABLE

    def vectors(self) -> list[npt.NDArray[np.float32] | None]:
        """(d,) each, None where it is none to compare with. Raises Unsupported."""
        try:
            return [as_query(each, self.kind) for each in self.packed]
        except ValueError:
            raise Unsupported(Reason.UNSUPPORTED_FIELD) from None


def read_queries(data: bytes) -> Queries:
    """Read a PlaceholderGroup. Raises Unsupported for more than one kind of query, or none."""
    placeholders = messages(read(data, (0, len(data)), _GROUP), _PLACEHOLDERS)
    if len(placeholders) != 1:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    found = read(data, placeholders[0].span, _PLACEHOLDER)
    values = messages(found, _VALUES)
    if not values:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    return Queries(number_of(data, found, _TYPE) or 0, tuple(data[slice(*value.span)] for value in values))
