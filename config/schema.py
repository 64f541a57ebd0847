"""The settings: frozen models. Every default stands here once, with its reason, which docs/settings.md shows.

Units are in names. An optional field is None when it was not given.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from vecsieve.config.addresses import parse_address
from vecsieve.config.applications import ApiSettings, WebhookSettings
from vecsieve.config.backends import DEFAULT_BACKEND, TRAITS, Traits, with_defaults
from vecsieve.config.policy import PolicySettings
from vecsieve.config.values import (
    Backend,
    BudgetBytes,
    CollectorUrl,
    Connections,
    Count,
    GrpcUrl,
    HostPatterns,
    HostPort,
    IndexPorts,
    IndexUrl,
    Mode,
    Model,
    OrNone,
    PathPrefix,
    Pattern,
    PresetName,
    PublicForm,
    PublicUrl,
    QueueSpans,
    RuleName,
    Seconds,
    SecondsOrZero,
    Share,
    StoreUrl,
    UpstreamUrl,
    setting,
)


class GrpcSettings(Model):
    """gRPC beside HTTP, as soon as its upstream is known: on `listen`, where the first bytes tell the two protocols apart,
    and on `grpc.listen`.
    """

    listen: OrNone[HostPort] = setting(
        None,
        "for gRPC clients that expect a separate port (Qdrant's 6334) or refuse a shared one (Weaviate's). Flag: --grpc-listen",
    )
    upstream: OrNone[GrpcUrl] = setting(
        None,
        "where gRPC calls go: host:port without TLS, or https://host:port. none: no gRPC, except for Pinecone (the "
        "index itself) and Milvus (`upstream.url`). Flag: --grpc-upstream",
    )
    connections: Connections = setting(
        3,
        "to one gRPC host, per process; one is used when those before it have 8 calls each. As many as Qdrant's own client opens",
    )
    message_bytes: Count = setting(
        64 * 1024 * 1024,
        "the largest message of a client, inflated; a larger one is answered with RESOURCE_EXHAUSTED. Unlike an HTTP "
        "body, a message is held whole. The value is Milvus's limit; the default of gRPC servers is 4 MiB, Pinecone's "
        "is less",
    )
    inflated_bytes_in_flight: Count = setting(
        128 * 1024 * 1024,
        "inflated size of the compressed messages held at once; above it, RESOURCE_EXHAUSTED. A client can produce "
        "them with a thousandth of the bytes; an uncompressed message costs its sender as much as us",
    )
    unfinished_bytes_in_flight: Count = setting(
        256 * 1024 * 1024,
        "bytes held at once of messages that are not whole yet; above it, RESOURCE_EXHAUSTED for the one that has waited longest on the "
        "connection that has most. One message alone may always grow to `grpc.message_bytes`. A thousand unfinished ones cost 49 MiB",
    )
    answer_bytes: Count = setting(
        256 * 1024 * 1024,
        "the largest answer that is relayed, held whole; above it, RESOURCE_EXHAUSTED. Its size depends on the "
        "request: 16,384 vectors of 1,536 numbers are 100 MB",
    )


class TlsSettings(Model):
    """TLS on `listen`, index ports and `grpc.listen`, for clients that require it. Both files or neither."""

    certificate: OrNone[str] = setting(None, "file with the certificate and its chain (PEM); none: no TLS")
    key: OrNone[str] = setting(None, "file with its private key (PEM), unencrypted")


class TracingSettings(Model):
    """Spans to an OpenTelemetry collector, as OTLP over HTTP; needs `pip install 'vecsieve[otel]'`. Spans hold no data of requests.
    Credentials are not settings: they are in `headers_file`, or in the variable OTEL_EXPORTER_OTLP_HEADERS.
    """

    endpoint: OrNone[CollectorUrl] = setting(
        None,
        "the collector; /v1/traces is appended, as with OTEL_EXPORTER_OTLP_ENDPOINT. none: no tracing, and trace "
        "headers are forwarded unchanged",
    )
    sample_ratio: Share = setting(
        0.01,
        "share of the requests without a traceparent, as for successes in the log; a request with one is sampled by its own flag",
    )
    headers_file: OrNone[str] = setting(
        None, "file with headers for the collector, one `name: value` a line; read once, when the process starts"
    )
    queue_spans: QueueSpans = setting(
        2048,
        "queue for the collector per process, about 2 MB, OpenTelemetry's own default; spans beyond it are dropped and counted",
    )


class UpstreamSettings(Model):
    """The database and the connections to it."""

    url: UpstreamUrl = setting(
        "http://127.0.0.1:6333", "Qdrant's own port on this machine; for Pinecone the control plane"
    )
    path_prefix: PathPrefix = setting("", "the prefix before /collections in the paths that clients send")
    connect_timeout_seconds: Seconds = setting(
        2.0, "TLS included, for a database in the cluster. linkerd 1 s, Envoy 5 s"
    )
    stream_idle_timeout_seconds: Seconds = setting(
        300.0, "between two reads; Envoy's 5 min. There is no total timeout: clients have their own"
    )
    pool_connections: Count = setting(
        256,
        "open connections to one host per process for reads, an eighth of them for ranked searches alone, and as many for writes. Lowered at "
        "start to what RLIMIT_NOFILE allows",
    )
    pool_age_seconds: Seconds = setting(
        600.0,
        "age, ± 10 %, at which a connection to the database is replaced, so that new or moved backends of a Service get their share",
    )
    pool_idle_seconds: Seconds = setting(
        3.0,
        "below 5 for Qdrant, which closes idle connections after 5 s: a request sent at that moment is lost. linkerd 3 s",
    )
    dns_ttl_seconds: Seconds = setting(10.0, "how long an address is cached; PgBouncer 15 s")


class PineconeSettings(Model):
    """For Pinecone alone: each index has its own host, and reply bytes are billed."""

    index_host: OrNone[IndexUrl] = setting(None, "the one index for /query and other data paths that name no index")
    allowed_hosts: HostPatterns = setting(
        ("*.svc.*.pinecone.io", "*.svc.private.*.pinecone.io", "*.pinecone.io"),
        "hosts allowed in /_i/<host>/…. Only https, port 443 and public addresses; a name without * may have a private"
        " address, as private endpoints do. With a plain http control plane (for tests) the hosts it names are allowed"
        " too",
    )
    public_url: OrNone[PublicUrl] = setting(
        None,
        "the URL before /_i/<host> in the hosts that clients get; none: the Host of the request, https if X-Forwarded-Proto says so",
    )
    index_ports: IndexPorts = setting(
        {},
        "ports for one index each, on listen's interface, for clients that cannot send a path. They are fixed here: "
        "ports assigned on first use would change at a restart. Flag: --index-port PORT=HOST",
    )
    public_form: PublicForm = setting(
        "path",
        "how clients are told the host of an index in index_ports: by path, which every REST client accepts; as "
        "http(s)://host:port; or as host:port, as Pinecone Local does, which REST clients read as https",
    )
    egress_budget_bytes: OrNone[BudgetBytes] = setting(
        None,
        "bytes per UTC month that may be fetched beyond the plain answers; then searches pass through. Counted in "
        "memory, from zero after a restart",
    )


class LimitSettings(Model):
    """Limits of one process. Under load it sheds selection first, then requests."""

    head_timeout_seconds: Seconds = setting(
        10.0, "for the whole request head, of first and later requests, as HAProxy counts it"
    )
    body_timeout_seconds: Seconds = setting(30.0, "for the whole body of an intercepted request")
    stream_idle_timeout_seconds: Seconds = setting(60.0, "between two reads of a passed-through request body")
    keep_alive_seconds: Seconds = setting(
        620.0, "longer than any client's pool or load balancer (600 s), so that the proxy never closes first"
    )
    connection_age_seconds: OrNone[Seconds] = setting(
        None,
        "age, ± 10 %, after which a client's connection ends with its next answer, or by GOAWAY. Behind a Service 600,"
        " so that new replicas get their share; none: never, as in a sidecar",
    )
    head_line_bytes: Count = setting(16_384, "the request line; HAProxy's limit")
    head_field_bytes: Count = setting(16_384, "one header field; the same")
    head_fields: Count = setting(128, "header fields of one request; HAProxy 101, Envoy 100")
    connections: Count = setting(
        4096,
        "client connections per process; more are accepted, counted and closed. Lowered at start to what RLIMIT_NOFILE allows",
    )
    in_flight: Count = setting(
        1024, "requests at once, as Envoy's circuit breaker. An eighth of them is for ranked searches alone"
    )
    in_flight_queue_seconds: Seconds = setting(
        1.0, "a request that waits longer for a place is answered 503 with Retry-After"
    )
    in_flight_lag_seconds: Seconds = setting(
        0.06,
        "while a turn of the event loop takes longer, a quarter of the places is available, for half of the wait: a "
        "request takes about ten turns",
    )
    searches_in_flight: Count = setting(64, "more searches pass through without selection")
    searches_lag_seconds: Seconds = setting(
        0.03, "while a turn of the event loop takes longer, searches pass through: selection is shed before requests"
    )
    searches_bytes_in_flight: Count = setting(
        64 * 1024 * 1024,
        "over-fetched replies held at once, by their length or that of the collection's last one; above it searches "
        "pass through. 64 replies of the largest size would be 1 GiB",
    )
    answers_bytes_waiting: Count = setting(
        64 * 1024 * 1024,
        "passed-through answers buffered for slow clients, each at most a 32nd; an answer that does not fit keeps its "
        "connection to the database. While other requests lack a connection, or the total is above the limit, the "
        "slowest client is disconnected",
    )
    request_body_bytes: Count = setting(4 * 1024 * 1024, "larger bodies pass through without interception, never 413")
    searches_per_request: Count = setting(
        128,
        "searches in one batch, or query vectors in one request; larger requests pass through. A hundred is a common "
        "batch; selection takes about 1 ms each",
    )
    request_parts: Count = setting(
        16_384,
        "names, list items and objects of one search request without the numbers of vectors, or its gRPC fields; "
        "larger requests pass through. Reading a part takes 1 to 3 µs",
    )
    request_nesting: Annotated[int, Field(ge=1, le=64)] = setting(
        4,
        "levels of nested searches (prefetches); deeper requests pass through. Each level is one more pass over the "
        "request, 8 ms for 4 MiB",
    )
    reply_body_bytes: Count = setting(
        16 * 1024 * 1024,
        "a larger over-fetched reply is dropped and the original request sent. When a larger reply is expected, a "
        "search fetches fewer candidates or passes through; a batch passes through",
    )
    write_body_bytes: Count = setting(
        32 * 1024 * 1024, "of a write that the write gate reads, Qdrant's own limit; larger ones pass through unread"
    )
    write_points: Annotated[int, Field(ge=1, le=8192)] = setting(
        2048, "in such a write; each is compared with those before it. Larger writes pass through"
    )
    writes_bytes_in_flight: Count = setting(
        64 * 1024 * 1024,
        "of writes held by the write gate at once; further ones pass through, so that none waits for another",
    )
    attempt_timeout_seconds: Seconds = setting(
        5.0,
        "for the widened request; the original is sent in parallel after 0.25 to 0.5 s, or a quarter of the client's own timeout",
    )
    own_reads_share: Share = setting(
        0.1,
        "VecSieve's own reads (grown pools, hedges, replays) per minute and collection, as a share of the clients' "
        "reads, plus one: a client that stays a tenth below a rate limit is never refused because of VecSieve. A "
        "widened search replaces the client's and is not counted",
    )
    drain_seconds: SecondsOrZero = setting(25.0, "for requests in flight after SIGTERM, below Kubernetes' 30 s")
    drain_accept_seconds: SecondsOrZero = setting(
        0.0, "how long a draining process accepts new connections: 0 in a sidecar, 5 behind a Service"
    )


class PreloadSettings(Model):
    """Points that each process reads before searches bring them (Qdrant). docs/memory.md."""

    collections: tuple[str, ...] = setting(
        (),
        "by the names that clients use, one after another, until `memory.bytes` is nearly used. none: no points are read",
    )
    api_key_file: OrNone[str] = setting(
        None,
        "file with a read credential of ours, sent as `api-key`. none: the database needs none. Read once, at the start",
    )
    points_per_second: Annotated[float, Field(gt=0.0, le=100_000.0)] = setting(
        500.0, "at most. A point costs the database what a result of a search with vectors costs"
    )


class MemorySettings(Model):
    """The feature memory of one process: vectors and payload values of points that replies brought, so that later searches
    need not fetch them again. docs/memory.md.
    """

    bytes: Annotated[int, Field(ge=0, le=2**40)] = setting(
        64 * 1024 * 1024,
        "at most, or an eighth of the container's memory where that is less; 0: off. A point with a text of "
        "100 words takes 3.4 kB with 384 dimensions and 5.7 kB with 1,536; where there is no room, and beyond 64 MiB, its text is packed "
        "and it takes 2.1 or 4.4 kB. So the default holds 23,000 or 12,700 points, in a sidecar of 512 MiB",
    )
    ttl_seconds: Seconds = setting(
        600.0,
        "how long payload values are believed, and a point whose score cannot prove its vector, as in quantised or fused "
        "searches. A point that the database gives no version, and no such score, is not remembered",
    )
    preload: PreloadSettings = PreloadSettings()


class JournalSettings(Model):
    """The journal of points that the write gate leaves out: everything that `vecsieve undo` needs to store them after all."""

    path: OrNone[str] = setting(
        None,
        "file of SQLite, on a disk that outlives the process; written durably before a client is answered, and never shortened. "
        "Workers share it. Read once, when the process starts",
    )


class ShadowSettings(Model):
    """Mode shadow: selection is measured beside the unchanged answer."""

    sample: Share = setting(
        0.05,
        "share of searches that are measured, the first one always. Each costs a second read, and a third if its pool "
        "grows: at most a tenth more reads for the database",
    )
    in_flight: Count = setting(16, "measurements waiting, which run one after another; more are skipped and counted")


class ProfileSettings(Model):
    """Results of `vecsieve calibrate`, one file per collection and vector name. They replace the pool's own median for a
    relative threshold; a fixed threshold and a request's header are not affected.
    """

    directory: OrNone[str] = setting(None, "directory of the profile files (*.json); none: no profiles")
    reload_seconds: Seconds = setting(
        10.0, "how often the directory is checked; a ConfigMap takes about a minute to arrive"
    )
    online: bool = setting(
        False, "learn a collection's median distance from its first 50 searches if it has no profile"
    )


class ExplainSettings(Model):
    """The inspector on the admin port (`/`, `/api/…`, `/explain`): which results were left out of recent answers, and why.
    Identifiers only, unless `texts` is true.
    """

    keep: OrNone[Annotated[int, Field(ge=0, le=1000)]] = setting(
        None,
        "searches kept in memory, per process, at most 4 MiB; 0: none. none: 50 where `admin` is on loopback or "
        "`token_file` is given, else 0, because identifiers may be confidential",
    )
    texts: bool = setting(
        False,
        "keeps and shows the first 600 characters of each text that the policy compares; only where `admin` is on "
        "loopback or `token_file` is given",
    )
    token_file: OrNone[str] = setting(
        None,
        "file with a token that `/api/…` and `/explain` then require, as `Authorization: Bearer …`; the page asks for it. "
        "Read once, when the process starts",
    )
    judgements: OrNone[str] = setting(
        None,
        "file to which the inspector's right and wrong buttons append, a pair a line, for `vecsieve calibrate --pairs`; "
        "only where `admin` is on loopback or `token_file` is given. none: no buttons",
    )


class SessionStoreSettings(Model):
    """Where sessions are kept, which clients name in the header `x-vecsieve-session`. Read when the process starts."""

    url: OrNone[StoreUrl] = setting(
        None,
        "a Valkey or Redis that replicas and workers share; needs the extra `sessions`. none: the memory of each process",
    )
    password_file: OrNone[str] = setting(None, "file with its password; none: it has none")
    timeout_seconds: Seconds = setting(
        0.05, "for reading or writing a session; a search whose session is late or fails goes on without it"
    )
    sessions: Count = setting(10_000, "in memory: of more the least recently used goes; each takes up to 100 kB")
    results: Count = setting(1000, "digests of a session, two or three for each result; those given first go first")


class OverrideSettings(Model):
    """Which per-request headers are accepted. A forbidden one is answered with 400: ignoring it would look like acceptance."""

    mode: bool = setting(True, "x-vecsieve-mode")
    certainty: bool = setting(True, "x-vecsieve-certainty")
    distance_threshold: bool = setting(True, "x-vecsieve-distance-threshold")
    relative_threshold: bool = setting(True, "x-vecsieve-relative-threshold")
    linkage: bool = setting(True, "x-vecsieve-linkage")
    mmr_lambda: bool = setting(True, "x-vecsieve-mmr-lambda")
    representative: bool = setting(True, "x-vecsieve-representative")
    order: bool = setting(True, "x-vecsieve-order")
    fetch_k: bool = setting(True, "x-vecsieve-fetch-k")
    collapsed: bool = setting(True, "x-vecsieve-collapsed")
    per_retriever: bool = setting(True, "x-vecsieve-per-retriever")
    session: bool = setting(True, "x-vecsieve-session")
    across: bool = setting(True, "x-vecsieve-across")
    token_budget: bool = setting(True, "x-vecsieve-token-budget")


class RuleSettings(Model):
    """One rule. The first rule whose patterns match gives the policy. Members left out come from the preset, then `policy`."""

    name: OrNone[RuleName] = setting(
        None, "for the label `rule` of vecsieve_rule_* metrics, at most 16 of them; read at the start"
    )
    backend: Pattern = setting("*", "`*`, `?` and `[…]` as in a shell; case-sensitive")
    collection: Pattern = setting("*", "the same, against the whole decoded name")
    preset: OrNone[PresetName] = setting(None, "a preset by name")
    policy: dict[str, object] = setting({}, "members of `policy`, only those that differ")


class Settings(Model):
    backend: Backend = setting(DEFAULT_BACKEND, "the database's protocol, for clients and upstream")
    listen: HostPort = setting("127.0.0.1:6343", "for clients; loopback, so that no port is open by accident")
    admin: HostPort = setting("127.0.0.1:9464", "health and metrics, on their own port on loopback")
    workers: Annotated[int, Field(ge=1, le=256)] = setting(
        1, "processes, one event loop each; for one large machine, where Kubernetes would use replicas"
    )
    mode: OrNone[Mode] = setting(
        None, "overrides every policy's mode; a request's header overrides both unless overrides.mode is false"
    )
    report_header: bool = setting(
        True, "adds a response header to intercepted answers that reports what was done, or why nothing"
    )
    tls: TlsSettings = TlsSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    grpc: GrpcSettings = GrpcSettings()
    pinecone: PineconeSettings = PineconeSettings()
    limits: LimitSettings = LimitSettings()
    memory: MemorySettings = MemorySettings()
    journal: JournalSettings = JournalSettings()
    shadow: ShadowSettings = ShadowSettings()
    profiles: ProfileSettings = ProfileSettings()
    explain: ExplainSettings = ExplainSettings()
    tracing: TracingSettings = TracingSettings()
    api: ApiSettings = ApiSettings()
    webhook: WebhookSettings = WebhookSettings()
    sessions: SessionStoreSettings = SessionStoreSettings()
    overrides: OverrideSettings = OverrideSettings()
    policy: PolicySettings = PolicySettings()
    rules: tuple[RuleSettings, ...] = ()

    @property
    def rule_names(self) -> tuple[str, ...]:
        return tuple(rule.name for rule in self.rules if rule.name is not None)

    @property
    def traits(self) -> Traits:
        return TRAITS[self.backend]

    @property
    def admin_is_private(self) -> bool:
        """Whether only this machine, or holders of a token, can read the inspector."""
        return parse_address(self.admin).is_loopback or self.explain.token_file is not None

    @property
    def indexes(self) -> PineconeSettings | None:
        """The section of a backend whose indexes have hosts of their own; None for other backends."""
        return self.pinecone if self.traits.has_indexes else None

    @model_validator(mode="before")
    @classmethod
    def _with_its_backends_defaults(cls, tree: object) -> object:
        return with_defaults(tree)
