"""The vectors of a Weaviate reply: which one is compared, and all of them as one matrix.

A collection's unnamed vector stands in two fields at once, its named ones in a list, little-endian floats in each. What has
several rows (a multivector) is not compared.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.proto_floats import matrix, packed_floats
from vecsieve.adapters.proto_wire import LENGTH, VARINT, Field, fields, only, text, unsigned
from vecsieve.adapters.weaviate_grpc_shown import LEGACY_BYTES, LEGACY_FLOATS, NAMED

# Vectors.
_NAME, _BYTES, _TYPE = 1, 3, 4
_SINGLE_TYPES = frozenset({0, 1})
UNNAMED = ""


def compare(
    data: bytes, results: Sequence[Sequence[Field]], wanted: str | None
) -> tuple[str | None, npt.NDArray[np.float32]]:
    """The name of the vector to compare ("" is the unnamed one; None where nobody has one), and (n, d) each result's; NaN rows
    for what is unusable. ``results``: the fields of each one's metadata. ``wanted``: the name, None to choose. Raises ValueError.
    """
    if wanted == UNNAMED:
        return UNNAMED, matrix([_unnamed(data, inside) for inside in results])
    if wanted is None:
        unnamed = [_unnamed(data, inside) for inside in results]
        if any(unnamed):  # where there is one, it is what a search without a name looks at
            return UNNAMED, matrix(unnamed)
    found = [_named(data, inside) for inside in results]
    # A search without a name can only be of the one there is; of several (keyword searches), the first by name.
    name = wanted if wanted is not None else min((name for each in found for name in each), default=None)
    return name, matrix([None if name is None else each.get(name) for each in found])


def name_of(data: bytes, field: Field) -> str:
    """The name of a vector in the list. Raises ValueError."""
    return _spelled(data, fields(data, field.span))


def _spelled(data: bytes, found: Sequence[Field]) -> str:
    named = only(found, _NAME, LENGTH)
    return "" if named is None else text(data, named)


def _unnamed(data: bytes, inside: Sequence[Field]) -> bytes | None:
    packed = only(inside, LEGACY_BYTES, LENGTH)
    if packed is None:
        return packed_floats(data, inside, LEGACY_FLOATS) or None
    return _whole(data[packed.value : packed.end])


def _named(data: bytes, inside: Sequence[Field]) -> dict[str, bytes]:
    """The vectors of one row in the list, by name. Raises ValueError."""
    vectors: dict[str, bytes] = {}
    for field in inside:
        if field.number != NAMED:
            continue
        found = fields(data, field.span)
        packed, kind = only(found, _BYTES, LENGTH), only(found, _TYPE, VARINT)
        if packed is not None and (kind is None or unsigned(data, kind) in _SINGLE_TYPES):
            vectors[_spelled(data, found)] = _whole(data[packed.value : packed.end])
    return vectors


def _whole(packed: bytes) -> bytes:
    if len(packed) % 4:
        raise ValueError(f"a vector of {len(packed)} bytes holds no whole floats")
    return packed
