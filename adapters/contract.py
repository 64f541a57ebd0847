"""The adapter contract: six pure verbs, the values they exchange, the two exceptions they may raise.

Rule of this file: contracts only, no behaviour. Nothing here awaits, logs, reads a clock or knows a setting.
"""

from __future__ import annotations

import sys
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt


class Reason(StrEnum):
    """Why a classified search is deliberately left alone. A closed set: every member is a metric label."""

    NOT_JSON = "not_json"  # content type or body is not the JSON object the operation takes
    ORDERING_CHOSEN = "ordering_chosen"  # the client asked for MMR, a sample, order_by or no ranking at all
    SINGLE_RESULT = "single_result"  # top_k + offset == 1: the first result is its own representative
    AMBIGUOUS_FIELD = "ambiguous_field"  # both spellings of a field, a duplicate key, a number that is no plain integer
    UNSUPPORTED_FIELD = "unsupported_field"  # a member whose meaning this adapter does not know exactly
    PAYLOAD_SELECTOR = "payload_selector"  # the payload selection could not be widened and restored exactly
    TOO_MANY_SEARCHES = "too_many_searches"  # more searches in one request than `Bounds.searches`
    TOO_MANY_PARTS = (
        "too_many_parts"  # more names, list items and objects than `Bounds.parts`, or more numbers than are read
    )
    TOO_DEEP = "too_deep"  # searches nested in searches deeper than `Bounds.nesting`
    NOTHING_TO_DO = (
        "nothing_to_do"  # no item of a batch is ours; or nothing to compare, or no more than asked for, can be had
    )


class UnsupportedError(Exception):
    """A classified request that must go through untouched."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class UpstreamReplyError(Exception):
    """A reply of the database that selection cannot use. The rest of the family is in proxy/search/errors.py."""


class MalformedReplyError(UpstreamReplyError):
    """A successful reply whose bytes cannot be read with certainty. The message says what was seen and where."""


class DeclinedError(MalformedReplyError):
    """A reply that only the transport calls a success: the backend's own refusal. ``words``: what it says, for the dialect."""

    def __init__(self, code: int, words: bytes) -> None:
        super().__init__(f"upstream answers with code {code}")
        self.code = code
        self.words = words


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestHead:
    """What is known of a request before its body is read. A gRPC method's head has its path, and the method POST.

    ``message``: the request's one message, where that names the collection (gRPC); without it the collection is "".
    """

    method: str
    path: str  # raw, percent-encoding kept, without the query string
    content_type: str = ""
    host: str = ""  # the host this request goes to, and the path it is behind there, where a backend has one a collection; "" elsewhere
    version: str = ""  # of the backend's interface, as the client names it; "" where it names none
    message: bytes = b""
    database: str = ""  # that the client's metadata names beside the message (Milvus); "" where it names none


@dataclass(frozen=True, slots=True, kw_only=True)
class Touched:
    """What a request that is passed through may change. ``collection``: as ``Operation.collection``; None: any."""

    collection: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One endpoint of a backend that ranks results."""

    backend: str
    name: str  # from a closed set per adapter: a metric label
    collection: str  # decoded; used to find the policy, never logged
    partition: str = ""  # the part of the collection that the path names, as it is spelled there; never logged
    id: str = ""  # what the path says where it has no name: `collection` ends in it until the name is known


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """How much one request may hold. Whatever holds more goes through untouched, because reading it would take too long.

    ``searches``: ranked lists in one request. ``parts``: names, list items and objects, over gRPC fields; the numbers of a vector
    are none. ``nesting``: levels of searches that feed other searches.
    """

    searches: int
    parts: int
    nesting: int


# Where nobody's loop is held, as in jobs. Qdrant itself refuses searches nested deeper than 64 levels.
UNBOUNDED = Bounds(searches=sys.maxsize, parts=sys.maxsize, nesting=64)


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What selection wants of each candidate beside its score.

    ``vector_name``: the vector to compare by, when a policy names it; None lets the adapter choose.
    ``vector_hint``: what an earlier ``Pool.vector_name`` found for this collection. It is used only where the request
    itself does not tell (a sparse or multivector query), so that a hint never overrules what a request says.
    ``vectors``: False where whoever asks has them already; an adapter may fetch them all the same.
    ``lookups``: vectors that a search cannot bring will be read by a second request, where the adapter knows one.
    ``payload_fields``: top-level payload keys whose values are wanted per candidate, in this order.
    ``optional_fields``: further ones, wanted where they can be had and taken out again exactly; a client's payload selection
    that makes this impossible for one of them costs that field, not the search.
    ``known``: what the adapter's own first step found out about the collection; None where it was not taken or failed.
    ``bounds``: how many searches a request may hold, and how deeply nested; its parts were counted by ``check_size``.
    """

    vector_name: str | None = None
    vector_hint: str | None = None
    vectors: bool = True
    lookups: bool = False
    payload_fields: tuple[str, ...] = ()
    optional_fields: tuple[str, ...] = ()
    known: object | None = None
    bounds: Bounds = UNBOUNDED


@dataclass(frozen=True, slots=True, kw_only=True)
class Search:
    """One ranked list a client asked for."""

    top_k: int
    offset: int
    pages: bool  # the client named an offset, even zero: it reads one list page by page
    query: npt.NDArray[np.float32] | None  # (d,) the dense query vector, when the request carries one
    partition: bytes = b""  # what part of the collection ids are unique in, as the request spells it; b"" for the whole
    most: int | None = None  # how many candidates may be asked for at most: the request's limit, or the backend's


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchCall:
    """One request: the searches in it that are ours, and the adapter's own parsed document."""

    operation: Operation
    searches: tuple[Search, ...]
    needs: Needs
    document: object


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """All candidates of one search, in the backend's order.

    ``scores``: (n,) float64, the backend's numbers; NaN where a score is missing.
    ``vectors``: (n, d) float32; a row of NaN where a candidate has no usable vector; d may be 0.
    ``fields``: per candidate, the raw JSON bytes of each payload field of the needs, the optional ones behind the others;
    None where absent or not to be had.
    ``ids``: per candidate, the raw JSON bytes of its identifier, for what people read; () where the adapter has none.
    ``vector_name``: the vector found by asking for all of them, to be remembered per collection as ``Needs.vector_hint``
    ("" is the unnamed one); None when the request named the vector and nothing was found out.
    ``compared_by``: the name of the vector in ``vectors``, asked for or found; None where no candidate has one.
    ``unusable``: how many candidates came without a usable vector.
    ``alone``: candidates that are never merged with others, such as the point that a search was made by.
    """

    scores: npt.NDArray[np.float64]
    vectors: npt.NDArray[np.float32]
    fields: tuple[tuple[bytes | None, ...], ...] = ()
    ids: tuple[bytes, ...] = ()
    vector_name: str | None = None
    compared_by: str | None = None
    unusable: int = 0
    alone: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """How many candidates upstream returned."""
        return len(self.scores)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A parsed reply: one pool per search of the call, and the adapter's own spans."""

    pools: tuple[Pool, ...]
    document: object


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeAnswer:
    """An answer the proxy invents, in the backend's own shape."""

    status: int
    content_type: str
    body: bytes


class Adapter(Protocol):
    """One backend's dialect. All verbs are pure."""

    def classify(self, head: RequestHead) -> Operation | None:
        """Name the operation, or None for everything that is not a ranked search. Total: never raises."""
        ...

    def check_size(self, operation: Operation, body: bytes, bounds: Bounds) -> None:
        """Count what makes the body costly to read, in linear time and before anything else reads it.

        Raises UnsupportedError where that is more than ``bounds`` allow, nothing else. The other verbs may be slow on a body that
        was not checked.
        """
        ...

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises UnsupportedError, nothing else."""
        ...

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The request that fetches ``fetch_k[i]`` candidates from rank 0 for search i, with what the needs name.

        Only the fields that must change differ from the client's bytes. A count of 0 leaves search i as the client sent
        it; its pool is then the client's own page, to be kept whole. Where all searches of a request share one limit, it is
        the largest of the counts: pools may then be longer than what was asked for.
        """
        ...

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises MalformedReplyError, nothing else."""
        ...

    def trim(self, call: SearchCall, reply: Reply, keep: Sequence[npt.NDArray[np.intp]]) -> bytes:
        """The native answer: kept results are upstream's own bytes, in ``keep`` order; what we forced is gone."""
        ...


class Dialect(Protocol):
    """How a backend words what is not a search: its errors, and its refusal of a large limit."""

    def error(self, status: int, message: str, *, path: str = "") -> NativeAnswer:
        """An error in the backend's own shape. ``path``: what was asked for, where parts of a backend differ; "" unknown."""
        ...

    def refused_limit(self, status: int, body: bytes) -> int | None:
        """The largest limit the backend says it takes, when this error says so; else None."""
        ...

    def names_unknown_vector(self, status: int, body: bytes) -> bool:
        """Whether this error says that a vector which was asked for by name does not exist."""
        ...

    def is_quota(self, status: int, body: bytes) -> bool:
        """Whether this error says that too much was asked for in a while: a rate limit, or a quota that is used up.

        ``body``: b"" where it is not at hand.
        """
        ...

    def is_quota_in_success(self, body: bytes) -> bool:
        """The same of a reply that only the transport calls a success; False where a backend refuses in none."""
        ...


# Which content types may hold a JSON body.


def may_be_json(content_type: str) -> bool:
    """Absent is left to the server's own judgement: its refusal of the widened request is replayed."""
    essence = content_type.partition(";")[0].strip().lower()
    return essence in {"", "application/json"} or (essence.startswith("application/") and essence.endswith("+json"))


# How many bytes of what was stored are still read: spent in rank order, so that the same reply is read alike each time.

# Of the payload fields of one pool that are wanted where they can be had: four times what selection reads of texts.
FIELD_BYTES = 4 << 20
# Of those that are made of parts and have to be spelled as JSON one part after another: 0.1 microseconds a byte.
NESTED_BYTES = 1 << 18


class Allowance:
    """Whoever reads asks before. What does not fit ends it: a smaller value behind a large one is not read either."""

    __slots__ = ("left_bytes",)

    def __init__(self, left_bytes: int) -> None:
        self.left_bytes = left_bytes

    def covers(self, size: int) -> bool:
        """Whether so many bytes may still be read; they are spent then, otherwise all is."""
        self.left_bytes = max(-1, self.left_bytes - size)
        return self.left_bytes >= 0


# What refusals for want of quota have in common: a status over HTTP, a code over gRPC.

TOO_MANY_REQUESTS = 429
RESOURCE_EXHAUSTED = 8

# What the libraries of gRPC call exhausted where a message is too long for one of its ends (grpc-go and the C core;
# grpc-java): nobody's quota, and the client's own search may well fit.
_OVERSIZED = (b"larger than max", b"exceeds maximum size")


def is_too_many(status: int) -> bool:
    """Whether an HTTP status says so."""
    return status == TOO_MANY_REQUESTS


def is_exhausted(code: int, details: bytes) -> bool:
    """Whether a gRPC status says so."""
    return code == RESOURCE_EXHAUSTED and not is_oversized(code, details)


def is_oversized(code: int, details: bytes) -> bool:
    """Whether a gRPC status says that a message is too long."""
    return code == RESOURCE_EXHAUSTED and any(words in details for words in _OVERSIZED)


# The contract of names: what collections are called, where requests say their ids alone.
#
# Rule of this file: contracts only, as in contract.py. An adapter implements it where its backend's paths carry ids.


@dataclass(frozen=True, slots=True, kw_only=True)
class Called:
    """One collection: ``id`` as ``Operation.id``, ``name`` as ``Operation.collection`` has it once it is known."""

    id: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Unsettled:
    """Whose name a request may change or take away: the collection of this id or name, and all whose names begin with
    ``scope``; None: no others.
    """

    key: str = ""
    scope: str | None = None


class Naming(Protocol):
    """Three more verbs, all pure and total."""

    def describes(self, head: RequestHead) -> bool:
        """Whether a success of this request tells what collections are called."""
        ...

    def described(self, body: bytes) -> tuple[Called, ...]:
        """What it tells; () for whatever is no such description."""
        ...

    def unsettles(self, head: RequestHead) -> Unsettled | None:
        """Whose names this request may change; None for one that changes none."""
        ...


# The contract of the first step: what a collection is like, asked once where a search itself does not tell.
#
# Rule of this file: contracts only, as in contract.py. An adapter implements it where its backend has such searches; whatever
# becomes of the question, the search can be parsed without an answer, and is then left alone where it needs one.


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A request that reads, at the upstream of the search and with the client's credentials.

    ``target``: origin form, or the path of a gRPC method. ``body``: JSON, or the method's one message.
    """

    method: str
    target: str
    body: bytes = b""


@runtime_checkable
class DescribesCollections(Protocol):
    """Two more verbs, both pure."""

    def question(self, operation: Operation, body: bytes) -> Question | None:
        """What to ask about the search's collection; None where there is nothing to ask. Total."""
        ...

    def told(self, body: bytes) -> object:
        """Read a successful reply: what ``Needs.known`` is to hold. Raises MalformedReplyError, nothing else."""
        ...


# The contract of the second step: vectors that a search cannot bring, read by their candidates' identifiers.
#
# Rule of this file: contracts only, as in contract.py. An adapter implements it where its backend has such a search.


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """A request without a body that reads records, at the upstream of the search and with the client's credentials.

    ``target``: origin form, ready to be sent. ``ids``: whom it asks for.
    """

    method: str
    target: str
    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What a lookup brought: its price in the backend's read units, and the adapter's own reading of its records."""

    read_units: int
    document: object


@runtime_checkable
class FetchesVectors(Protocol):
    """Four more verbs, all pure."""

    def lookups(self, call: SearchCall, reply: Reply, known: Collection[str]) -> tuple[Lookup, ...]:
        """What brings the vectors of the reply's candidates, but for those of ``known`` ids; none where nothing is to be
        compared, or the search brings them itself.
        """
        ...

    def found(self, lookup: Lookup, body: bytes) -> Found:
        """Read a successful reply to a lookup. Raises MalformedReplyError, nothing else."""
        ...

    def joined(self, reply: Reply, found: Sequence[Found]) -> Reply:
        """The reply with the vectors that were found, in whatever order; a row of NaN for who is in none of them.

        Raises MalformedReplyError, nothing else.
        """
        ...

    def charged(self, reply: Reply, read_units: int) -> Reply:
        """The reply whose answer names so many more read units than upstream wrote. Where it wrote none that can be added
        to with certainty, the reply as it is.
        """
        ...
