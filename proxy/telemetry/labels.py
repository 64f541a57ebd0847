"""The closed sets behind every metric label, log field and report: nothing else may become a label value.

Rule of this file: closed sets only, so that no client, collection or upstream can add a time series. The names of backends and
of their operations are the rows' (adapters/backends.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum

from vecsieve.adapters.contract import Reason
from vecsieve.proxy.selection.values import Link, Veto


class Outcome(StrEnum):
    """What became of a request."""

    DEDUP = "dedup"  # selection answered, also when it had nothing to change
    SHADOW = "shadow"  # upstream's own bytes; the pipeline ran beside them
    BYPASS = "bypass"  # a classified search deliberately left alone
    PASSTHROUGH = "passthrough"  # nothing an adapter classifies
    FAIL_OPEN = "fail_open"  # our part failed; the client got the plain answer


OTHER = "other"  # the operation of a request that no adapter classifies; those of searches stand in the backend's row


class FailOpen(StrEnum):
    """Why a search that should have been improved was answered plainly."""

    OVERFETCH_STATUS = "overfetch_status"  # the widened request was refused
    OVERFETCH_TIMEOUT = "overfetch_timeout"
    OVERFETCH_RESET = "overfetch_reset"  # connect failure, reset or cut before the whole reply was in
    TOO_LARGE = "too_large"  # the reply passed its byte cap
    MALFORMED = "malformed"  # a 2xx reply that could not be read with certainty
    NO_VECTORS = "no_vectors"  # no candidate came with a vector
    NOT_FOUND_VECTOR = "not_found_vector"  # the vector to compare by is not in this collection
    OVERLOAD = "overload"  # more searches in flight than selection takes on
    MEMORY = "memory"
    BREAKER = "breaker"
    BUDGET = "budget"  # a further read of ours would pass the budget for them
    SLOW = "slow"  # widened requests may be slower than the client's own, and the budget has no room for both
    INTERNAL = "internal"


class Bypass(StrEnum):
    """Why the proxy itself leaves a classified search alone; adapters add their own ``Reason``."""

    DISABLED = "disabled"  # mode off, by policy or by the request
    ENCODING = "encoding"  # a content coding that we or the database do not read
    EXACT_BYTES = "exact_bytes"  # a condition, a range, a digest or a signature in the client's head
    TOO_LARGE = "too_large"  # the request body passed its cap
    REPLY_TOO_LARGE = "reply_too_large"  # the widened reply is expected to pass its cap
    WINDOW_TOO_LARGE = "window_too_large"  # offset + top_k leaves no room to widen
    SHADOW_NOT_SAMPLED = "shadow_not_sampled"
    BUDGET = "budget"  # this month's egress budget is spent
    QUOTA = "quota"  # the database refused for want of quota a moment ago


BypassReason = Bypass | Reason


class Stage(StrEnum):
    """The parts of one search's life."""

    PARSE = "parse"
    REWRITE = "rewrite"
    UPSTREAM = "upstream"
    DECODE = "decode"
    CLUSTER = "cluster"
    SELECT = "select"
    MMR = "mmr"
    ENCODE = "encode"


class CodeClass(StrEnum):
    """The first digit of a status; NONE when the client got no status at all."""

    INFORMATIONAL = "1xx"
    SUCCESS = "2xx"
    REDIRECT = "3xx"
    CLIENT_ERROR = "4xx"
    SERVER_ERROR = "5xx"
    NONE = "none"

    @classmethod
    def of(cls, status: int | None) -> CodeClass:
        """The class of a status; NONE for None and for numbers that are no status."""
        return _CODE_CLASSES.get(status // 100, cls.NONE) if status is not None else cls.NONE


_CODE_CLASSES: Mapping[int, CodeClass] = dict(enumerate(list(CodeClass)[:5], start=1))


class Origin(StrEnum):
    """Who spoke: the database or the proxy."""

    UPSTREAM = "upstream"
    PROXY = "proxy"


class AttemptKind(StrEnum):
    """Which request went upstream."""

    ORIGINAL = "original"
    OVERFETCH = "overfetch"
    REPLAY = "replay"
    LOOKUP = "lookup"
    HEDGE = "hedge"  # the original, beside a widened one that is late


class Retry(StrEnum):
    """Why a client's own request followed a widened one. Nothing else is ever sent again, and this but once."""

    REFUSED = "refused"
    TIMEOUT = "timeout"
    RESET = "reset"  # connect failure, reset or cut before the whole reply was in
    UNUSABLE = "unusable"  # a reply that could not be answered from

    @classmethod
    def of(cls, reason: FailOpen) -> Retry:
        """What a widened request's end means for the one that follows."""
        return _RETRIES.get(reason, cls.UNUSABLE)


_RETRIES: Mapping[FailOpen, Retry] = {
    FailOpen.OVERFETCH_STATUS: Retry.REFUSED,
    FailOpen.NOT_FOUND_VECTOR: Retry.REFUSED,
    FailOpen.OVERFETCH_TIMEOUT: Retry.TIMEOUT,
    FailOpen.OVERFETCH_RESET: Retry.RESET,
}


class OwnRead(StrEnum):
    """What VecSieve itself reads from a database, on top of what clients read."""

    GROW = "grow"  # a larger pool, the first having too few distinct results
    RECALL = "recall"  # the vectors of a pool that memory lacked
    LOOKUP = "lookup"  # the vectors that a search cannot bring
    REPLAY = "replay"  # the client's own search after a widened one that failed
    HEDGE = "hedge"  # the client's own search beside a widened one that is late
    SHADOW = "shadow"  # a measurement


class Withheld(StrEnum):
    """Why a read of ours was not sent."""

    BUDGET = "budget"  # it would have passed the share of what clients read
    REFUSED = "refused"  # the database refused for want of quota, and not long ago


class UpstreamError(StrEnum):
    """How upstream failed."""

    CONNECT = "connect"
    DNS = "dns"
    TLS = "tls"
    TIMEOUT = "timeout"
    RESET = "reset"
    TRUNCATED = "truncated"
    PROTOCOL = "protocol"
    SERVER_ERROR = "5xx"


class LocalError(StrEnum):
    """Errors the database would not have given: the numerator of the objective."""

    BAD_REQUEST = "bad_request"
    INTERNAL = "internal"
    SHED = "shed"
    NO_UPSTREAM = "no_upstream"


class Shed(StrEnum):
    """Why a request was refused for want of room."""

    IN_FLIGHT = "in_flight"
    MEMORY = "memory"


class ConnectionRejected(StrEnum):
    """Why a client's connection was ended by us."""

    LIMIT = "limit"  # there were too many
    CROWDED = "crowded"  # it idled, and room was needed
    HEAD_TIMEOUT = "head_timeout"
    SILENT = "silent"  # nothing ever came
    FLOOD = "flood"  # it sent frames or chunks without content, more than any client has a use for
    SLOW_READER = "slow_reader"  # it hardly took its answer, and others lacked a connection to the database


class MemoryLookup(StrEnum):
    """Whether a pool that came without vectors could be selected from remembered ones."""

    HIT = "hit"
    MISS = "miss"  # it was fetched again, with its vectors


class VectorFetchOutcome(StrEnum):
    """What became of the second request that reads the vectors of a pool; all but the first leave it to its texts."""

    FOUND = "found"
    STATUS = "status"  # refused
    TIMEOUT = "timeout"
    RESET = "reset"  # connect failure, reset or cut before the whole reply was in
    TOO_LARGE = "too_large"  # the reply passed its byte cap
    MALFORMED = "malformed"
    BREAKER = "breaker"  # not sent: too many failed
    WITHHELD = "withheld"  # not sent: the database refused for want of quota, and not long ago


class Divergence(StrEnum):
    """How shadow's answer would have differed from upstream's."""

    IDS = "ids"
    ORDER = "order"
    COUNT = "count"


class Collapse(StrEnum):
    """What made a candidate the copy of another."""

    IDENTICAL_TEXT = "identical_text"
    NEAR_TEXT = "near_text"
    SPAN = "span"  # the same part of one document
    VECTORS = "vectors"

    @classmethod
    def of(cls, link: int) -> Collapse:
        """The kind of a selection's Link."""
        return _COLLAPSES.get(link, cls.VECTORS)


_COLLAPSES: Mapping[int, Collapse] = {
    Link.IDENTICAL: Collapse.IDENTICAL_TEXT,
    Link.SPAN: Collapse.SPAN,
    Link.CONTAINMENT: Collapse.NEAR_TEXT,
    Link.JACCARD: Collapse.NEAR_TEXT,
    Link.INDEL: Collapse.NEAR_TEXT,
    Link.MINHASH: Collapse.NEAR_TEXT,
    Link.SIMHASH: Collapse.NEAR_TEXT,
    Link.NEAR_TEXT: Collapse.NEAR_TEXT,
}


class Guard(StrEnum):
    """What kept a candidate from being collapsed into another, as selection's vetoes are called."""

    TENANT = "tenant"
    SOURCE = "source"
    VERSION = "version"
    DATE = "date"
    AMOUNT = "amount"
    NUMBER = "number"
    NEGATION = "negation"
    UNREAD = "unread"

    @classmethod
    def of(cls, veto: int) -> Guard | None:
        """The guard behind a selection's Veto; None for no veto."""
        return _GUARDS.get(veto)


_GUARDS: Mapping[int, Guard] = {veto: Guard[veto.name] for veto in Veto if veto is not Veto.NONE}


class Named(StrEnum):
    """Whether the name of a collection that is told by its id was known."""

    KNOWN = "known"
    UNKNOWN = "unknown"  # only what stands before the name ruled


class Drifted(StrEnum):
    """How live pools differ from the profile that was measured of their collection."""

    DIMENSION = "dimension"
    DISTANCES = "distances"


class BreakerState(StrEnum):
    """Whether searches are widened."""

    CLOSED = "closed"  # yes
    OPEN = "open"  # no: upstream failed too often
    PROBING = "probing"  # one is, to find out


class UpstreamConnection(StrEnum):
    """What a connection to the database is doing."""

    BUSY = "busy"  # HTTP/1: carries a request, or is being opened for one
    IDLE = "idle"  # HTTP/1: kept for the next
    SHARED = "shared"  # gRPC: carries any number of calls


class Side(StrEnum):
    """Whose connections are counted; those to the database have more to tell, in a metric of their own."""

    CLIENT = "client"


class OverrideName(StrEnum):
    """The per-request overrides, as their settings are called."""

    MODE = "mode"
    DISTANCE_THRESHOLD = "distance_threshold"
    RELATIVE_THRESHOLD = "relative_threshold"
    LINKAGE = "linkage"
    MMR_LAMBDA = "mmr_lambda"
    REPRESENTATIVE = "representative"
    ORDER = "order"
    FETCH_K = "fetch_k"
