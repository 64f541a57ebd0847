"""The settings, as frozen models. Each default is declared once, with its reason. docs/settings.md is generated from them.

Names contain units. An optional field is None if it is not set.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field, model_validator

from .addresses import origin_of, parse_address
from .applications import ApiSettings, LogSettings, WebhookSettings
from .backends import DEFAULT_BACKEND, TRAITS, Traits, with_defaults
from .policy import PolicySettings
from .values import (
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
    KeyDigests,
    Mode,
    Model,
    Networks,
    OrNone,
    Overrides,
    PathPrefix,
    Pattern,
    PresetName,
    PublicForm,
    PublicUrl,
    RuleName,
    Seconds,
    SecondsOrZero,
    Share,
    StoreUrl,
    UpstreamUrl,
    setting,
)


class GrpcSettings(Model):
    """gRPC beside HTTP, enabled by `grpc.upstream`. It is served on `listen`, which detects the protocol by the first bytes of a
    connection, and on `grpc.listen`.
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
        "to one gRPC host, per process, as many as Qdrant's own client opens; the next one is used when the earlier ones have 8 calls each",
    )
    message_bytes: Count = setting(
        64 * 1024 * 1024,
        "the largest message of a client, inflated; a larger one is answered with RESOURCE_EXHAUSTED. Unlike an HTTP "
        "body, a message is held whole. The value is Milvus's limit; the default of gRPC servers is 4 MiB, Pinecone's "
        "is less",
    )
    bytes_in_flight: Count = setting(
        256 * 1024 * 1024,
        "bytes held at once of incomplete messages, and half as many of compressed messages, inflated; above it, RESOURCE_EXHAUSTED, of "
        "incomplete ones for the oldest on the connection that holds most. A single message may always grow to `grpc.message_bytes`. A "
        "thousand incomplete ones cost 49 MiB. A client can cause the inflated size with a thousandth of the bytes",
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
    """Spans to an OpenTelemetry collector, as OTLP over HTTP; needs the extra `otel`. Spans hold no data of requests.
    Credentials are not settings: they are in `headers_file`, or in the variable OTEL_EXPORTER_OTLP_HEADERS.
    """

    endpoint: OrNone[CollectorUrl] = setting(
        None,
        "the collector; /v1/traces is appended, as with OTEL_EXPORTER_OTLP_ENDPOINT. none: no tracing, and trace "
        "headers are forwarded unchanged",
    )
    sample_ratio: Share = setting(
        0.01,
        "share of the requests without a traceparent that are recorded; the log has the same share of successes. A request with a "
        "traceparent is sampled by its own flag",
    )
    headers_file: OrNone[str] = setting(
        None, "file with headers for the collector, one `name: value` a line; read once, when the process starts"
    )


class UpstreamSettings(Model):
    """The database and the connections to it."""

    url: UpstreamUrl = setting(
        "http://127.0.0.1:6333",
        "Qdrant's own port on this machine; for Pinecone the control plane. A path precedes the paths that clients send",
    )
    path_prefix: PathPrefix = setting(
        "",
        "the prefix before /collections in the paths that clients send. It is forwarded, unless `upstream.url` has a path, / at least: then "
        "that replaces it, as in nginx",
    )
    ca_file: OrNone[str] = setting(
        None,
        "file with the certificate authorities (PEM) that the database's certificate is checked against, over HTTP and gRPC; none: the "
        "system's. Read when the process starts, like the next two",
    )
    client_certificate: OrNone[str] = setting(
        None, "file with VecSieve's own certificate for the database (PEM); none: it has none"
    )
    client_key: OrNone[str] = setting(None, "file with its private key (PEM), unencrypted")
    connect_timeout_seconds: Seconds = setting(
        2.0, "TLS included, for a database in the same cluster. linkerd has 1 s, Envoy 5 s"
    )
    stream_idle_timeout_seconds: Seconds = setting(
        300.0,
        "the longest time between two reads, Envoy's 5 min. There is no total timeout, because clients have their own",
    )
    pool_connections: Count = setting(
        256,
        "open connections to one host per process for reads, and as many for writes. An eighth of those for reads is reserved for ranked "
        "searches. Lowered at start to what RLIMIT_NOFILE allows",
    )
    pool_age_seconds: Seconds = setting(
        600.0,
        "age, ± 10 %, at which a connection to the database is replaced, so that new or moved backends of a Service get their share",
    )
    pool_idle_seconds: Seconds = setting(
        3.0,
        "how long an idle connection is kept; below 5 for Qdrant, which closes idle connections after 5 s, and a request sent at that "
        "moment is lost. linkerd has 3 s",
    )
    dns_ttl_seconds: Seconds = setting(10.0, "how long an address is cached; PgBouncer has 15 s")

    @property
    def origin(self) -> str:
        """The URL without its path."""
        return origin_of(self.url)

    @property
    def replacement(self) -> str | None:
        """What replaces ``path_prefix`` in the paths that are sent; None: they are sent as they came."""
        path = self.url.removeprefix(self.origin)
        return path.removesuffix("/") if path else None

    @property
    def prefix(self) -> str:
        """What precedes the database's own paths where they are sent."""
        return self.path_prefix if self.replacement is None else self.replacement


class PineconeSettings(Model):
    """For Pinecone only: each index has its own host, and reply bytes are billed."""

    index_host: OrNone[IndexUrl] = setting(None, "the one index for /query and other data paths that name no index")
    allowed_hosts: HostPatterns = setting(
        ("*.svc.*.pinecone.io", "*.svc.private.*.pinecone.io", "*.pinecone.io"),
        "hosts allowed in /_i/<host>/…: only https, port 443 and public addresses. A name without * may have a private"
        " address, as private endpoints do. If the control plane is plain http (for tests), the hosts that it names are"
        " allowed, too",
    )
    public_url: OrNone[PublicUrl] = setting(
        None,
        "the URL before /_i/<host> in the hosts that clients get; none: the Host of the request, https if X-Forwarded-Proto says so",
    )
    index_ports: IndexPorts = setting(
        {},
        "ports for one index each, on the interface of `listen`, for clients that cannot send a path. They are set "
        "explicitly, because automatically assigned ports would change at a restart. Flag: --index-port PORT=HOST",
    )
    public_form: PublicForm = setting(
        "path",
        "how descriptions give the host of an index in index_ports. path: with a path, which every REST client accepts; "
        "port_url: http(s)://host:port; port_authority: host:port as in Pinecone Local, which REST clients read as https",
    )
    egress_budget_bytes: OrNone[BudgetBytes] = setting(
        None,
        "bytes per UTC month that may be fetched in addition to the plain answers; then searches pass through. Counted "
        "in memory, from zero after a restart. none: no limit",
    )


class LimitSettings(Model):
    """Limits of one process. Under load searches pass through first, then requests are refused."""

    head_timeout_seconds: Seconds = setting(
        10.0, "for the whole request head, of the first and later requests of a connection, as in HAProxy"
    )
    body_timeout_seconds: Seconds = setting(30.0, "for the whole body of an intercepted request")
    stream_idle_timeout_seconds: Seconds = setting(60.0, "between two reads of a passed-through request body")
    keep_alive_seconds: Seconds = setting(
        620.0,
        "longer than client pools and load balancers keep connections (600 s), so that the proxy never closes first",
    )
    connection_age_seconds: OrNone[Seconds] = setting(
        None,
        "age, ± 10 %, after which a client's connection ends with its next answer, or by GOAWAY. Set 600 behind a Service,"
        " so that new replicas get their share. none: never, as in a sidecar",
    )
    head_line_bytes: Count = setting(16_384, "the request line, and one header field; HAProxy's limit")
    connections: Count = setting(
        4096,
        "client connections per process; further ones are accepted, counted and closed. Lowered at start to what RLIMIT_NOFILE allows",
    )
    in_flight: Count = setting(
        1024, "requests in progress at once, as in Envoy's circuit breaker. An eighth is reserved for ranked searches"
    )
    in_flight_queue_seconds: Seconds = setting(
        1.0, "a request that must wait longer before it starts is answered 503 with Retry-After"
    )
    lag_seconds: Seconds = setting(
        0.03,
        "while a turn of the event loop takes longer, searches pass through. While it takes twice as long, only a quarter of `in_flight` "
        "is available, and requests wait half as long: a request takes about ten turns",
    )
    searches_in_flight: Count = setting(64, "more searches pass through without selection")
    bytes_in_flight: Count = setting(
        64 * 1024 * 1024,
        "bytes held at once of each of three kinds. Over-fetched replies, counted by their length, or before it is known by that of the "
        "collection's last reply: above it searches pass through. Writes that the write gate reads: further writes pass through, so that no "
        "write waits for another. Passed-through answers buffered for slow clients, each at most a 32nd of this, and half of it by what is "
        "read ahead: an answer that does not fit keeps its connection to the database, and the slowest client is disconnected while other "
        "requests lack a connection, or while the total is above the limit",
    )
    request_body_bytes: Count = setting(
        4 * 1024 * 1024, "larger request bodies pass through; they are never refused with 413"
    )
    searches_per_request: Count = setting(
        128,
        "searches in one batch, or query vectors in one request; larger requests pass through. A hundred is a common "
        "batch; selection takes about 1 ms each",
    )
    reply_body_bytes: Count = setting(
        16 * 1024 * 1024,
        "a larger over-fetched reply is dropped and the original request sent. When a larger reply is expected, a "
        "search fetches fewer candidates or passes through; a batch passes through",
    )
    write_body_bytes: Count = setting(
        32 * 1024 * 1024,
        "body of a write that the write gate reads, Qdrant's own limit; larger writes pass through unread",
    )
    write_points: Annotated[int, Field(ge=1, le=8192)] = setting(
        2048, "points of such a write, because each is compared with the earlier ones; larger writes pass through"
    )
    attempt_timeout_seconds: Seconds = setting(
        5.0,
        "timeout of the widened request; the original is sent in parallel after 0.25 to 0.5 s, or a quarter of the client's own timeout",
    )
    own_reads_share: Share = setting(
        0.1,
        "VecSieve's own reads (grown pools, hedges, replays) per minute and collection, as a share of the clients' "
        "reads, plus one. A client that stays a tenth below a rate limit is then never refused because of VecSieve. A "
        "widened search replaces the client's and is not counted",
    )
    drain_seconds: SecondsOrZero = setting(25.0, "for requests in progress after SIGTERM, below Kubernetes' 30 s")
    drain_accept_seconds: SecondsOrZero = setting(
        0.0, "how long a draining process accepts new connections: 0 in a sidecar, 5 to 10 behind a Service"
    )


class MemorySettings(Model):
    """The feature memory of one process. It keeps vectors from replies, so that later searches need not fetch them again. Where texts
    decide, no vectors are fetched, and it is not used. docs/architecture.md.
    """

    bytes: Annotated[int, Field(ge=0, le=2**40)] = setting(
        64 * 1024 * 1024,
        "the largest size, or an eighth of the container's memory if that is less; 0: off. A point takes 1.0 kB "
        "with 384 dimensions and 3.3 kB with 1,536. So the default holds 68,000 or 20,000 points, in a sidecar of 512 MiB",
    )
    ttl_seconds: Seconds = setting(
        600.0,
        "how long stored vectors are used that no score can check, as in quantised or fused searches. A "
        "point that has neither a version nor such a score is not kept",
    )


class JournalSettings(Model):
    """The journal of points that the write gate leaves out. It has everything that `vecsieve undo` needs to store them."""

    path: OrNone[str] = setting(
        None,
        "SQLite file on a persistent disk; written durably before a client is answered, and never shortened. "
        "Workers share it. This setting is read once, when the process starts",
    )


class ShadowSettings(Model):
    """Mode shadow: selection is measured beside the unchanged answer."""

    sample: Share = setting(
        0.05,
        "share of searches that are measured after the first 50 of a collection, which are all measured. Each costs a "
        "second read, and a third if its pool grows. 0: none",
    )


class CanarySettings(Model):
    """Mode on for a part of the searches that mode shadow would only measure: those of any of its members. It goes back to shadow by itself if
    they fail, slow down or fall short, until these settings change. docs/operating.md.
    """

    share: Share = setting(
        0.0, "share of the clients of a collection, by a hash of their API key, or of their address without one"
    )
    keys: KeyDigests = setting((), "SHA-256 digests of API keys in hexadecimal digits, as `sha256sum` prints them")
    collections: tuple[Pattern, ...] = setting((), "patterns as in `rules`")
    clients: Networks = setting((), "addresses or networks of clients")

    @property
    def is_any(self) -> bool:
        """Whether any search may be in it."""
        return self.share > 0.0 or bool(self.keys or self.collections or self.clients)


class ProfileSettings(Model):
    """Results of `vecsieve calibrate`, one file per collection and vector name. They replace the pool's own median for a
    relative threshold; a fixed threshold and a request's header are not affected.
    """

    directory: OrNone[str] = setting(
        None, "directory of the profile files (*.json), checked every 10 s; none: no profiles"
    )
    online: bool = setting(
        False, "learn a collection's median distance from its first 50 searches if it has no profile"
    )


class ExplainSettings(Model):
    """The inspector on the admin port (`/`, `/api/…`, `/explain`): which results were removed from recent answers, and why.
    Beyond loopback it shows identifiers only, unless `texts` is true.
    """

    keep: OrNone[Annotated[int, Field(ge=0, le=1000)]] = setting(
        None,
        "searches kept in memory, per process, at most 4 MiB; 0: no searches. none: 50 if `admin` is on loopback or "
        "`token_file` is given, otherwise 0, because identifiers may be confidential",
    )
    texts: OrNone[bool] = setting(
        None,
        "keeps, in memory, and shows the first 600 characters of each text that the policy compares, of at most 50 searches a second; only "
        "where `admin` is on loopback or `token_file` is given. none: true if `admin` is on loopback",
    )
    token_file: OrNone[str] = setting(
        None,
        "file with a token that `/api/…` and `/explain` then require, as `Authorization: Bearer …`; the page asks for it. "
        "Read once, when the process starts",
    )
    judgements: OrNone[str] = setting(
        None,
        "file to which the inspector's buttons *Right* and *Wrong* append one pair per line, to be counted by a person; "
        "only where `admin` is on loopback or `token_file` is given. none: no buttons",
    )


class SessionStoreSettings(Model):
    """Where the sessions of the header `x-vecsieve-session` are stored. Read when the process starts."""

    url: OrNone[StoreUrl] = setting(
        None,
        "a Valkey or Redis that replicas and workers share; needs the extra `sessions`. none: the memory of each process",
    )
    password_file: OrNone[str] = setting(None, "file with its password; none: it has no password")
    timeout_seconds: Seconds = setting(
        0.05, "for reading or writing a session; if the session is late or fails, the search continues without it"
    )
    sessions: Count = setting(10_000, "sessions in memory, up to 100 kB each; the least recently used is removed")


class RuleSettings(Model):
    """One rule. The first rule whose patterns match gives the policy. Omitted members come from the preset, then from `policy`."""

    name: OrNone[RuleName] = setting(
        None, "value of the label `rule` of vecsieve_rule_* metrics; at most 16 rules have one; read at the start"
    )
    backend: Pattern = setting("*", "`*`, `?` and `[…]` as in a shell; case-sensitive")
    collection: Pattern = setting("*", "a pattern for the whole decoded name, with the same wildcards")
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
        None, "overrides every policy's mode; a request's header overrides both unless `forbidden_overrides` has mode"
    )
    report_header: bool = setting(
        True, "adds a response header to the answers of searches: what was done, or why nothing was done"
    )
    forbidden_overrides: Overrides = setting(
        (),
        "request headers x-vecsieve-… that are answered with 400 (ignoring them would look like acceptance), without the prefix, with _ for -",
    )
    tls: TlsSettings = TlsSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    grpc: GrpcSettings = GrpcSettings()
    pinecone: PineconeSettings = PineconeSettings()
    limits: LimitSettings = LimitSettings()
    memory: MemorySettings = MemorySettings()
    journal: JournalSettings = JournalSettings()
    shadow: ShadowSettings = ShadowSettings()
    canary: CanarySettings = CanarySettings()
    profiles: ProfileSettings = ProfileSettings()
    explain: ExplainSettings = ExplainSettings()
    tracing: TracingSettings = TracingSettings()
    api: ApiSettings = ApiSettings()
    webhook: WebhookSettings = WebhookSettings()
    sessions: SessionStoreSettings = SessionStoreSettings()
    log: LogSettings = LogSettings()
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
    def keeps_texts(self) -> bool:
        """Whether the inspector shows texts."""
        texts = self.explain.texts
        return parse_address(self.admin).is_loopback if texts is None else texts

    @property
    def indexes(self) -> PineconeSettings | None:
        """The section of a backend whose indexes are hosts; None for other backends."""
        return self.pinecone if self.traits.has_indexes else None

    @model_validator(mode="before")
    @classmethod
    def _with_its_backends_defaults(cls, tree: object) -> object:
        return with_defaults(tree)
