"""The description of a collection, from REST: its properties and their types, its vectors and their distances."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from vecsieve.adapters.contract import MalformedReplyError

UNNAMED = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """``types``: of the properties by name. ``distances``: of the vectors by name, UNNAMED of the one without."""

    name: str
    types: Mapping[str, str]
    distances: Mapping[str, str]

    def target(self, name: str) -> str | None:
        """The vector that objects call so: the one without a name may be the only named one. None for unknown."""
        if name == UNNAMED and name not in self.distances and len(self.distances) == 1:
            return next(iter(self.distances))
        return name if name in self.distances else None


class _Property(msgspec.Struct):
    name: str
    dataType: list[str]  # noqa: N815 - the name on the wire


class _Index(msgspec.Struct):
    distance: str = ""


class _Vector(msgspec.Struct):
    vectorIndexConfig: _Index | None = None  # noqa: N815 - the name on the wire


class _Class(msgspec.Struct, rename={"name": "class"}):
    name: str
    properties: list[_Property] | None = None
    vectorIndexConfig: _Index | None = None  # noqa: N815 - the name on the wire
    vectorConfig: dict[str, _Vector] | None = None  # noqa: N815 - the name on the wire


_DECODER = msgspec.json.Decoder(_Class)


def read_schema(body: bytes) -> Schema:
    """Raises MalformedReplyError, nothing else."""
    try:
        read = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReplyError(f"description: {type(error).__name__}") from None
    named = {name: vector.vectorIndexConfig or _Index() for name, vector in (read.vectorConfig or {}).items()}
    if read.vectorIndexConfig is not None or not named:
        named[UNNAMED] = read.vectorIndexConfig or _Index()
    return Schema(
        name=read.name,
        types={each.name: each.dataType[0] for each in read.properties or () if len(each.dataType) == 1},
        distances={name: index.distance for name, index in named.items()},
    )
