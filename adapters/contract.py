"""The adapter contract: six pure verbs, the values they exchange, the exceptions they may raise; then optional contracts."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


class Reason(StrEnum):
    """Why a classified search is bypassed. A closed set: every member is a metric label."""

    NOT_JSON = "not_json"  # content type or body is not the JSON object the operation takes
    ORDERING_CHOSEN = "ordering_chosen"  # MMR, a sample, order_by, or no ranking
    SINGLE_RESULT = "single_result"  # top_k + offset == 1: there is no choice
    AMBIGUOUS_FIELD = "ambiguous_field"  # both spellings of a field, a duplicate key, a number that is no plain integer
    UNSUPPORTED_FIELD = "unsupported_field"  # a member whose meaning the adapter does not know
    PAYLOAD_SELECTOR = "payload_selector"  # the payload selection cannot be widened and restored exactly
    TOO_MANY_SEARCHES = "too_many_searches"  # more searches in one request than `Bounds.searches`
    TOO_MANY_PARTS = "too_many_parts"  # more names, list items and objects than `Bounds.parts`, or too many numbers
    TOO_DEEP = "too_deep"  # searches nested in searches deeper than `Bounds.nesting`
    NOTHING_TO_DO = "nothing_to_do"  # no supported item in a batch, nothing to compare by, or no further candidates


class UnsupportedError(Exception):
    """A classified request that must be passed through."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class UpstreamReplyError(Exception):
    """A reply that selection cannot use. The rest of the family is in proxy/search/errors.py."""


class MalformedReplyError(UpstreamReplyError):
    """A successful reply that cannot be parsed unambiguously. The message says what was seen and where."""


class DeclinedError(MalformedReplyError):
    """The backend's own error inside a reply with a status of success. ``words``: its message, for the dialect."""

    def __init__(self, code: int, words: bytes) -> None:
        super().__init__(f"upstream answers with code {code}")
        self.code = code
        self.words = words


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """A request before its body is read. A gRPC call has the method's path, and the method POST.

    ``message``: the message of a gRPC call, which names the collection; without it the collection is "".
    """

    method: str
    path: str  # raw, percent-encoding kept, without the query string
    query: str = ""  # the query string, raw; "" over gRPC
    content_type: str = ""
    host: str = (
        ""  # host of the collection, with the path in front of its own, where each collection has a host; else ""
    )
    version: str = ""  # API version named by the client
    message: bytes = b""
    database: str = ""  # from the client's metadata (Milvus)


# Methods that only read (RFC 9110, 9.2.1).
SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})
# Paths of gRPC's own services, health and reflection, which know nothing of stored points.
GRPC_SERVICES = "/grpc."


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """A collection that a request may change. ``collection``: as ``Operation.collection``; None: any."""

    collection: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One endpoint of a backend that ranks results."""

    backend: str
    name: str  # from a closed set per adapter: a metric label
    collection: str  # decoded; selects the policy, never logged
    partition: str = ""  # part of the collection named by the path, or the query string, as spelled there; never logged
    query: str | None = None  # the query string of widened requests; None: the client's
    id: str = ""  # of the collection, if the path has no name: `collection` ends with it until the name is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """The largest request that is parsed. A larger one is passed through, because parsing would take too long.

    ``searches``: ranked lists. ``parts``: names, list items and objects, or protobuf fields, without the numbers of vectors. ``nesting``:
    levels of prefetches.
    """

    searches: int
    parts: int
    nesting: int


# For jobs, which do not run on an event loop. Qdrant refuses prefetches nested deeper than 64 levels.
UNBOUNDED = Bounds(searches=sys.maxsize, parts=sys.maxsize, nesting=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What selection needs of each candidate beside its score.

    ``vector_name``: the vector to compare by, from the policy; None lets the adapter choose. ``vector_hint``: an earlier
    ``Pool.vector_name`` of this collection, used only if the request names no dense vector. ``vectors``: False if the vectors are already
    known, or not needed; an adapter may fetch them nevertheless. ``query``: False if nobody reads the query's vector; an adapter may read it
    nevertheless. ``Pool.compared_by`` then names the vector that it would have fetched. ``values``: False
    if the values of optional fields are already known; they are then neither added nor read, and the call's needs have none. Never used for
    an adapter whose pools have no versions. ``lookups``: vectors missing from the reply will be fetched by id, if the adapter supports it.
    ``payload_fields``: top-level payload keys, in the order of ``Pool.fields``; a search that cannot return them is bypassed.
    ``optional_fields``: further keys; one that cannot be added and removed exactly is left out. ``seen_fields``: those of them that points
    of the collection have had: a backend that refuses unknown names accepts them. ``whole``: whether the whole payload is fetched if the
    client asks for none, to find where the texts are; an adapter that cannot fetches the keys only. ``known``: the parsed description of the
    collection; None without one. ``bounds``: limits on searches and nesting; ``check_size`` has counted the parts.
    """

    vector_name: str | None = None
    vector_hint: str | None = None
    vectors: bool = True
    query: bool = True
    values: bool = True
    lookups: bool = False
    payload_fields: tuple[str, ...] = ()
    optional_fields: tuple[str, ...] = ()
    seen_fields: tuple[str, ...] = ()
    whole: bool = False
    known: object | None = None
    bounds: Bounds = UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One ranked list."""

    top_k: int
    offset: int
    pages: bool  # the client named an offset, even zero, so it reads one list page by page
    query: npt.NDArray[np.float32] | None  # (d,) the dense query vector, if the request contains one
    partition: bytes = b""  # part of the collection in which ids are unique, as the request spells it; b"": all of it
    most: int | None = None  # upper bound of fetch_k, from the request or the backend
    is_cut: bool = (
        False  # the request cannot return some optional fields, even known ones, because the client excludes them
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCall:
    """One request: its supported searches, and the adapter's parsed document."""

    operation: Operation
    searches: tuple[Search, ...]
    needs: Needs
    document: object


Payloads = Callable[[Sequence[int]], Sequence[bytes | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All candidates of one search, in the backend's order.

    ``scores``: (n,) float64, the backend's numbers; NaN for a missing score. ``vectors``: (n, d) float32; a row of NaN for a candidate
    without a usable vector; d may be 0. ``fields``: per candidate, the raw JSON of each payload field of the needs, optional ones last;
    None if absent. ``payloads``: given places of candidates, as raw JSON everything that the reply has of their payloads, None
    where nothing; made when called, because a search whose texts are known does not need it. None if ``fields`` is all. ``ids``: per candidate, the raw JSON of its identifier; () if the adapter has none. ``versions``: per candidate, a
    number that grows with every change of the point, followed by the part of the collection in which its id is unique, if the reply names
    it; () if some have none. ``is_cut``: whether optional fields of the points may be missing, because they were not requested or too
    large. ``vector_name``: the vector chosen among all that were fetched, the next ``Needs.vector_hint`` ("" is the unnamed one); None if
    the request named it. ``compared_by``: the name of the vector in ``vectors``; None if no candidate has one. ``unusable``: how many
    candidates have no usable vector. ``alone``: candidates that are never merged with others, such as the point by which the search was
    made.
    """

    scores: npt.NDArray[np.float64]
    vectors: npt.NDArray[np.float32]
    fields: tuple[tuple[bytes | None, ...], ...] = ()
    payloads: Payloads | None = None
    ids: tuple[bytes, ...] = ()
    versions: tuple[bytes, ...] = ()
    is_cut: bool = False
    vector_name: str | None = None
    compared_by: str | None = None
    unusable: int = 0
    alone: tuple[int, ...] = ()
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", len(self.scores))


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A parsed reply: one pool per search of the call, and the adapter's parsed document."""

    pools: tuple[Pool, ...]
    document: object


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeAnswer:
    """An answer made by the proxy, in the backend's format. ``headers``: further fields that clients of the backend require."""

    status: int
    content_type: str
    body: bytes
    headers: tuple[tuple[str, str], ...] = ()


class Adapter(Protocol):
    """Parses and cuts the messages of one backend and transport. All verbs are pure."""

    def classify(self, head: RequestHead) -> Operation | None:
        """The operation; None for any request that is no ranked search. Never raises."""

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count the parts of a body in linear time. Raises UnsupportedError beyond ``bounds``, nothing else.

        The other verbs may be slow on a body that was not checked.
        """

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Raises UnsupportedError, nothing else."""

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The request for ``fetch_k[i]`` candidates from rank 0 for search i, with everything that the needs require.

        All other bytes are the client's. A count of 0 leaves search i unchanged; its pool is then the client's own page. If all searches of
        a request share one limit, it is the largest count, so pools may be longer than ``fetch_k[i]``.
        """

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: the results ``keep[i]`` of search i in that order, in upstream's bytes, without the additions of ``widen``.
        Raises MalformedReplyError, nothing else.
        """


class Dialect(Protocol):
    """The errors of one backend and transport. ``status``: of HTTP, or the number of a gRPC code."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """An error in the backend's format. ``path``: of the request, if formats differ by path; "" for unknown."""

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest limit that the backend accepts, if this error names it; else None."""

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether this error says that a named vector does not exist."""

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this error is a rate limit or an exhausted quota. ``body``: b"" for unknown."""

    def refusal_in_success(self, body: bytes) -> bytes | None:
        """The message of an error that has a status of success; None for an answer."""

    def is_quota_in_success(self, body: bytes) -> bool:
        """Whether such an error is a rate limit or an exhausted quota."""


def may_be_json(content_type: str) -> bool:
    """Whether a body of this content type may be JSON. An absent type is accepted: if the server refuses the widened request, the
    original is sent.
    """
    essence = content_type.partition(";")[0].strip().lower()
    return essence in {"", "application/json"} or (essence.startswith("application/") and essence.endswith("+json"))


# Bytes of optional payload fields per pool: four times what selection reads of texts.
FIELD_BYTES = 4 << 20
# Bytes of objects and lists among them in protobuf: converting them to JSON takes 0.1 microseconds per byte.
NESTED_BYTES = 1 << 18


class Allowance:
    """A budget of bytes, spent in rank order so that equal replies are read equally. It ends with the first value that does not fit."""

    __slots__ = ("left_bytes",)

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes

    def covers(self, size: int) -> bool:
        """Spend this many bytes. False if they do not fit, and from then on."""
        self.left_bytes = max(-1, self.left_bytes - size)
        return self.left_bytes >= 0


# Routing for a backend whose indexes are hosts, beside one control plane.


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRules:
    """How the paths of an index are recognized, and how answers that name hosts are rewritten. All functions are pure and total.

    ``segments``: the first path segments of requests to an index. ``is_misplaced``: whether a path ends like an index's, after a first
    segment of neither an index nor the control plane. ``describes``: whether the answer to this method and path may name hosts of indexes.
    ``rename``: a body with these hosts replaced; None leaves a host as it is.
    """

    segments: frozenset[str]
    is_misplaced: Callable[[str], bool]
    describes: Callable[[str, str], bool]
    rename: Callable[[bytes, Callable[[str], str | None]], bytes]


# Names of collections, for a backend whose paths have ids.


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One collection: ``id`` as in ``Operation.id``, ``name`` as in ``Operation.collection``."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """Collections whose names may be outdated: the one with this id or name, and all whose names begin with ``scope`` (None: none)."""

    key: str = ""
    scope: str | None = None


class Naming(Protocol):
    """Names of collections, learned from replies. All verbs are pure and total."""

    def describes(self, head: RequestHead) -> bool:
        """Whether a successful reply to this request contains names of collections."""

    def described(self, body: bytes) -> tuple[Called, ...]:
        """The names in such a reply; () if it cannot be parsed."""

    def unsettles(self, head: RequestHead) -> Unsettled | None:
        """The names that this request may change; None if it changes none."""


@runtime_checkable
class NamesInBody(Protocol):
    """A request whose path has no collection names it in the body, a batch perhaps several."""

    def collections_in(self, body: bytes) -> frozenset[str]:
        """Their names, with the database's; empty for unknown ones. Never raises."""


# Description of a collection before a search, for a backend whose searches depend on the schema. Without it, a search that needs one is
# bypassed.


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A read request, sent to the upstream of the search with the client's credentials.

    ``target``: origin form, or the path of a gRPC method. ``body``: JSON, or one message.
    """

    method: str
    target: str
    body: bytes = b""


@runtime_checkable
class DescribesCollections(Protocol):
    """Both verbs are pure."""

    def describe(self, operation: Operation, body: bytes) -> Question | None:
        """The request that describes the search's collection; None if none is needed. Never raises."""

    def parse_description(self, body: bytes) -> object:
        """``Needs.known`` from a successful reply. Raises MalformedReplyError, nothing else."""


# Additional members in the payloads of an answer, for a transport whose answers have room for them.


@runtime_checkable
class NotesResults(Protocol):
    """The verb is pure."""

    def noted(self, call: SearchCall, answer: bytes, notes: Sequence[Sequence[bytes | None]]) -> bytes:
        """A trimmed answer with ``notes[i][k]``, the JSON of an object, as the member NOTE of the payload of search i's result k. A result
        without a payload, or with such a member, is unchanged.
        """


# Vectors fetched by id after a search, for a backend with searches that return none.


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A read request without a body, sent to the upstream of the search with the client's credentials.

    ``target``: origin form. ``ids``: of the records.
    """

    method: str
    target: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LookupReply:
    """The reply to a lookup: its price in the backend's read units, and the adapter's parsed records."""

    read_units: int
    document: object


@runtime_checkable
class FetchesVectors(Protocol):
    """All verbs are pure."""

    def lookups(self, call: SearchCall, reply: Reply, known: Collection[str]) -> tuple[Lookup, ...]:
        """The requests for the vectors of the reply's candidates, except the ``known`` ids; () if the search returns vectors."""

    def parse_lookup(self, lookup: Lookup, body: bytes) -> LookupReply:
        """Raises MalformedReplyError, nothing else."""

    def joined(self, reply: Reply, replies: Sequence[LookupReply]) -> Reply:
        """The reply with the vectors found, in any order; rows of NaN for candidates without one. Raises MalformedReplyError, nothing else."""

    def charged(self, reply: Reply, read_units: int) -> Reply:
        """The reply whose answer adds these read units to upstream's; unchanged if upstream states none."""
