"""The parameters of a Milvus search: what they say of how it is ranked, and how many candidates it may be asked for.

The same for gRPC and REST. What is not known exactly leaves the search alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from vecsieve.adapters.contract import Needs, Reason, UnsupportedError
from vecsieve.adapters.milvus.schema import BFLOAT16, FLOAT, FLOAT16, INT8, Schema, schema_of
from vecsieve.adapters.wire.json import Members, RepeatedKeyError, Span, members, whole

# The server's limit on topk, and on offset and topk together.
LARGEST_WINDOW = 16_384
# A reply of more vectors than this is neither needed nor wanted; it bounds many queries times many candidates.
REPLY_BYTES = 64 * 1024 * 1024

# Parameters of the index that must not be smaller than topk: HNSW, DiskANN, SCANN and its kin, CAGRA. Widening ends there.
_BOUNDS = ("ef", "search_list", "reorder_k", "itopk_size")
# A range has its own end; groups, iterators and orders are the client's own choice of rows.
_RANGES = frozenset({"radius", "range_filter"})
_CHOSEN = re.compile(r"group_by.*|group_size|strict_group_size|search_iter.*|iterator|order_by.*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_INNER_LIMITS = frozenset({"topk", "limit"})
OFFSET = "offset"


def check_chosen(names: Iterable[str]) -> None:
    """Raises UnsupportedError where a parameter makes an order or a selection of the client's own."""
    if any(_CHOSEN.fullmatch(name) for name in names):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)


def number(text: str) -> int:
    """A plain whole number. Raises UnsupportedError."""
    if not _NUMBER.fullmatch(text):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return int(text)


def read_inner(text: bytes, span: Span | None = None) -> Members:
    """The members of the JSON object of index parameters; none of "". Raises UnsupportedError."""
    if not text.strip():
        return {}
    try:
        found = members(text, whole(text) if span is None else span)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    check_chosen(found)
    if not found.keys().isdisjoint(_RANGES | _INNER_LIMITS):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return found


def bound(text: bytes, inner: Members) -> int:
    """How many candidates the index parameters allow."""
    return min((number_at(text, inner, name) or LARGEST_WINDOW for name in _BOUNDS), default=LARGEST_WINDOW)


def number_at(text: bytes, inner: Members, name: str) -> int | None:
    """The whole number of a member, which may be spelled as text; None where it is absent. Raises UnsupportedError."""
    member = inner.get(name)
    if member is None:
        return None
    return number(text[member.value : member.end].decode(errors="replace").strip('"'))


def most(inner_bound: int, *, dimension: int, queries: int) -> int:
    """How many candidates of each query may be asked for, from rank 0."""
    return min(inner_bound, LARGEST_WINDOW, REPLY_BYTES // (4 * max(dimension, 1) * queries))


def check_page(top_k: int, offset: int) -> None:
    """Raises UnsupportedError for a page that has nothing to choose among, or that upstream refuses."""
    if not top_k:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    if top_k + offset == 1:
        raise UnsupportedError(Reason.SINGLE_RESULT)


# Which fields a Milvus client asked for, and which are added to them: the vector to compare, and what selection reads.
#
# The real server refuses the name of a field that is not there, unless the collection is dynamic; then it is a key of ``$meta``.
# That column comes whole or not at all, so that keys of it are added only where the client asks for none of its own.

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

    Raises UnsupportedError where that is not to be had, or where nobody knows what the server shows unasked.
    """
    schema = schema_of(needs)
    if _ALL_VECTORS in listed:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if ALL in listed or (not listed and schema is not None and schema.shows_all):
        return Chosen(listed=listed)
    if not listed and schema is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    must = _missing(needs.payload_fields, listed)
    may = _missing(needs.optional_fields, listed)
    columns = () if schema is None else _columns((*must, *may), schema)
    keys = () if schema is None else _keys((*must, *may), () if keys_apart else listed, schema)
    if not {*columns, *keys}.issuperset(must):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
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


# Milvus's vectors as rows of float32, whatever number they are stored as.

Matrix = npt.NDArray[np.float32]

# DataType -> bytes a number.
NUMBER_BYTES: Mapping[int, int] = {FLOAT: 4, FLOAT16: 2, BFLOAT16: 2, INT8: 1}


def numbers(packed: bytes, kind: int) -> Matrix:
    """The numbers of a vector, or of several behind each other. ``packed``: whole numbers of ``kind``."""
    if kind == FLOAT:
        return np.frombuffer(packed, dtype="<f4").astype(np.float32, copy=False)
    if kind == FLOAT16:
        return np.frombuffer(packed, dtype="<f2").astype(np.float32)
    if kind == BFLOAT16:  # the upper half of a float32
        return (np.frombuffer(packed, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(packed, dtype=np.int8).astype(np.float32)


def as_query(packed: bytes, kind: int) -> Matrix | None:
    """(d,) a query vector; None where it is none to compare with. Raises ValueError for half a number."""
    if len(packed) % NUMBER_BYTES[kind]:
        raise ValueError(f"{len(packed)} bytes are no whole numbers of type {kind}")
    found = numbers(packed, kind)
    return found if len(found) and bool(np.isfinite(found).all()) else None


def as_matrix(packed: bytes, kind: int, width: int, rows: npt.NDArray[np.intp]) -> Matrix:
    """(n, d) the vectors ``rows`` of those packed behind each other, ``width`` bytes each; NaN for a row of -1, and where a
    value is not finite.
    """
    found = numbers(packed, kind).reshape(-1, width // NUMBER_BYTES[kind])
    # A row that is missing takes the place of another, and is then blotted out.
    matrix = found[rows] if len(found) else np.zeros((len(rows), found.shape[1]), dtype=np.float32)
    matrix[(rows < 0) | ~np.isfinite(matrix).all(axis=1)] = np.nan
    return matrix
