"""Which fields a Milvus client asked for, and which are added to them: the vector to compare, and what selection reads.

The real server refuses the name of a field that is not there, unless the collection is dynamic; then it is a key of ``$meta``.
That column comes whole or not at all, so that keys of it are added only where the client asks for none of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vecsieve.adapters.contract import Needs, Reason, Unsupported
from vecsieve.adapters.milvus_schema import Schema, schema_of

ALL = "*"
_ALL_VECTORS = "%"  # of servers before 2.3
# Other names are expressions, such as a path into a JSON field.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """``listed``: the client's own list. ``columns`` and ``keys``: the fields, and the keys of ``$meta``, added to it."""

    listed: tuple[str, ...]
    columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def added(self) -> tuple[str, ...]:
        """Everything that was added."""
        return (*self.columns, *self.keys)


def choose(listed: tuple[str, ...], vector: str, needs: Needs, *, keys_apart: bool = False) -> Chosen:
    """What must be added so that ``vector`` and the fields of the needs come along. ``keys_apart``: each key of ``$meta`` comes
    by itself, so that those of the client and those added can be told from each other (REST).

    Raises Unsupported where that is not to be had, or where nobody knows what the server shows unasked.
    """
    schema = schema_of(needs)
    if _ALL_VECTORS in listed:
        raise Unsupported(Reason.UNSUPPORTED_FIELD)
    if ALL in listed or (not listed and schema is not None and schema.shows_all):
        return Chosen(listed=listed)
    if not listed and schema is None:
        raise Unsupported(Reason.NOTHING_TO_DO)
    must = _missing(needs.payload_fields, listed)
    may = _missing(needs.optional_fields, listed)
    columns = () if schema is None else _columns((*must, *may), schema)
    keys = () if schema is None else _keys((*must, *may), () if keys_apart else listed, schema)
    if not {*columns, *keys}.issuperset(must):
        raise Unsupported(Reason.PAYLOAD_SELECTOR)
    wanted = columns if vector in listed else (vector, *columns)
    return Chosen(listed=listed, columns=tuple(dict.fromkeys(wanted)), keys=keys)


def _missing(names: Sequence[str], listed: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name not in listed)


def _columns(names: Iterable[str], schema: Schema) -> tuple[str, ...]:
    return tuple(name for name in names if name in schema.scalars)


def _keys(names: Iterable[str], listed: Sequence[str], schema: Schema) -> tuple[str, ...]:
    # Lite shows an empty `$meta` to those who ask for none: it could not be told from ours.
    if not schema.is_dynamic or schema.shows_all or not {*schema.scalars, *schema.vectors}.issuperset(listed):
        return ()
    fixed = schema.scalars | schema.vectors
    return tuple(name for name in names if name not in fixed and _PLAIN.fullmatch(name))
