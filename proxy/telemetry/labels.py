"""The closed sets of every metric label, log field and report.

Nothing else may become a label value, so no client, collection or upstream can add a time series. The names of backends and operations come
from their rows (adapters/backends.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from vecsieve.adapters.contract import Reason

from ..selection.values import Link


class LabelEnum(StrEnum):
    """A member of a closed set. It hashes like its value: Python's own enumerations hash their members' names, in Python code, and a search
    looks up thirty.
    """

    __hash__ = str.__hash__


class Outcome(LabelEnum):
    """What happened to a request."""

    DEDUP = "dedup"  # selection answered, even if it changed nothing
    SHADOW = "shadow"  # upstream's own bytes; the pipeline ran beside it
    BYPASS = "bypass"  # a classified search that was deliberately not changed
    PASSTHROUGH = "passthrough"  # a request that no adapter classifies
    FAIL_OPEN = "fail_open"  # VecSieve failed; the client got the plain answer


OTHER = "other"  # the operation of an unclassified request; searches have those of the backend's row


class FailOpen(LabelEnum):
    """Why a search fell back to its plain answer."""

    OVERFETCH_STATUS = "overfetch_status"  # the widened request was refused
    OVERFETCH_TIMEOUT = "overfetch_timeout"
    OVERFETCH_RESET = "overfetch_reset"  # connect failure, reset or cut before the whole reply had arrived
    TOO_LARGE = "too_large"  # the reply passed its byte cap
    MALFORMED = "malformed"  # a 2xx reply that could not be read with certainty
    NO_VECTORS = "no_vectors"  # no candidate had a vector
    NOT_FOUND_VECTOR = "not_found_vector"  # the vector to compare by does not exist in this collection
    OVERLOAD = "overload"  # more searches in flight than selection accepts
    MEMORY = "memory"
    BREAKER = "breaker"
    BUDGET = "budget"  # a further read of our own would exceed its budget
    SLOW = "slow"  # widened requests may be slower than the client's own, and the budget has no room for both
    INTERNAL = "internal"


class Bypass(LabelEnum):
    """Why a classified search was not changed; adapters add their own ``Reason``."""

    DISABLED = "disabled"  # mode off, by policy or by the request
    ENCODING = "encoding"  # a content coding that VecSieve or the database does not read
    EXACT_BYTES = "exact_bytes"  # a condition, a range, a digest or a signature in the client's head
    SIGNED = "signed"  # AWS SigV4: the signature covers the body
    TOO_LARGE = "too_large"  # the request body exceeded its cap
    REPLY_TOO_LARGE = "reply_too_large"  # the widened reply is expected to exceed its cap
    WINDOW_TOO_LARGE = "window_too_large"  # offset + top_k leaves no room to widen
    SHADOW_NOT_SAMPLED = "shadow_not_sampled"
    BUDGET = "budget"  # this month's egress budget is spent
    QUOTA = "quota"  # the database recently refused for lack of quota
    REFUSED = "refused"  # the database refused the client's own search, too


BypassReason = Bypass | Reason


class Stage(LabelEnum):
    PARSE = "parse"
    REWRITE = "rewrite"
    UPSTREAM = "upstream"
    DECODE = "decode"
    SELECT = "select"
    ENCODE = "encode"


class CodeClass(LabelEnum):
    """The first digit of a status; NONE if the client got no status."""

    INFORMATIONAL = "1xx"
    SUCCESS = "2xx"
    REDIRECT = "3xx"
    CLIENT_ERROR = "4xx"
    SERVER_ERROR = "5xx"
    NONE = "none"


CODE_CLASSES: Mapping[int, CodeClass] = dict(enumerate(list(CodeClass)[:5], start=1))


class Origin(LabelEnum):
    """Who made the answer: the database or the proxy."""

    UPSTREAM = "upstream"
    PROXY = "proxy"


class ApiRoute(LabelEnum):
    """An endpoint of our own API."""

    HEALTH = "health"
    OPENAPI = "openapi"
    OPTIMIZE = "optimize"
    FUSE = "fuse"
    CHECK = "check"
    ADD = "add"
    ADD_BATCH = "add_batch"
    STATS = "stats"
    EVENTS = "events"
    OTHER = "other"  # no endpoint


class AttemptKind(LabelEnum):
    """The kind of an upstream request."""

    ORIGINAL = "original"
    OVERFETCH = "overfetch"
    REPLAY = "replay"
    LOOKUP = "lookup"
    HEDGE = "hedge"  # the original, beside a widened one that is late


class Retry(LabelEnum):
    """Why a client's own request followed a widened one: the only request that is ever sent again, once."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    RESET = "reset"  # connect failure, reset or cut before the whole reply had arrived
    UNUSABLE = "unusable"  # a reply from which no answer could be made

    @classmethod
    def of(cls, reason: FailOpen) -> Retry:
        """The label for the failure of a widened request."""
        return _RETRIES.get(reason, cls.UNUSABLE)


_RETRIES: Mapping[FailOpen, Retry] = {
    FailOpen.OVERFETCH_STATUS: Retry.REFUSED,
    FailOpen.NOT_FOUND_VECTOR: Retry.REFUSED,
    FailOpen.OVERFETCH_TIMEOUT: Retry.TIMEOUT,
    FailOpen.OVERFETCH_RESET: Retry.RESET,
}


class ReadKind(LabelEnum):
    """Reads that VecSieve adds to those of clients."""

    GROW = "grow"  # a larger pool, because the first had too few distinct results
    RECALL = "recall"  # the vectors of a pool that memory lacked
    LOOKUP = "lookup"  # the vectors that a search cannot return
    RETRIEVERS = "retrievers"  # the further lists of a fusion that the database cannot return in one batch
    REPLAY = "replay"  # the client's own search after a widened one that failed
    HEDGE = "hedge"  # the client's own search beside a late widened one
    SHADOW = "shadow"  # a measurement of mode shadow
    NEIGHBOURS = "neighbours"  # neighbours of points to be stored


class WriteTier(LabelEnum):
    """How similar a point of a write is to the most similar other one."""

    EXACT = "exact"
    SEMANTIC = "semantic"
    RELATED = "related"
    UNIQUE = "unique"


class WriteOutcome(LabelEnum):
    """What the gate did with a write."""

    JUDGED = "judged"
    UNSUPPORTED = "unsupported"  # an unknown form, or no vectors
    NOT_READ = "not_read"  # encoded, signed, too large, or sent too slowly
    OVERLOAD = "overload"  # too many bytes of writes are held
    LATE = "late"  # the neighbours did not come in time
    REFUSED = "refused"  # the database refused the query for neighbours
    WITHHELD = "withheld"  # it recently refused for lack of quota, or kept failing
    FAILED = "failed"


class CopiesResult(LabelEnum):
    """What became of a whole write with copies."""

    ANNOTATED = "annotated"
    REJECTED = "rejected"


class PointResult(LabelEnum):
    """What became of a point of a judged write."""

    ADDED = "added"  # stored as it came
    LEFT_OUT = "left_out"  # in the journal instead of the database
    MERGED = "merged"  # stored in place of a copy, or with its values
    REMOVED = "removed"  # a stored point that a copy replaced; in the journal


class EventSink(LabelEnum):
    """The listeners to events of writes."""

    READER = "reader"  # readers of the API's feed
    WEBHOOK = "webhook"


class Delivery(LabelEnum):
    """How a request of the webhook ended."""

    DELIVERED = "delivered"
    FAILED = "failed"  # repeated at most twice


class Withheld(LabelEnum):
    """Why a read of our own was not sent."""

    BUDGET = "budget"  # it would have exceeded the share of the clients' reads
    REFUSED = "refused"  # the database recently refused for lack of quota


class UpstreamError(LabelEnum):
    """How upstream failed."""

    CONNECT = "connect"
    DNS = "dns"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    TRUNCATED = "truncated"
    PROTOCOL = "protocol"
    SERVER_ERROR = "5xx"


class LocalError(LabelEnum):
    """Errors that the database would not have caused; they count against the service level objective."""

    BAD_REQUEST = "bad_request"
    INTERNAL = "internal"
    SHED = "shed"
    NO_UPSTREAM = "no_upstream"


class Shed(LabelEnum):
    """Why a request was refused for lack of room."""

    IN_FLIGHT = "in_flight"
    MEMORY = "memory"


class ConnectionRejected(LabelEnum):
    """Why the proxy closed a client connection."""

    LIMIT = "limit"  # there were too many connections
    CROWDED = "crowded"  # it was idle, and room was needed
    HEAD_TIMEOUT = "head_timeout"
    SILENT = "silent"  # it sent nothing
    FLOOD = "flood"  # it sent more empty frames or chunks than any real client
    SLOW_READER = "slow_reader"  # it read its answer too slowly while others waited for a connection to the database


class MemoryRecall(LabelEnum):
    """How much of a call's pools was in the feature memory."""

    WHOLE = "whole"
    NONE = "none"  # not all of it: the pools were fetched again, with vectors


class VectorFetchOutcome(LabelEnum):
    """The outcome of a vector fetch; for all but FOUND the pool is compared by its texts."""

    FOUND = "found"
    STATUS = "status"  # refused
    TIMEOUT = "timeout"
    RESET = "reset"  # connect failure, reset or cut before the whole reply had arrived
    TOO_LARGE = "too_large"  # the reply exceeded its byte cap
    MALFORMED = "malformed"
    BREAKER = "breaker"  # not sent: too many failed
    WITHHELD = "withheld"  # not sent: the database recently refused for lack of quota


class FusionOutcome(LabelEnum):
    """What happened to a fusion under the policy ``per_retriever``; adapters add the reasons for not dividing one."""

    DIVIDED = "divided"  # copies were removed from each list before the fusion


class Evidence(LabelEnum):
    """How it is known that a result of the database's page is a copy."""

    PROVEN = "proven"  # the results that stay say all of its text
    JUDGED = "judged"  # an edited copy, a rewording, or near by vector


class Collapse(LabelEnum):
    """Why a candidate is a copy of another."""

    EQUAL_TEXT = "equal_text"
    CONTAINED = "contained"
    JOINED = "joined"  # by several results, or in several pieces
    EDITED = "edited"
    REWORDED = "reworded"
    VECTORS = "vectors"


COLLAPSE_OF: Mapping[int, Collapse] = {
    **dict.fromkeys(Link, Collapse.VECTORS),
    Link.EQUAL: Collapse.EQUAL_TEXT,
    Link.CONTAINED: Collapse.CONTAINED,
    Link.JOINED: Collapse.JOINED,
    Link.EDITED: Collapse.EDITED,
    Link.REWORDED: Collapse.REWORDED,
}


class SampledResult(LabelEnum):
    """Whether preset `meaning` would remove a result beyond the proof."""

    REWORDED = "reworded"
    STAYS = "stays"


class Named(LabelEnum):
    """Whether the name behind a collection id was known."""

    KNOWN = "known"
    UNKNOWN = "unknown"  # only the part of the path before the name was known


class ProfileFailure(LabelEnum):
    """How live pools differ from the calibrated profile of their collection, or that its file is unusable."""

    DIMENSION = "dimension"
    DISTANCES = "distances"
    UNREADABLE = "unreadable"


class LeftOutBy(LabelEnum):
    """Why a result that is no duplicate was left out."""

    CAP = "cap"  # on its document or source
    BUDGET = "budget"  # for texts
    SHOWN = "shown"  # an earlier list or turn returned it


class Telemetry(LabelEnum):
    """What is dropped when its receiver is too slow."""

    LOG = "log"
    SPANS = "spans"


class TextsKnown(LabelEnum):
    """What is known of where the texts of a collection are."""

    FOUND = "found"
    NONE = "none"  # none was found: results are compared by their vectors alone
    UNSETTLED = "unsettled"  # each pool is judged alone


class RuleLabel(LabelEnum):
    """Labels of rules without a name; no rule may have one of these names."""

    DEFAULT = "default"  # none matched
    UNNAMED = "unnamed"
    OTHER = "other"  # its name was added by a reload


class BreakerState(LabelEnum):
    """Whether searches are widened."""

    CLOSED = "closed"  # yes
    OPEN = "open"  # no: upstream failed too often
    PROBING = "probing"  # one search is, as a probe


class CanaryState(LabelEnum):
    """Whether a part of the searches of mode shadow is in mode on, or which bound ended that."""

    NONE = "none"  # the settings name none
    ON = "on"
    ERRORS = "errors"
    SLOW = "slow"
    FAIL_OPEN = "fail_open"
    SHORT = "short"  # pages with fewer results than requested


class InFlight(LabelEnum):
    """What is counted while it is in progress."""

    REQUESTS = "requests"  # all; above the limit they wait, then are refused
    SEARCHES = "searches"  # being improved; above the limit they pass through


class Waiting(LabelEnum):
    """What a request waits for."""

    ADMISSION = "admission"  # to be served, or for its own body, which arrives slowly
    CONNECTION = "connection"  # to the database, over HTTP


class UpstreamConnection(LabelEnum):
    """The state of a connection to the database."""

    BUSY = "busy"  # HTTP/1: carries a request, or is being opened for one
    IDLE = "idle"  # HTTP/1: kept for the next request
    SHARED = "shared"  # gRPC: carries any number of calls


class Side(LabelEnum):
    """Whose connections are counted; those to the database have a metric of their own."""

    CLIENT = "client"


class OverrideName(LabelEnum):
    """The per-request overrides, named as in the settings."""

    MODE = "mode"
    CERTAINTY = "certainty"
    DISTANCE_THRESHOLD = "distance_threshold"
    RELATIVE_THRESHOLD = "relative_threshold"
    LINKAGE = "linkage"
    MMR_LAMBDA = "mmr_lambda"
    REPRESENTATIVE = "representative"
    ORDER = "order"
    FETCH_K = "fetch_k"
    COLLAPSED = "collapsed"
    PER_RETRIEVER = "per_retriever"
    SESSION = "session"
    ACROSS = "across"
    TOKEN_BUDGET = "token_budget"  # noqa: S105 - a number of tokens, no secret


class Across(StrEnum):
    """Whether results of one list of a request are left out of later lists."""

    OFF = "off"
    BATCH = "batch"


class CollapsedIn(StrEnum):
    """Where a client wants the copies of each result to be listed."""

    OFF = "off"
    HEADER = "header"
    PAYLOAD = "payload"
