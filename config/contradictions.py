"""Settings that are each right and together wrong. Every check names all the places it looked at."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from itertools import combinations

from vecsieve.config.addresses import Address, parse_address, parse_upstream
from vecsieve.config.backends import INDEXES, TRAITS
from vecsieve.config.policy import PolicySettings, RelativeThreshold
from vecsieve.config.problems import Contradiction, Finding, Path, contradiction, dotted, shown
from vecsieve.config.schema import PineconeSettings, RuleSettings, Settings, of_tracing
from vecsieve.config.values import alternatives

# The ports that settings make VecSieve listen on, what collides among them, and what leads back to one of them.


@dataclass(frozen=True, slots=True)
class OwnPort:
    """A port that VecSieve listens on. ``text``: its address; ``written``: what the settings have there."""

    place: Path
    address: Address
    text: str
    written: str

    def __str__(self) -> str:
        return f"{dotted(self.place)} ({self.text})"


def own_ports(settings: Settings) -> tuple[OwnPort, ...]:
    """Every port of these settings: listen, admin, gRPC's own, and those that lead to one index each."""
    texts: dict[Path, str] = {("listen",): settings.listen, ("admin",): settings.admin}
    if settings.grpc.listen is not None:
        texts["grpc", "listen"] = settings.grpc.listen
    own = tuple(OwnPort(place, parse_address(text), text, shown(text)) for place, text in texts.items())
    if settings.indexes is None:
        return own
    interface, host = settings.listen.rpartition(":")[0], own[0].address.host
    ports = sorted(settings.indexes.index_ports)
    return own + tuple(
        OwnPort(index_port(port), Address(host, port), f"{interface}:{port}", str(port)) for port in ports
    )


def index_port(port: int) -> Path:
    """Where the settings have an index's port."""
    return (INDEXES, "index_ports", str(port))


def of_ports(settings: Settings) -> Iterator[Contradiction]:
    """Ports that are one port, and addresses of databases that are our own."""
    ports = own_ports(settings)
    for earlier, later in combinations(ports, 2):
        if later.address.collides(earlier.address):
            yield contradiction(later.place, later.written, f"another port than {earlier}", earlier.place)
    for place, (url, what) in _destinations(settings).items():
        for port in ports:
            if parse_upstream(url).leads_to(port.address):
                yield contradiction(place, shown(url), f"{what}: {port} is VecSieve itself", port.place)


def _destinations(settings: Settings) -> dict[Path, tuple[str, str]]:
    """Where requests go: the place that says it, the URL, and what is there."""
    found: dict[Path, tuple[str, str]] = {("upstream", "url"): (settings.upstream.url, "the database")}
    if settings.grpc.upstream is not None:
        found["grpc", "upstream"] = (settings.grpc.upstream, "the database")
    own = settings.indexes
    if own is None:
        return found
    if own.index_host is not None:
        found[INDEXES, "index_host"] = (own.index_host, "an index")
    return {**found, **{index_port(port): (url, "an index") for port, url in sorted(own.index_ports.items())}}


def of_grpc(settings: Settings) -> Iterator[Contradiction]:
    """A gRPC port without anything behind it; half of what TLS takes."""
    listen, upstream, tls = settings.grpc.listen, settings.grpc.upstream, settings.tls
    traits, indexes = settings.traits, settings.indexes
    is_led = upstream is not None or traits.shares_port or (indexes is not None and indexes.index_host is not None)
    if not traits.has_grpc:
        for name, address in (("listen", listen), ("upstream", upstream)):
            if address is not None:
                wanted = f"none, because {settings.backend.capitalize()} has no gRPC"
                yield contradiction(("grpc", name), shown(address), wanted, ("backend",))
    elif listen is not None and not is_led:
        wanted = f"where gRPC calls go, because grpc.listen is {listen}"
        yield contradiction(("grpc", "upstream"), "none", wanted, ("grpc", "listen"))
    if tls.certificate is not None and tls.key is None:
        yield contradiction(("tls", "key"), "none", "a file, because tls.certificate is given", ("tls", "certificate"))
    if tls.key is not None and tls.certificate is None:
        yield contradiction(("tls", "certificate"), "none", "a file, because tls.key is given", ("tls", "key"))


def of_indexes(own: PineconeSettings) -> Iterator[Contradiction]:
    """Ports of indexes that do not tell them apart, or are told to nobody."""
    first: dict[Address, Path] = {}
    for port, url in sorted(own.index_ports.items()):
        place = index_port(port)
        holder = first.setdefault(parse_upstream(url.lower()), place)
        if holder != place:
            yield contradiction(place, shown(url), f"another index than {dotted(holder)} has", holder)
    if own.public_form != "path" and not own.index_ports:
        at: Path = (INDEXES, "public_form")
        yield contradiction(at, shown(own.public_form), "path, because index_ports has none", (INDEXES, "index_ports"))


OF_PYVERSITY = frozenset({"msd", "cover", "ssd"})
_WILD = re.compile(r"[*?\[]")


def of_settings(settings: Settings) -> Iterator[Contradiction]:
    """Contradictions outside policies and rules."""
    yield from of_ports(settings)
    yield from of_grpc(settings)
    yield from of_tracing(settings.tracing)
    traits, idle = settings.traits, settings.upstream.pool_idle_seconds
    if traits.closes_idle_seconds is not None and idle >= traits.closes_idle_seconds:
        wanted = f"a number below {traits.closes_idle_seconds:g}, because {settings.backend.capitalize()} closes idle connections then"
        yield contradiction(("upstream", "pool_idle_seconds"), shown(idle), wanted, ("backend",))
    if settings.indexes is not None:
        yield from _of_hosts(settings, settings.indexes)


def _of_hosts(settings: Settings, own: PineconeSettings) -> Iterator[Contradiction]:
    """Where each index is a host of its own."""
    upstream = settings.upstream
    if own.vector_memory_bytes is not None and settings.workers > 1:
        wanted = f"none, because workers is {settings.workers} and a write passes through one of them"
        yield contradiction((INDEXES, "vector_memory_bytes"), shown(own.vector_memory_bytes), wanted, ("workers",))
    if upstream.path_prefix:
        at: Path = ("upstream", "path_prefix")
        yield contradiction(
            at, shown(upstream.path_prefix), f"nothing, because backend is {settings.backend}", ("backend",)
        )
    yield from of_indexes(own)
    has_index = own.index_host is not None or own.index_ports
    if settings.workers > 1 and upstream.url.startswith("http://") and not has_index:
        wanted = "1, because a plain http control plane is for tests: its hosts are known to one process alone"
        yield contradiction(("workers",), shown(settings.workers), wanted, ("upstream", "url"))


def of_policy(policy: PolicySettings) -> Iterator[Contradiction]:
    """Contradictions within one policy; paths begin at the policy."""
    fetch, threshold = policy.fetch, policy.threshold
    floor, cap, page_cap = ("fetch", "floor"), ("fetch", "cap"), ("fetch", "page_cap")
    if fetch.floor > fetch.cap:
        yield contradiction(floor, shown(fetch.floor), f"at most fetch.cap ({fetch.cap})", cap)
    if fetch.page_cap < fetch.cap:
        yield contradiction(page_cap, shown(fetch.page_cap), f"at least fetch.cap ({fetch.cap})", cap)
    if isinstance(threshold, RelativeThreshold) and threshold.min > threshold.max:
        wanted = f"at most max ({threshold.max:g})"
        yield contradiction(("threshold", "min"), shown(threshold.min), wanted, ("threshold", "max"))
    if policy.order == "mmr" and policy.mmr is None and policy.diversify is None:
        wanted = "backend, because mmr and diversify are none"
        yield contradiction(("order",), shown(policy.order), wanted, ("mmr",), ("diversify",))
    if policy.mmr is not None and policy.diversify is not None:
        wanted = "none, because mmr is given and one of the two chooses"
        yield contradiction(("diversify",), shown(policy.diversify), wanted, ("mmr",))
    yield from _of_libraries(policy)
    if policy.representative == "longest" and not policy.text_fields:
        wanted = "at least one name, because representative is longest"
        yield contradiction(("text_fields",), shown(policy.text_fields), wanted, ("representative",))
    if policy.representative == "chain" and not policy.chain:
        wanted = "at least one tie, because representative is chain"
        yield contradiction(("chain",), shown(policy.chain), wanted, ("representative",))
    size, overlap = policy.metadata.chunk_size, policy.metadata.chunk_overlap
    if size is not None and overlap >= size:
        at: Path = ("metadata", "chunk_overlap")
        yield contradiction(at, shown(overlap), f"below chunk_size ({size})", ("metadata", "chunk_size"))


def _of_libraries(policy: PolicySettings) -> Iterator[Contradiction]:
    """What needs an optional library that is not installed."""
    if policy.diversify in OF_PYVERSITY and find_spec("pyversity") is None:
        wanted = "dpp or none: pyversity is not installed; it comes with pip install 'vecsieve[diversifiers]'"
        yield contradiction(("diversify",), shown(policy.diversify), wanted)
    if policy.text is not None and policy.text.indel is not None and find_spec("rapidfuzz") is None:
        wanted = "none: rapidfuzz is not installed; it comes with pip install 'vecsieve[indel]'"
        yield contradiction(("text", "indel"), shown(policy.text.indel), wanted)


def of_rules(rules: tuple[RuleSettings, ...]) -> Iterator[Contradiction]:
    """Rules that can never decide anything, as far as looking at the patterns proves it."""
    backends = tuple(TRAITS)
    wild: list[int] = []  # plain names are looked up, so that thousands of them are compared in no time
    plain: defaultdict[str, list[int]] = defaultdict(list)
    for index, rule in enumerate(rules):
        at: Path = ("rules", index)
        if not any(fnmatchcase(backend, rule.backend) for backend in backends):
            wanted = f"a pattern that matches {alternatives(backends)}"
            yield contradiction((*at, "backend"), shown(rule.backend), wanted)
        hiding = [each for each in (*wild, *plain.get(rule.collection, ())) if _hides(rules[each], rule)]
        (wild if _WILD.search(rule.collection) else plain[rule.collection]).append(index)
        if hiding:
            earlier = min(hiding)
            wanted = f"a rule that can be reached: rules[{earlier}] matches all that it matches"
            seen = f"backend {shown(rule.backend)}, collection {shown(rule.collection)}"
            patterns = [("rules", place, name) for place in (index, earlier) for name in ("backend", "collection")]
            yield Contradiction(Finding(at, seen, wanted), tuple(patterns))


def _hides(earlier: RuleSettings, rule: RuleSettings) -> bool:
    """Whether the earlier rule leaves nothing to this one."""
    return _covers(earlier.backend, rule.backend) and _covers(earlier.collection, rule.collection)


def _covers(wider: str, narrower: str) -> bool:
    """Whether everything that ``narrower`` matches is certainly matched by ``wider``."""
    if wider in {"*", narrower}:
        return True
    return _WILD.search(narrower) is None and fnmatchcase(narrower, wider)
