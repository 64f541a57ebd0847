"""The settings: frozen models, every default once, with its reason.

Units are in names. Absent and zero differ: an optional field is None when it was not given.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Mode = Literal["on", "shadow", "off"]
Backend = Literal["qdrant"]
Linkage = Literal["single", "complete", "average"]
Representative = Literal["rank", "centroid", "hybrid", "query_closest", "longest", "auto"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
CosineDistance = Annotated[float, Field(ge=0.0, le=2.0)]
Seconds = Annotated[float, Field(gt=0.0)]
Count = Annotated[int, Field(ge=1)]


class Model(BaseModel):
    """What every settings model shares: frozen, unknown keys are errors, no coercion of one type into another."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class FetchSettings(Model):
    """How many candidates are fetched for a page of top_k."""

    factor: Annotated[float, Field(ge=1.0, le=50.0)] = 5.0  # 3 to 5 x top_k is enough; more adds cost, not quality
    floor: Count = 24  # for top_k = 8 nothing changes beyond 24 to 40 candidates
    cap: Count = 200  # 200 x 1536 dimensions decode in about 25 ms, which blocks the loop: the most one search may cost
    page_cap: Count = 1000  # deepest raw rank a paged request may need; deeper pages pass through


class FixedThreshold(Model):
    """Merge at cosine distance <= fixed."""

    fixed: CosineDistance


class RelativeThreshold(Model):
    """Merge at distance <= relative x the pool's median pairwise distance, clipped."""

    relative: Annotated[float, Field(ge=0.0, le=1.0)] = (
        0.20  # keeps the answer in >= 98 % of queries on every labelled set
    )
    min: CosineDistance = 0.02
    max: CosineDistance = 0.30


class MmrSettings(Model):
    """Maximal marginal relevance over the representatives."""

    lambda_: Annotated[Share, Field(alias="lambda")] = 0.7  # 1.0 = relevance only; 0.7 scaled keeps >= 98 % of answers
    relevance: Literal["raw", "minmax"] = "minmax"  # with raw cosine MMR prefers the irrelevant
    similarity: Literal["raw", "scaled"] = "scaled"


class PolicySettings(Model):
    """How results are chosen. The defaults were chosen by measurement on eleven labelled sets."""

    mode: Mode = "on"
    fetch: FetchSettings = FetchSettings()
    linkage: Linkage = "average"
    threshold: FixedThreshold | RelativeThreshold = RelativeThreshold()
    when: Literal["redundant", "always"] = "redundant"  # clean pools come back byte for byte
    representative: Representative = "rank"  # centroid and longest lose the answer more often
    mmr: MmrSettings | None = MmrSettings()
    order: Literal["backend", "mmr"] = "backend"  # clients take the first result for the best and scores for monotone
    short: Literal["grow_then_fill", "fill", "allow"] = "grow_then_fill"  # callers index [limit - 1]
    distance: Literal["auto", "cosine"] = (
        "auto"  # auto adds a length term where the backend says length carries meaning
    )
    tenant_keys: tuple[str, ...] = ()  # payload keys whose values must be equal within a cluster
    text_fields: tuple[str, ...] = ("text", "page_content", "content", "document", "chunk", "body")
    vector: str | None = None  # the named vector to compare by; None lets the request decide


class UpstreamSettings(Model):
    """The database, and how it is spoken to."""

    url: str = "http://127.0.0.1:6333"
    path_prefix: str = ""  # a deployment prefix before /collections, such as "/qdrant"
    connect_timeout_seconds: Seconds = 2.0  # in-cluster; linkerd 1 s, Envoy 5 s
    stream_idle_timeout_seconds: Seconds = (
        300.0  # Envoy's 5 min between two reads; no total: that is the client's business
    )
    pool_connections: Count = 256
    pool_idle_seconds: Annotated[float, Field(gt=0.0, lt=5.0)] = (
        3.0  # Qdrant closes idle connections at 5 s; linkerd 3 s
    )
    dns_ttl_seconds: Seconds = 10.0


class LimitSettings(Model):
    """What one process takes on before it sheds: first features, then requests."""

    head_timeout_seconds: Seconds = (
        10.0  # whole request head, first and later requests; HAProxy's http-request rationale
    )
    body_timeout_seconds: Seconds = 30.0  # whole body of an intercepted request
    stream_idle_timeout_seconds: Seconds = 60.0  # between two reads of a passed-through request body
    keep_alive_seconds: Seconds = 620.0  # longer than any client pool, so that the proxy never closes first
    head_line_bytes: Count = 16_384
    head_field_bytes: Count = 16_384
    head_fields: Count = 128
    connections: Count = 4096
    in_flight: Count = 1024
    in_flight_queue_seconds: Seconds = 1.0  # waiting longer than this for a place is answered 503 with Retry-After
    searches_in_flight: Count = 64  # above: searches pass through without selection
    request_body_bytes: Count = 4 * 1024 * 1024  # larger bodies pass through un-intercepted, never 413
    reply_body_bytes: Count = 16 * 1024 * 1024  # a larger over-fetched reply is dropped and the original request sent
    attempt_timeout_seconds: Seconds = 5.0  # the widened request; the original must still fit into the client's timeout
    drain_seconds: Annotated[float, Field(ge=0.0)] = 25.0  # in-flight requests after SIGTERM
    drain_accept_seconds: Annotated[float, Field(ge=0.0)] = (
        0.0  # keep accepting that long while draining: 0 in a sidecar, 5 behind a Service
    )


class ShadowSettings(Model):
    """Mode shadow: the pipeline beside the untouched answer."""

    sample: Share = 1.0
    in_flight: Count = 16  # more than this at once are not measured, and counted as such


class OverrideSettings(Model):
    """Which per-request headers are obeyed. A forbidden one is refused with 400: silence would look like obedience."""

    mode: bool = True
    distance_threshold: bool = True
    relative_threshold: bool = True
    linkage: bool = True
    mmr_lambda: bool = True
    representative: bool = True
    order: bool = True
    fetch_k: bool = True


class RuleSettings(Model):
    """One rule: the first whose patterns match gives the policy. Members left out come from `policy`."""

    backend: str = "*"
    collection: str = "*"
    preset: str | None = None
    policy: dict[str, object] = {}


class Settings(Model):
    """Everything a user may set."""

    backend: Backend = "qdrant"
    listen: str = "127.0.0.1:6343"
    admin: str = "127.0.0.1:9464"
    workers: Count = 1  # one event loop per process; Kubernetes scales, this is for one large machine
    mode: Mode | None = None  # overrides every policy's mode when given
    report_header: bool = True  # one response header on intercepted answers
    upstream: UpstreamSettings = UpstreamSettings()
    limits: LimitSettings = LimitSettings()
    shadow: ShadowSettings = ShadowSettings()
    overrides: OverrideSettings = OverrideSettings()
    policy: PolicySettings = PolicySettings()
    rules: tuple[RuleSettings, ...] = ()
