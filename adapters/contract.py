"""The adapter contract: six pure verbs, the values they exchange, the two exceptions they may raise.

Rule of this file: contracts only, no behaviour. Nothing here awaits, logs, reads a clock or knows a setting.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

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


class Unsupported(Exception):  # noqa: N818 - it is a verdict on the request, not an error of anybody's
    """A classified request that must go through untouched."""

    def __init__(self, reason: Reason) -> None:
        super().__init__(reason.value)
        self.reason = reason


class Malformed(Exception):  # noqa: N818 - names the reply, as the contract does
    """A successful reply whose bytes cannot be read with certainty. The message says what was seen and where."""


class Declined(Malformed):
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
    ``absent_as_null``: upstream is known to write absent members as null (Qdrant up to 1.9); False where unknown,
    then the reply itself is the evidence.
    """

    vector_name: str | None = None
    vector_hint: str | None = None
    absent_as_null: bool = False
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

        Raises Unsupported where that is more than ``bounds`` allow, nothing else. The other verbs may be slow on a body that
        was not checked.
        """
        ...

    def parse_request(self, operation: Operation, body: bytes, needs: Needs) -> SearchCall:
        """Read what the client wants. Raises Unsupported, nothing else."""
        ...

    def widen(self, call: SearchCall, fetch_k: Sequence[int]) -> bytes:
        """The request that fetches ``fetch_k[i]`` candidates from rank 0 for search i, with what the needs name.

        Only the fields that must change differ from the client's bytes. A count of 0 leaves search i as the client sent
        it; its pool is then the client's own page, to be kept whole. Where all searches of a request share one limit, it is
        the largest of the counts: pools may then be longer than what was asked for.
        """
        ...

    def parse_reply(self, call: SearchCall, body: bytes) -> Reply:
        """Read a successful reply to a widened request. Raises Malformed, nothing else."""
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
