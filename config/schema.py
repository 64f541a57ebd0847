"""The settings: frozen models, every default once, with its reason (which docs/settings.md repeats).

Units are in names. Absent and zero differ: an optional field is None when it was not given.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from vecsieve.config.addresses import parse_upstream, path_prefix
from vecsieve.config.backends import DEFAULT_BACKEND, TRAITS, Traits, with_defaults
from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import Contradiction, contradiction, shown
from vecsieve.config.values import (
    Backend,
    BudgetBytes,
    Count,
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
    Seconds,
    SecondsOrZero,
    Share,
    UpstreamUrl,
    Wanted,
)

# The settings of the gRPC plane, and of TLS on our own ports.


def grpc_url(text: str) -> str:
    """The URL of a gRPC server. Without a scheme it is plain, as gRPC clients write their targets. Raises ValueError."""
    url = text if "://" in text else f"http://{text}"
    parse_upstream(url)
    return url.removesuffix("/")


GrpcUrl = Annotated[
    str,
    AfterValidator(grpc_url),
    Wanted("host:port such as 127.0.0.1:6334, https://host:port for TLS, without credentials or path"),
]
Connections = Annotated[int, Field(ge=1, le=64)]


class GrpcSettings(Model):
    """gRPC beside HTTP. It is spoken as soon as it is known where its calls go: on `listen`, which tells the two protocols apart
    by their first bytes, and on `grpc.listen` alike.
    """

    listen: OrNone[HostPort] = Field(
        default=None,
        description="for gRPC clients that expect a port of their own (Qdrant's 6334) or, as Weaviate's, refuse to share one. "
        "Flag: --grpc-listen",
    )
    upstream: OrNone[GrpcUrl] = Field(
        default=None,
        description="where gRPC calls go: host:port, plain, or https://host:port; none: no gRPC, but for Pinecone the index itself "
        "and for Milvus `upstream.url`. Flag: --grpc-upstream",
    )
    connections: Connections = Field(
        default=3, description="to one gRPC host per process, taken in turn; as many as Qdrant's own client opens"
    )
    message_bytes: Count = Field(
        default=64 * 1024 * 1024,
        description="the largest message of a client, inflated: it is held whole, unlike a body over HTTP; above RESOURCE_EXHAUSTED. As much as "
        "Milvus takes; gRPC servers take 4 MiB unless they are told otherwise, Pinecone's less",
    )
    inflated_bytes_in_flight: Count = Field(
        default=128 * 1024 * 1024,
        description="of compressed messages, inflated, held at once; above RESOURCE_EXHAUSTED. They cost a client a thousandth of that; what "
        "is not compressed costs its sender as much as us",
    )
    answer_bytes: Count = Field(
        default=256 * 1024 * 1024,
        description="the largest answer that is relayed, held whole as well; above RESOURCE_EXHAUSTED. The database's, which clients pick by "
        "what they ask for: 16,384 vectors of 1,536 numbers are 100 MB",
    )


class TlsSettings(Model):
    """TLS on `listen`, index ports and `grpc.listen`, for clients that refuse anything else. Both files or neither."""

    certificate: OrNone[str] = Field(
        default=None, description="file with the certificate and its chain (PEM); none: plain"
    )
    key: OrNone[str] = Field(default=None, description="file with its private key (PEM), unencrypted")


# The settings of tracing, and what must be installed for it.

# The SDK and the exporter are two distributions, and chromadb brings the first without the second.
NEEDED = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def collector_url(url: str) -> str:
    """The URL without a closing slash. Raises ValueError for everything but ``http(s)://host[:port][/path]``."""
    path = urlsplit(url).path
    parse_upstream(url.removesuffix(path) if path else url)
    return url.removesuffix(path) + path_prefix(path.removesuffix("/"))


CollectorUrl = Annotated[
    str,
    AfterValidator(collector_url),
    Wanted("http or https, host, port and perhaps a path such as http://127.0.0.1:4318, without credentials or query"),
]
QueueSpans = Annotated[int, Field(ge=512, le=1_000_000)]


class TracingSettings(Model):
    """Spans to an OpenTelemetry collector, as OTLP over HTTP; needs `pip install 'vecsieve[otel]'`. Nothing that could hold data is in
    them. Credentials are no settings: they are in `headers_file`, or in the variable OTEL_EXPORTER_OTLP_HEADERS.
    """

    endpoint: OrNone[CollectorUrl] = Field(
        default=None,
        description="the collector, to which /v1/traces is appended, as OTEL_EXPORTER_OTLP_ENDPOINT is read; none: no tracing, and trace "
        "headers go on byte for byte",
    )
    sample_ratio: Share = Field(
        default=0.01,
        description="of requests that bring no traceparent, as of the log's successes; one that brings it decides by its own flag",
    )
    headers_file: OrNone[str] = Field(
        default=None,
        description="file with what the collector wants to see, one `name: value` a line; read once, when the process starts",
    )
    queue_spans: QueueSpans = Field(
        default=2048,
        description="held for the collector per process, OpenTelemetry's own default, about 2 MB; what finds no room is dropped and counted",
    )


def of_tracing(tracing: TracingSettings) -> Iterator[Contradiction]:
    """Tracing that cannot be."""
    if tracing.endpoint is not None and not _is_installed():
        wanted = "none: tracing is on, but opentelemetry is not installed: pip install 'vecsieve[otel]'"
        yield contradiction(("tracing", "endpoint"), shown(tracing.endpoint), wanted)


def _is_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # of a name whose parent is missing
        return False


class UpstreamSettings(Model):
    """The database, and how it is spoken to."""

    url: UpstreamUrl = Field(
        default="http://127.0.0.1:6333", description="Qdrant's own port on this machine; for Pinecone the control plane"
    )
    path_prefix: PathPrefix = Field(
        default="", description="what stands before /collections in the paths that clients send"
    )
    connect_timeout_seconds: Seconds = Field(
        default=2.0, description="TLS included; in-cluster. linkerd 1 s, Envoy 5 s"
    )
    stream_idle_timeout_seconds: Seconds = Field(
        default=300.0, description="between two reads, as Envoy's 5 min; no total: that is the client's business"
    )
    pool_connections: Count = Field(
        default=256,
        description="open connections to one host per process, for reads; writes have as many of their own. Lowered at start to what RLIMIT_NOFILE leaves",
    )
    pool_age_seconds: Seconds = Field(
        default=600.0,
        description="a connection to the database is replaced when it is older, ± 10 %: what a Service has added or moved gets its share",
    )
    pool_idle_seconds: Seconds = Field(
        default=3.0,
        description="below 5 for Qdrant, which closes idle connections then: a request on a dying one is lost; linkerd 3 s",
    )
    dns_ttl_seconds: Seconds = Field(
        default=10.0, description="a moved Service is found within that time; PgBouncer 15 s"
    )


class PineconeSettings(Model):
    """What only Pinecone needs: an index is a host of its own, and the bytes of replies are billed."""

    index_host: OrNone[IndexUrl] = Field(
        default=None, description="where /query and the like go when a path names no index: one index, fixed"
    )
    allowed_hosts: HostPatterns = Field(
        default=("*.svc.*.pinecone.io", "*.svc.private.*.pinecone.io", "*.pinecone.io"),
        description="what /_i/<host>/… may name. Https, port 443 and public addresses only; a name without * may also "
        "have a private address, as private endpoints do. A plain http control plane is for tests: what it names is believed",
    )
    public_url: OrNone[PublicUrl] = Field(
        default=None,
        description="what stands before /_i/<host> in the hosts that clients are told; none: the Host they used, https if X-Forwarded-Proto "
        "says so",
    )
    index_ports: IndexPorts = Field(
        default={},
        description="ports with one index behind each, on listen's interface, for clients that cannot send a path; fixed "
        "here, because ports handed out at first sight would change hands at a restart. Flag: --index-port PORT=HOST",
    )
    public_form: PublicForm = Field(
        default="path",
        description="how clients are told of an index in index_ports: by path, which every REST client takes and which needs no port "
        "of its own; as http(s)://host:port; or as bare host:port, as Pinecone Local does, which REST clients take for https",
    )
    egress_budget_bytes: OrNone[BudgetBytes] = Field(
        default=None,
        description="bytes that may be fetched a UTC month beyond the plain answers, then searches pass through; "
        "counted in memory: a restart begins anew",
    )
    vector_memory_bytes: OrNone[Count] = Field(
        default=None,
        description="remember vectors of replies, so that a pool need not bring them again; off unless asked for, because a "
        "record written past VecSieve is compared by its old vector for up to 10 minutes",
    )


class LimitSettings(Model):
    """What one process takes on before it sheds: first features, then requests."""

    head_timeout_seconds: Seconds = Field(
        default=10.0,
        description="the whole request head at whatever speed, first and later requests, as HAProxy counts it",
    )
    body_timeout_seconds: Seconds = Field(default=30.0, description="the whole body of an intercepted request")
    stream_idle_timeout_seconds: Seconds = Field(
        default=60.0, description="between two reads of a passed-through request body"
    )
    keep_alive_seconds: Seconds = Field(
        default=620.0,
        description="longer than any client's pool or load balancer (600 s): the proxy never closes first",
    )
    connection_age_seconds: OrNone[Seconds] = Field(
        default=None,
        description="a client's connection ends with its first answer after that, ± 10 %, or by GOAWAY: behind a Service 600, so that new "
        "replicas get their share; none: never, as in a sidecar",
    )
    head_line_bytes: Count = Field(
        default=16_384, description="HAProxy's size: not stricter than the database's clients need"
    )
    head_field_bytes: Count = Field(default=16_384, description="the same for one header field")
    head_fields: Count = Field(default=128, description="header fields of one request; HAProxy 101, Envoy 100")
    connections: Count = Field(
        default=4096,
        description="client connections per process; above: accepted, counted and closed. Lowered at start to what RLIMIT_NOFILE leaves",
    )
    in_flight: Count = Field(default=1024, description="requests at once, as Envoy's circuit breaker")
    in_flight_queue_seconds: Seconds = Field(
        default=1.0, description="waiting longer for a place is answered 503 with Retry-After"
    )
    in_flight_lag_seconds: Seconds = Field(
        default=0.06,
        description="while turns of the event loop take longer, a quarter of the places is given, for half of the wait: a request takes some ten turns",
    )
    searches_in_flight: Count = Field(default=64, description="above: searches pass through without selection")
    searches_lag_seconds: Seconds = Field(
        default=0.03,
        description="while turns of the event loop take longer, searches pass through: selection is shed before requests are",
    )
    searches_bytes_in_flight: Count = Field(
        default=64 * 1024 * 1024,
        description="of over-fetched replies held at once, by length or by what the collection's last one came to; above: searches "
        "pass through. 64 replies of the largest size would be 1 GiB",
    )
    answers_bytes_waiting: Count = Field(
        default=64 * 1024 * 1024,
        description="of passed-through answers that wait in memory for clients that read slowly, one of them at most a 32nd; one that does "
        "not fit keeps its connection to the database. While others lack one, or more waits in all, the client that takes least is cut",
    )
    request_body_bytes: Count = Field(
        default=4 * 1024 * 1024, description="larger bodies pass through un-intercepted, never 413"
    )
    searches_per_request: Count = Field(
        default=128,
        description="searches in one batch, or query vectors in one request; above it passes through. A hundred is a common batch; "
        "selecting takes about 1 ms each",
    )
    request_parts: Count = Field(
        default=16_384,
        description="names, list items and objects of one search request, numbers of vectors aside, or over gRPC its fields; above it "
        "passes through: reading a part takes 1 to 3 µs",
    )
    request_nesting: Annotated[int, Field(ge=1, le=64)] = Field(
        default=4,
        description="levels of searches that feed other searches; deeper ones pass through: each level is one more pass over the "
        "request, 8 ms for 4 MiB",
    )
    reply_body_bytes: Count = Field(
        default=16 * 1024 * 1024,
        description="a larger over-fetched reply is dropped and the original request sent; where it is expected to be larger, "
        "a search fetches fewer candidates, or it passes through, as a batch does",
    )
    attempt_timeout_seconds: Seconds = Field(
        default=5.0,
        description="the widened request; the original is sent beside it after 0.25 to 0.5 s, or a quarter of the client's own timeout",
    )
    own_reads_share: Share = Field(
        default=0.1,
        description="reads of our own (grown pools, hedges, replays) a minute and collection, as a share of what clients read, plus one: who keeps a "
        "tenth below a rate limit is never refused because of us. A widened search replaces the client's own and is not counted",
    )
    drain_seconds: SecondsOrZero = Field(
        default=25.0, description="for requests in flight after SIGTERM, below Kubernetes' 30 s"
    )
    drain_accept_seconds: SecondsOrZero = Field(
        default=0.0, description="keep accepting that long while draining: 0 in a sidecar, 5 behind a Service"
    )


class ShadowSettings(Model):
    """Mode shadow: the pipeline beside the untouched answer."""

    sample: Share = Field(
        default=0.05,
        description="share of searches that are measured, the first among them: each costs a second read, and a third where its pool has to "
        "grow, so that the database gets at most a tenth more",
    )
    in_flight: Count = Field(
        default=16, description="run one after another; more than so many waiting are not measured, and counted"
    )


class ProfileSettings(Model):
    """Cuts that `vecsieve calibrate` has measured, one file per collection and vector name. They replace a relative
    threshold's own reading of the pool; a fixed threshold and a request's header stay as they are.
    """

    directory: OrNone[str] = Field(default=None, description="where the profile files are (*.json); none: no profiles")
    reload_seconds: Seconds = Field(
        default=10.0, description="how often the directory is looked at: a ConfigMap takes about a minute to arrive"
    )
    online: bool = Field(
        default=False,
        description="learn a collection's typical distance from its first 50 searches, where there is no profile",
    )


class ExplainSettings(Model):
    """The admin page /explain: what was left out of the last answers, and why. Identifiers only, never payload."""

    keep: Annotated[int, Field(ge=0, le=1000)] = Field(
        default=0, description="answers to remember; identifiers may be confidential, so none unless asked for"
    )


class OverrideSettings(Model):
    """Which per-request headers are obeyed. A forbidden one is refused with 400: silence would look like obedience."""

    mode: bool = Field(default=True, description="x-vecsieve-mode")
    distance_threshold: bool = Field(default=True, description="x-vecsieve-distance-threshold")
    relative_threshold: bool = Field(default=True, description="x-vecsieve-relative-threshold")
    linkage: bool = Field(default=True, description="x-vecsieve-linkage")
    mmr_lambda: bool = Field(default=True, description="x-vecsieve-mmr-lambda")
    representative: bool = Field(default=True, description="x-vecsieve-representative")
    order: bool = Field(default=True, description="x-vecsieve-order")
    fetch_k: bool = Field(default=True, description="x-vecsieve-fetch-k")


class RuleSettings(Model):
    """One rule: the first whose patterns match gives the policy. Members left out come from the preset, then `policy`."""

    backend: Pattern = Field(default="*", description="`*`, `?` and `[…]` as in a shell, upper and lower case apart")
    collection: Pattern = Field(default="*", description="the same, matched against the whole decoded name")
    preset: OrNone[PresetName] = Field(default=None, description="a whole recipe by name")
    policy: dict[str, object] = Field(default={}, description="members of `policy`, only those that differ")


class Settings(Model):
    """Everything a user may set."""

    backend: Backend = Field(default=DEFAULT_BACKEND, description="the dialect spoken on both sides")
    listen: HostPort = Field(
        default="127.0.0.1:6343", description="for clients; loopback, so that nothing is open by accident"
    )
    admin: HostPort = Field(
        default="127.0.0.1:9464", description="health and metrics on a port of their own, on loopback"
    )
    workers: Annotated[int, Field(ge=1, le=256)] = Field(
        default=1, description="one event loop per process; Kubernetes scales, this is for one large machine"
    )
    mode: OrNone[Mode] = Field(
        default=None,
        description="beats every policy's mode when given; a request's header beats both unless overrides.mode is false",
    )
    report_header: bool = Field(
        default=True, description="one response header on intercepted answers says what was done"
    )
    tls: TlsSettings = TlsSettings()
    upstream: UpstreamSettings = UpstreamSettings()
    grpc: GrpcSettings = GrpcSettings()
    pinecone: PineconeSettings = PineconeSettings()
    limits: LimitSettings = LimitSettings()
    shadow: ShadowSettings = ShadowSettings()
    profiles: ProfileSettings = ProfileSettings()
    explain: ExplainSettings = ExplainSettings()
    tracing: TracingSettings = TracingSettings()
    overrides: OverrideSettings = OverrideSettings()
    policy: PolicySettings = PolicySettings()
    rules: tuple[RuleSettings, ...] = ()

    @property
    def traits(self) -> Traits:
        """What is known of the backend."""
        return TRAITS[self.backend]

    @property
    def indexes(self) -> PineconeSettings | None:
        """The section of a backend whose indexes are hosts of their own; None with any other."""
        return self.pinecone if self.traits.has_indexes else None

    @model_validator(mode="before")
    @classmethod
    def _with_its_backends_defaults(cls, tree: object) -> object:
        return with_defaults(tree)
