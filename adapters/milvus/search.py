"""Code that both transports share: the description of a collection, search parameters, output fields, vectors, and how a hybrid search
fuses its lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt
import orjson

from ..contract import MalformedReplyError, Needs, Reason, UnsupportedError
from ..fusions import Fusion, Method, Undivided, UndividedError
from ..wire.json import Members, RepeatedKeyError, Span, members_of, whole
from ..wire.vectors import usable
from ..writes import Tenant
from .fields import FIRST_VECTOR, JSON, VARCHAR, FieldType, RestField, bare, type_of

# DataType. Binary and sparse vectors, and lists of vectors, are not compared.
FLOAT, FLOAT16, BFLOAT16, INT8 = 101, 102, 103, 105
COMPARABLE = frozenset({FLOAT, FLOAT16, BFLOAT16, INT8})


@dataclass(frozen=True, slots=True, kw_only=True)
class Schema:
    """``vectors``: the comparable fields. ``scalars``: the fields that are no vectors; ``documents``: those of type JSON. ``is_dynamic``:
    rows may have further keys. ``shows_all``: a search without output fields returns all of them, as in Milvus Lite. ``primary``: the field
    of the ids, which gRPC returns separately; "" for unknown. ``has_texts``: whether they are texts; REST may write numbers as texts, too.
    ``metrics``: pairs of a field and the metric of its index, if the description names it (REST). ``is_restorable``: whether rows read over
    this transport can be stored again unchanged: clients set the ids, and REST returns all values in the form in which they are written.
    ``fields``: all with their types, for merged rows.
    """

    vectors: frozenset[str]
    scalars: frozenset[str]
    documents: frozenset[str] = frozenset()
    is_dynamic: bool = False
    shows_all: bool = False
    primary: str = ""
    has_texts: bool = False
    metrics: frozenset[tuple[str, str]] = frozenset()
    is_restorable: bool = True
    fields: Mapping[str, FieldType] = field(default_factory=dict, compare=False)

    def metric_of(self, field: str) -> str | None:
        """In capitals; None if unknown."""
        metrics = {metric.upper() for name, metric in self.metrics if name == field}
        return metrics.pop() if len(metrics) == 1 else None

    @property
    def texts(self) -> tuple[str, ...]:
        """The fields that may have texts, but for the ids."""
        return tuple(
            name
            for name, field_type in self.fields.items()
            if field_type.kind in {VARCHAR, JSON} and name != self.primary
        )

    @property
    def only_vector(self) -> str | None:
        """The only comparable field; None when there are several, or none."""
        return next(iter(self.vectors)) if len(self.vectors) == 1 else None


def schema_of(needs: Needs) -> Schema | None:
    """``Needs.known``. Raises TypeError for another adapter's."""
    if needs.known is None:
        return None
    if not isinstance(needs.known, Schema):
        raise TypeError("the collection was described by another adapter")
    return needs.known


def of_types(
    types: Mapping[str, int], *, is_dynamic: bool, shows_all: bool, primary: str = "", has_texts: bool = False
) -> Schema:
    """``types``: name -> DataType."""
    return Schema(
        vectors=frozenset(name for name, kind in types.items() if kind in COMPARABLE),
        scalars=frozenset(name for name, kind in types.items() if 0 < kind < FIRST_VECTOR),
        documents=frozenset(name for name, kind in types.items() if kind == JSON),
        is_dynamic=is_dynamic,
        shows_all=shows_all,
        primary=primary,
        has_texts=has_texts,
    )


# Over REST. Vectors of half floats and of int8 are not compared: their JSON form is not documented.

_SUCCESS = frozenset({0, 200})
_SCALAR, _OTHER = 1, 0
_VECTOR = "FloatVector"
# Types whose values queries return in the form in which they are written. Documents are returned as text, arrays as messages.
_AS_WRITTEN = frozenset({"Bool", "Int8", "Int16", "Int32", "Int64", "Float", "Double", "VarChar", _VECTOR})


class _Index(msgspec.Struct):
    fieldName: str | None = None  # noqa: N815 - the name on the wire
    metricType: str | None = None  # noqa: N815 - the name on the wire


class _Collection(msgspec.Struct):
    fields: list[RestField]
    enableDynamicField: bool = False  # noqa: N815 - the name on the wire
    indexes: list[_Index] | None = None
    collectionID: int | str | None = None  # noqa: N815 - the name on the wire


class _Description(msgspec.Struct):
    code: int
    data: _Collection


_DECODER = msgspec.json.Decoder(_Description)


def read_rest_description(body: bytes) -> Schema:
    """A reply to a description, of either version. Raises MalformedReplyError, nothing else."""
    try:
        read = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise MalformedReplyError(f"description: {error}") from None
    if read.code not in _SUCCESS:
        raise MalformedReplyError(f"description: upstream answers with code {read.code}")
    types = {field.name: _kind(field.type) for field in read.data.fields}
    primary = next((field for field in read.data.fields if field.primaryKey), RestField("", ""))
    known = of_types(
        types,
        is_dynamic=read.data.enableDynamicField,
        shows_all=read.data.collectionID == 0,  # as over gRPC: Lite, behind a REST front end
        primary=primary.name,
        has_texts=primary.type.startswith("VarChar"),
    )
    indexes = read.data.indexes or ()
    metrics = {(index.fieldName, index.metricType) for index in indexes if index.fieldName and index.metricType}
    is_restorable = all(not field.autoId and bare(field.type) in _AS_WRITTEN for field in read.data.fields)
    all_types = {field.name: type_of(field) for field in read.data.fields}
    return replace(known, metrics=frozenset(metrics), is_restorable=is_restorable, fields=all_types)


def _kind(name: str) -> int:
    """A DataType, as far as it is needed."""
    base = bare(name)
    if base == _VECTOR:
        return FLOAT
    if base == "JSON":
        return JSON
    return _OTHER if "Vector" in base or "Struct" in base else _SCALAR


# The server's limit on topk, and on offset and topk together.
LARGEST_WINDOW = 16_384
# Limits the vectors of a reply: many queries times many candidates.
REPLY_BYTES = 64 * 1024 * 1024

# Index parameters that must not be smaller than topk: HNSW, DiskANN, SCANN and its variants, CAGRA.
_BOUNDS = ("ef", "search_list", "reorder_k", "itopk_size")
# A range limits the results itself; groups, iterators and orders are the client's own selection.
_RANGES = frozenset({"radius", "range_filter"})
_CHOSEN = re.compile(r"group_by.*|group_size|strict_group_size|search_iter.*|iterator|order_by.*")
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_INNER_LIMITS = frozenset({"topk", "limit"})
OFFSET = "offset"


def check_chosen(names: Iterable[str]) -> None:
    """Raises UnsupportedError for a parameter of an order or a selection."""
    if any(_CHOSEN.fullmatch(name) for name in names):
        raise UnsupportedError(Reason.ORDERING_CHOSEN)


def number(text: str) -> int:
    """A non-negative integer below 10⁹. Raises UnsupportedError."""
    if not _NUMBER.fullmatch(text):
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD)
    return int(text)


def read_inner(text: bytes, span: Span | None = None) -> Members:
    """The members of the index parameters; none for "". Raises UnsupportedError."""
    if not text.strip():
        return {}
    try:
        parameters = members_of(text, whole(text) if span is None else span)
    except RepeatedKeyError:
        raise UnsupportedError(Reason.AMBIGUOUS_FIELD) from None
    except ValueError:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD) from None
    check_chosen(parameters)
    if not parameters.keys().isdisjoint(_RANGES | _INNER_LIMITS):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return parameters


def bound(text: bytes, inner: Members) -> int:
    """The most candidates that the index parameters allow."""
    return min((number_at(text, inner, name) or LARGEST_WINDOW for name in _BOUNDS), default=LARGEST_WINDOW)


def number_at(text: bytes, inner: Members, name: str) -> int | None:
    """The number of a member, which may be in quotes; None if absent. Raises UnsupportedError."""
    member = inner.get(name)
    if member is None:
        return None
    return number(text[member.value : member.end].decode(errors="replace").strip('"'))


def most(inner_bound: int, *, dimension: int, queries: int) -> int:
    """The most candidates of each query, from rank 0."""
    return min(inner_bound, LARGEST_WINDOW, REPLY_BYTES // (4 * max(dimension, 1) * queries))


# Output fields. The server (not Lite) refuses the name of a missing field, unless the collection is dynamic: then it is a key of ``$meta``.
# That column is returned completely, so keys are added only if the client selects none.

ALL = "*"
_ALL_VECTORS = "%"  # of servers before 2.3
# Other names are expressions, such as a path into a JSON field.
_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """``listed``: the client's list. ``columns`` and ``keys``: the fields, and the keys of ``$meta``, added to it."""

    listed: tuple[str, ...]
    columns: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()

    @property
    def added(self) -> tuple[str, ...]:
        """Both."""
        return (*self.columns, *self.keys)


def choose(listed: tuple[str, ...], vector: str, needs: Needs, *, keys_apart: bool = False) -> Chosen:
    """The additions for ``vector``, if it is needed, and the fields of the needs. ``keys_apart``: keys of ``$meta`` are returned one by one
    (REST).

    Raises UnsupportedError if a required field is not available, or if the server's default output is unknown.
    """
    schema = schema_of(needs)
    if _ALL_VECTORS in listed:
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    if ALL in listed or (not listed and schema is not None and schema.shows_all):
        return Chosen(listed=listed)
    if not listed and schema is None:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    must = _missing(needs.payload_fields, listed)
    # The schema names every field: no name has to be guessed.
    texts = schema.texts if schema is not None and needs.whole and needs.optional_fields else ()
    may = _missing((*needs.optional_fields, *texts), listed)
    columns = () if schema is None else tuple(name for name in (*must, *may) if name in schema.scalars)
    keys = () if schema is None else _keys((*must, *may), () if keys_apart else listed, schema)
    if not {*columns, *keys}.issuperset(must):
        raise UnsupportedError(Reason.PAYLOAD_SELECTOR)
    needed = columns if vector in listed or not needs.vectors else (vector, *columns)
    return Chosen(listed=listed, columns=tuple(dict.fromkeys(needed)), keys=keys)


def compared(ranked_by: str | None, needs: Needs) -> str:
    """The field to compare by: the policy's, the one that is searched, or the only vector of the schema. Raises UnsupportedError."""
    if needs.vector_name is not None:
        return needs.vector_name
    schema = schema_of(needs)
    name = ranked_by or (None if schema is None else schema.only_vector)
    if not name:
        raise UnsupportedError(Reason.NOTHING_TO_DO)
    return name


def _missing(names: Sequence[str], listed: Sequence[str]) -> tuple[str, ...]:
    return tuple(name for name in dict.fromkeys(names) if name not in listed)


def _keys(names: Iterable[str], listed: Sequence[str], schema: Schema) -> tuple[str, ...]:
    # Lite returns an empty `$meta` that was not selected, which could not be distinguished from an added one.
    if not schema.is_dynamic or schema.shows_all or not {*schema.scalars, *schema.vectors}.issuperset(listed):
        return ()
    fixed = schema.scalars | schema.vectors
    return tuple(name for name in names if name not in fixed and _PLAIN.fullmatch(name))


Matrix = npt.NDArray[np.float32]

# DataType -> bytes a number.
NUMBER_BYTES: Mapping[int, int] = {FLOAT: 4, FLOAT16: 2, BFLOAT16: 2, INT8: 1}


def numbers(packed: bytes, kind: int) -> Matrix:
    """The float32 of one or several vectors. ``packed``: whole numbers of ``kind``."""
    if kind == FLOAT:
        return np.frombuffer(packed, dtype="<f4").astype(np.float32, copy=False)
    if kind == FLOAT16:
        return np.frombuffer(packed, dtype="<f2").astype(np.float32)
    if kind == BFLOAT16:  # the upper half of a float32
        return (np.frombuffer(packed, dtype="<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(packed, dtype=np.int8).astype(np.float32)


def as_query(packed: bytes, kind: int) -> Matrix | None:
    """(d,) a query vector; None if it is empty or not finite. Raises ValueError for an incomplete number."""
    if len(packed) % NUMBER_BYTES[kind]:
        raise ValueError(f"{len(packed)} bytes are no whole numbers of type {kind}")
    return usable(numbers(packed, kind))


def as_matrix(packed: bytes, kind: int, width: int, rows: npt.NDArray[np.intp] | None) -> Matrix:
    """(n, d) the vectors with the indices ``rows``, None for all, ``width`` bytes each; NaN for an index of -1, and for values that are not
    finite.
    """
    matrix = numbers(packed, kind).reshape(-1, width // NUMBER_BYTES[kind])
    if rows is not None:
        # An index of -1 selects the last row, which is then overwritten.
        matrix = matrix[rows] if len(matrix) else np.zeros((len(rows), matrix.shape[1]), dtype=np.float32)
    unusable = ~np.isfinite(matrix).all(axis=1)
    if rows is not None:
        unusable |= rows < 0
    if unusable.any():
        matrix = matrix.copy()  # a view of bytes is read-only
        matrix[unusable] = np.nan
    return matrix


# Texts without escapes, quotes and control characters; ids as JSON: these have a safe spelling in an expression.
_SURE = re.compile(r'[^"\\\x00-\x1f\x7f-\x9f]*')
_NUMBERS, _TEXTS = re.compile(rb'"?(-?[0-9]{1,20})"?'), re.compile(rb'("[ !#-\[\]-~]*")')


def condition(tenant: Tenant) -> str:
    """The expression that these keys have these values; "" for none. Raises UnsupportedError for values without a safe spelling."""
    clauses: list[str] = []
    for key, value in tenant:
        spelled = orjson.loads(value)
        if not _PLAIN.fullmatch(key) or (isinstance(spelled, str) and not _SURE.fullmatch(spelled)):
            raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
        clauses.append(f"{key} == {value.decode()}")
    return " and ".join(clauses)


def ids_among(schema: Schema, ids: Sequence[bytes]) -> str:
    """The expression that an id is one of these (JSON). Raises UnsupportedError if one, or their field, has no safe spelling."""
    spelled = [match[1].decode() for match in map((_TEXTS if schema.has_texts else _NUMBERS).fullmatch, ids) if match]
    if len(spelled) < len(ids) or not _PLAIN.fullmatch(schema.primary):
        raise UnsupportedError(Reason.UNSUPPORTED_FIELD)
    return f"{schema.primary} in [{', '.join(spelled)}]"


# How a hybrid search fuses its lists: the rank parameters. From Milvus' sources (2.4 to 3.0), tested on Milvus Lite 2.5 and 3.2. Servers
# sum in 32 bits, Lite since 3 in 64; both rank equal scores by their ids. A weighted sum needs the metric of each list, which only the
# request names, and whether scores are normed, whose default differs between servers: if the request does not have both, the database
# fuses.

UNROUNDED = "-1"  # of `round_decimal`, its default
_DEFAULT_K = 60  # without a strategy
_LARGEST_K = 16_384  # exclusive
_METRICS = frozenset({"COSINE", "IP", "BM25", "L2", "HAMMING", "JACCARD"})
# For other metrics Lite fuses numbers of 64 bits, or of the other sign, which its replies do not contain.
_LITE_METRICS = frozenset({"COSINE", "IP"})


def fusion_of(
    strategy: str | None, params: bytes, *, metrics: Sequence[str | None], limit: int, needs: Needs
) -> Fusion:
    """``strategy``: None for none. ``params``: its parameters, a JSON text. ``metrics``: of each list, as the request names them.

    Raises UndividedError, or ValueError for parameters that are no object.
    """
    schema = schema_of(needs)
    is_lite = schema is not None and schema.shows_all
    named = _named(params)
    if strategy is None and not named:
        return _rrf(_DEFAULT_K, limit=limit, is_lite=is_lite)
    if strategy == "rrf" and named.keys() == {"k"}:
        return _rrf(named["k"], limit=limit, is_lite=is_lite)
    if strategy == "weighted" and named.keys() == {"weights", "norm_score"}:
        return _weighted(named, metrics, limit=limit, is_lite=is_lite)
    raise UndividedError(Undivided.MEMBER)


def _named(params: bytes) -> dict[str, Any]:
    """Raises ValueError, also for a repeated name."""
    if not params.strip():
        return {}
    members_of(params, whole(params))
    parameters: dict[str, Any] = orjson.loads(params)
    return parameters


def _rrf(k: object, *, limit: int, is_lite: bool) -> Fusion:
    """If k is no whole number, servers round the ranks differently."""
    if not isinstance(k, int | float) or isinstance(k, bool) or not 0 < k < _LARGEST_K:
        raise UndividedError(Undivided.MEMBER)
    if k != int(k):
        raise UndividedError(Undivided.INEXACT)
    # Ranks count from 1 in Milvus, and from 0 in the formula.
    return Fusion(method=Method.RRF, limit=limit, k=int(k) + 1, is_double=is_lite, is_by_id=True)


def _weighted(named: dict[str, Any], metrics: Sequence[str | None], *, limit: int, is_lite: bool) -> Fusion:
    weights, is_normed = named["weights"], named["norm_score"]
    if not isinstance(weights, list) or not isinstance(is_normed, bool) or len(weights) != len(metrics):
        raise UndividedError(Undivided.MEMBER)
    if any(
        isinstance(weight, bool) or not isinstance(weight, int | float) or not 0 <= weight <= 1 for weight in weights
    ):
        raise UndividedError(Undivided.MEMBER)
    known = [metric.upper() for metric in metrics if metric is not None]
    if len(known) < len(metrics) or not (_LITE_METRICS if is_lite else _METRICS).issuperset(known):
        raise UndividedError(Undivided.INEXACT)
    return Fusion(
        method=Method.WEIGHTED,
        limit=limit,
        weights=tuple(map(float, weights)),
        metrics=tuple(known),
        is_normed=is_normed,
        is_double=is_lite,
        is_by_id=True,
    )
