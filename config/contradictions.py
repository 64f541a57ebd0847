"""Settings that are valid individually and invalid together. Every check names all the places it depends on."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from itertools import combinations

from .addresses import Address, origin_of, parse_address, parse_upstream
from .applications import ApiSettings, WebhookSettings
from .backends import INDEXES, TRAITS
from .policy import CertaintySettings, PolicySettings, RelativeThreshold, WriteSettings
from .problems import Contradiction, Finding, Path, comes_with, contradiction, dotted, shown
from .schema import PineconeSettings, RuleSettings, Settings, TracingSettings
from .values import alternatives


@dataclass(frozen=True, slots=True)
class ListenPort:
    """A port that VecSieve listens on. ``text``: its address. ``written``: the setting's value."""

    place: Path
    address: Address
    text: str
    written: str

    def __str__(self) -> str:
        return f"{dotted(self.place)} ({self.text})"


def listen_ports(settings: Settings) -> tuple[ListenPort, ...]:
    texts: dict[Path, str] = {("listen",): settings.listen, ("admin",): settings.admin}
    if settings.grpc.listen is not None:
        texts["grpc", "listen"] = settings.grpc.listen
    if settings.api.listen is not None:
        texts["api", "listen"] = settings.api.listen
    listening = tuple(ListenPort(place, parse_address(text), text, shown(text)) for place, text in texts.items())
    if settings.indexes is None:
        return listening
    interface, host = settings.listen.rpartition(":")[0], listening[0].address.host
    ports = sorted(settings.indexes.index_ports)
    return listening + tuple(
        ListenPort(index_port(port), Address(host, port), f"{interface}:{port}", str(port)) for port in ports
    )


def index_port(port: int) -> Path:
    return (INDEXES, "index_ports", str(port))


def of_ports(settings: Settings) -> Iterator[Contradiction]:
    """Ports that collide, and upstream addresses that are ports of VecSieve."""
    ports = listen_ports(settings)
    for earlier, later in combinations(ports, 2):
        if later.address.collides(earlier.address):
            yield contradiction(later.place, later.written, f"another port than {earlier}", earlier.place)
    for place, (url, what) in _destinations(settings).items():
        for port in ports:
            if parse_upstream(url).leads_to(port.address):
                yield contradiction(place, shown(url), f"{what}: {port} is VecSieve itself", port.place)


def _destinations(settings: Settings) -> dict[Path, tuple[str, str]]:
    """By place: the URL that requests are sent to, and its role."""
    urls: dict[Path, tuple[str, str]] = {("upstream", "url"): (settings.upstream.origin, "the database")}
    if settings.grpc.upstream is not None:
        urls["grpc", "upstream"] = (settings.grpc.upstream, "the database")
    if settings.webhook.url is not None:
        urls["webhook", "url"] = (origin_of(settings.webhook.url), "a receiver of events")
    indexes = settings.indexes
    if indexes is None:
        return urls
    if indexes.index_host is not None:
        urls[INDEXES, "index_host"] = (indexes.index_host, "an index")
    return {**urls, **{index_port(port): (url, "an index") for port, url in sorted(indexes.index_ports.items())}}


def of_grpc(settings: Settings) -> Iterator[Contradiction]:
    """A gRPC port without an upstream; one of the two TLS files."""
    listen, upstream = settings.grpc.listen, settings.grpc.upstream
    traits, indexes = settings.traits, settings.indexes
    is_led = upstream is not None or traits.shares_port or (indexes is not None and indexes.index_host is not None)
    if not traits.has_grpc:
        for name, address in (("listen", listen), ("upstream", upstream)):
            if address is not None:
                expected = f"none, because {settings.backend} has no gRPC"
                yield contradiction(("grpc", name), shown(address), expected, ("backend",))
    elif listen is not None and not is_led:
        expected = f"where gRPC calls go, because grpc.listen is {listen}"
        yield contradiction(("grpc", "upstream"), "none", expected, ("grpc", "listen"))
    server_files, client_files = ("certificate", "key"), ("client_certificate", "client_key")
    for section, files, pair in (("tls", settings.tls, server_files), ("upstream", settings.upstream, client_files)):
        for given, missing in (pair, pair[::-1]):
            if getattr(files, given) is not None and getattr(files, missing) is None:
                expected = f"a file, because {section}.{given} is given"
                yield contradiction((section, missing), "none", expected, (section, given))


def of_indexes(indexes: PineconeSettings) -> Iterator[Contradiction]:
    """Two ports for one index; a public form without ports."""
    first: dict[Address, Path] = {}
    for port, url in sorted(indexes.index_ports.items()):
        place = index_port(port)
        holder = first.setdefault(parse_upstream(url.lower()), place)
        if holder != place:
            yield contradiction(place, shown(url), f"another index than {dotted(holder)} has", holder)
    if (form := indexes.public_form) != "path" and not indexes.index_ports:
        at: Path = (INDEXES, "public_form")
        yield contradiction(at, shown(form), "path, because index_ports has none", (INDEXES, "index_ports"))


# The SDK and the exporter are two distributions, and chromadb brings the first without the second.
NEEDED = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")
_WILD = re.compile(r"[*?\[]")


def of_settings(settings: Settings) -> Iterator[Contradiction]:
    yield from of_ports(settings)
    yield from of_grpc(settings)
    yield from _of_tracing(settings.tracing)
    yield from _of_canary(settings)
    yield from _of_explain(settings)
    yield from _of_api(settings.api)
    yield from _of_webhook(settings.webhook)
    traits, idle = settings.traits, settings.upstream.pool_idle_seconds
    if traits.closes_idle_seconds is not None and idle >= traits.closes_idle_seconds:
        expected = f"a number below {traits.closes_idle_seconds:g}, because {settings.backend.capitalize()} closes idle connections then"
        yield contradiction(("upstream", "pool_idle_seconds"), shown(idle), expected, ("backend",))
    yield from _of_library(("sessions", "url"), settings.sessions.url, "redis", "sessions")
    if settings.indexes is not None:
        yield from _of_hosts(settings, settings.indexes)


def _of_tracing(tracing: TracingSettings) -> Iterator[Contradiction]:
    if tracing.endpoint is not None and not _is_installed():
        expected = f"none: tracing is on, but opentelemetry is not installed; {comes_with('otel')}"
        yield contradiction(("tracing", "endpoint"), shown(tracing.endpoint), expected)


def _of_canary(settings: Settings) -> Iterator[Contradiction]:
    """It raises mode shadow: in mode on all searches are on already. Mode off stays possible, as the emergency switch."""
    modes = {settings.mode} if settings.mode else {settings.policy.mode, *_modes_of(settings.rules)}
    if settings.canary.is_any and modes == {"on"}:
        expected = "none, because mode is on for all searches: mode: shadow is what it starts from"
        written = shown(settings.canary.model_dump(exclude_defaults=True))
        yield contradiction(("canary",), written, expected, ("mode",), ("policy", "mode"))


def _modes_of(rules: tuple[RuleSettings, ...]) -> set[object]:
    return {rule.policy["mode"] for rule in rules if "mode" in rule.policy}


def _of_explain(settings: Settings) -> Iterator[Contradiction]:
    if settings.admin_is_private:
        return
    why = f"because admin ({settings.admin}) is not on loopback and explain.token_file is none"
    others: tuple[Path, ...] = (("admin",), ("explain", "token_file"))
    if settings.explain.texts:
        yield contradiction(("explain", "texts"), "true", f"false, {why}", *others)
    if settings.explain.judgements is not None:
        yield contradiction(("explain", "judgements"), shown(settings.explain.judgements), f"none, {why}", *others)


def _of_api(api: ApiSettings) -> Iterator[Contradiction]:
    if api.listen is not None and api.token_file is None and not parse_address(api.listen).is_loopback:
        expected = "an address on loopback, because api.token_file is none"
        yield contradiction(("api", "listen"), shown(api.listen), expected, ("api", "token_file"))
    yield from _of_library(("api", "tokenizer"), api.tokenizer, "tiktoken", "tokens")


def _of_webhook(webhook: WebhookSettings) -> Iterator[Contradiction]:
    if webhook.url is not None and webhook.secret_file is None:
        expected = "a file, because webhook.url is given"
        yield contradiction(("webhook", "secret_file"), "none", expected, ("webhook", "url"))


def _is_installed() -> bool:
    try:
        return all(find_spec(name) is not None for name in NEEDED)
    except ModuleNotFoundError:  # for a module whose parent package is missing
        return False


def _of_hosts(settings: Settings, indexes: PineconeSettings) -> Iterator[Contradiction]:
    """For backends whose indexes are hosts."""
    upstream = settings.upstream
    expected = f"nothing, because backend is {settings.backend}"
    if upstream.path_prefix:
        yield contradiction(("upstream", "path_prefix"), shown(upstream.path_prefix), expected, ("backend",))
    if upstream.replacement:
        expected = f"no path, because backend is {settings.backend}"
        yield contradiction(("upstream", "url"), shown(upstream.url), expected, ("backend",))
    yield from of_indexes(indexes)
    has_index = indexes.index_host is not None or indexes.index_ports
    if settings.workers > 1 and upstream.url.startswith("http://") and not has_index:
        expected = "1, because a plain http control plane is for tests: its hosts are known to one process alone"
        yield contradiction(("workers",), shown(settings.workers), expected, ("upstream", "url"))


def of_policy(policy: PolicySettings) -> Iterator[Contradiction]:
    """Paths begin at the policy."""
    fetch, threshold = policy.fetch, policy.threshold
    floor, cap, page_cap = ("fetch", "floor"), ("fetch", "cap"), ("fetch", "page_cap")
    if fetch.floor > fetch.cap:
        yield contradiction(floor, shown(fetch.floor), f"at most fetch.cap ({fetch.cap})", cap)
    if fetch.page_cap < fetch.cap:
        yield contradiction(page_cap, shown(fetch.page_cap), f"at least fetch.cap ({fetch.cap})", cap)
    if isinstance(threshold, RelativeThreshold) and threshold.min > threshold.max:
        expected = f"at most max ({threshold.max:g})"
        yield contradiction(("threshold", "min"), shown(threshold.min), expected, ("threshold", "max"))
    if policy.certainty is not None and threshold is not None:
        expected = "none, because threshold decides where there are no texts: leave one of the two out"
        yield contradiction(("certainty",), shown(_as_written(policy.certainty)), expected, ("threshold",))
    if policy.order == "mmr" and policy.mmr is None and policy.dpp is None:
        expected = "backend, because mmr and dpp are none"
        yield contradiction(("order",), shown(policy.order), expected, ("mmr",), ("dpp",))
    if policy.mmr is not None and policy.dpp is not None:
        expected = "none, because mmr is given and one of the two chooses"
        yield contradiction(("dpp",), shown(policy.dpp), expected, ("mmr",))
    yield from _of_libraries(policy)
    if policy.representative == "longest" and not policy.text_fields:
        expected = "at least one name, because representative is longest"
        yield contradiction(("text_fields",), shown(policy.text_fields), expected, ("representative",))
    if policy.representative == "chain" and not policy.chain:
        expected = "at least one tie, because representative is chain"
        yield contradiction(("chain",), shown(policy.chain), expected, ("representative",))
    size, overlap = policy.metadata.chunk_size, policy.metadata.chunk_overlap
    if size is not None and overlap >= size:
        at: Path = ("metadata", "chunk_overlap")
        yield contradiction(at, shown(overlap), f"below chunk_size ({size})", ("metadata", "chunk_size"))


def of_write(settings: Settings, policy: PolicySettings) -> Iterator[Contradiction]:
    """Paths begin at the policy, except the path of the backend."""
    write = policy.write
    if write.related >= write.semantic:
        expected = f"below semantic ({write.semantic:g})"
        yield contradiction(("write", "related"), shown(write.related), expected, ("write", "semantic"))
    if write.mode != "off" and not settings.traits.has_write_gate:
        expected = f"off, because writes to {settings.backend} are not compared"
        yield contradiction(("write", "mode"), shown(write.mode), expected)
    elif write.changes and settings.journal.path is None:
        expected = f"off, observe or annotate: {write.mode} changes what is stored, and journal.path is none"
        yield contradiction(("write", "mode"), shown(write.mode), expected)
    yield from _of_custom(write)


def _of_custom(write: WriteSettings) -> Iterator[Contradiction]:
    """Its module is imported."""
    if write.merge != "custom":
        return
    try:
        write.custom_policy()
    except (ImportError, SyntaxError, AttributeError, ValueError, TypeError) as error:
        expected = f"module:function, importable here, because merge is custom ({type(error).__name__})"
        yield contradiction(("write", "custom"), shown(write.custom), expected, ("write", "merge"))


def _as_written(certainty: CertaintySettings) -> object:
    """A single number if both ends are equal."""
    return certainty.first if certainty.first == certainty.last else certainty.model_dump()


def _of_libraries(policy: PolicySettings) -> Iterator[Contradiction]:
    """Settings that need an optional library that is not installed."""
    yield from _of_library(("budget", "tokenizer"), policy.budget.tokenizer, "tiktoken", "tokens")
    if policy.rewordings is not None and policy.texts is None:
        expected = "none, because texts is none and rewordings are read in texts"
        yield contradiction(("rewordings",), shown(policy.rewordings), expected, ("texts",))


def _of_library(at: Path, value: object, library: str, extra: str) -> Iterator[Contradiction]:
    """A setting whose optional library is not installed. ``value``: the value that needs it; None needs none."""
    if value is not None and find_spec(library) is None:
        expected = f"none: {library} is not installed; {comes_with(extra)}"
        yield contradiction(at, shown(value), expected)


MOST_NAMED = 16  # rules: each has four series
RESERVED_NAMES = ("default", "unnamed", "other")  # labels: no rule, a rule without a name, a rule added by a reload


def of_rules(rules: tuple[RuleSettings, ...]) -> Iterator[Contradiction]:
    """Rules that can never apply, as far as their patterns show."""
    backends = tuple(TRAITS)
    known = _Earlier()
    named: dict[str, int] = {}
    for index, rule in enumerate(rules):
        at: Path = ("rules", index)
        if rule.name is not None:
            yield from _of_name(rule.name, at, named)
            named.setdefault(rule.name, index)
        if not any(fnmatchcase(backend, rule.backend) for backend in backends):
            expected = f"a pattern that matches {alternatives(backends)}"
            yield contradiction((*at, "backend"), shown(rule.backend), expected)
        hiding = [each for each in known.near(rule.collection) if _hides(rules[each], rule)]
        if not hiding:  # what a hidden rule hides, the earlier one hides as well
            known.add(rule.collection, index)
        else:
            earlier = min(hiding)
            expected = f"a rule that can be reached: rules[{earlier}] matches all that it matches"
            seen = f"backend {shown(rule.backend)}, collection {shown(rule.collection)}"
            patterns = [("rules", place, name) for place in (index, earlier) for name in ("backend", "collection")]
            yield Contradiction(Finding(at, seen, expected), tuple(patterns))


class _Earlier:
    """Earlier rules by the part of their patterns before the first wildcard: of thousands few are near a name."""

    def __init__(self) -> None:
        self._exact: defaultdict[str, list[int]] = defaultdict(list)  # by the whole pattern
        self._wild: defaultdict[str, list[int]] = defaultdict(list)  # by what stands before the first wildcard

    def add(self, pattern: str, index: int) -> None:
        self._exact[pattern].append(index)
        wild = _WILD.search(pattern)
        if wild is not None:
            self._wild[pattern[: wild.start()]].append(index)

    def near(self, pattern: str) -> Iterator[int]:
        """Those that may match all that this one matches: equal patterns, `*`, and for a name those with a beginning of it."""
        yield from self._exact.get(pattern, ())
        if _WILD.search(pattern) is not None:
            yield from self._exact.get("*", ()) if pattern != "*" else ()
            return
        for length in range(len(pattern) + 1):
            yield from self._wild.get(pattern[:length], ())


def _hides(earlier: RuleSettings, rule: RuleSettings) -> bool:
    return _covers(earlier.backend, rule.backend) and _covers(earlier.collection, rule.collection)


def _of_name(name: str, at: Path, named: Mapping[str, int]) -> Iterator[Contradiction]:
    """``named``: the names of earlier rules, and their numbers."""
    if name in RESERVED_NAMES:
        yield contradiction((*at, "name"), shown(name), f"another name: {alternatives(RESERVED_NAMES)} have a meaning")
    elif name in named:
        earlier = ("rules", named[name], "name")
        yield contradiction(
            (*at, "name"), shown(name), f"a name of its own: rules[{named[name]}] has this one", earlier
        )
    elif len(named) == MOST_NAMED:
        yield contradiction((*at, "name"), shown(name), f"at most {MOST_NAMED} named rules: each has series of its own")


def _covers(wider: str, narrower: str) -> bool:
    """Whether ``wider`` provably matches everything that ``narrower`` matches."""
    if wider in {"*", narrower}:
        return True
    return _WILD.search(narrower) is None and fnmatchcase(narrower, wider)
