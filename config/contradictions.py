"""Settings that are each right and together wrong. Every check names all the places it looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import get_args

from vecsieve.config.addresses import Address, parse_address, parse_upstream
from vecsieve.config.fields import alternatives
from vecsieve.config.policy import PolicySettings, RelativeThreshold
from vecsieve.config.problems import Finding, Path, dotted, shown
from vecsieve.config.schema import RuleSettings, Settings
from vecsieve.config.values import Backend

OF_PYVERSITY = frozenset({"msd", "cover", "ssd"})
QDRANT_IDLE_SECONDS = 5.0  # actix-web's keep-alive, which Qdrant leaves as it is
_WILD = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Contradiction:
    """A finding, and all the places it depends on: when one of those is wrong itself, the finding proves nothing."""

    finding: Finding
    places: tuple[Path, ...]

    def within(self, at: Path, *, own: Mapping[str, object] | None = None) -> Contradiction:
        """The same for a policy that stands at ``at``.

        ``own``: the members a rule decides itself. The others come from the settings' policy and depend on it too.
        """
        finding = Finding((*at, *self.finding.path), self.finding.seen, self.finding.wanted)
        inherited = [place for place in self.places if own is not None and not _is_given(own, place)]
        here = [(*at, *place) for place in self.places]
        return Contradiction(finding, (*here, *(("policy", *place) for place in inherited)))


def _is_given(tree: Mapping[str, object], place: Path) -> bool:
    """Whether the tree decides what stands at ``place``: by a value there, or by something else above it."""
    below: object = tree
    for part in place:
        if not isinstance(below, Mapping):
            return True
        if part not in below:
            return False
        below = below[str(part)]
    return True


def _contradiction(path: Path, seen: str, wanted: str, *others: Path) -> Contradiction:
    return Contradiction(Finding(path, seen, wanted), (path, *others))


@dataclass(frozen=True, slots=True)
class _OwnPort:
    """A port that VecSieve listens on, as the settings have it."""

    place: Path
    address: Address
    text: str

    def __str__(self) -> str:
        return f"{dotted(self.place)} ({self.text})"


def _own_ports(settings: Settings) -> tuple[_OwnPort, ...]:
    """Every port of these settings: listen, admin, and those that lead to one index each."""
    texts = {"listen": settings.listen, "admin": settings.admin}
    own = tuple(_OwnPort((name,), parse_address(text), text) for name, text in texts.items())
    if settings.backend != "pinecone":
        return own
    interface, host = settings.listen.rpartition(":")[0], own[0].address.host
    ports = sorted(settings.pinecone.index_ports)
    return own + tuple(_OwnPort(_index_port(port), Address(host, port), f"{interface}:{port}") for port in ports)


def _index_port(port: int) -> Path:
    return ("pinecone", "index_ports", str(port))


def of_settings(settings: Settings) -> Iterator[Contradiction]:
    """Contradictions outside policies and rules."""
    if parse_address(settings.admin).collides(parse_address(settings.listen)):
        wanted = f"another port than listen ({settings.listen})"
        yield _contradiction(("admin",), shown(settings.admin), wanted, ("listen",))
    url = settings.upstream.url
    for own in _own_ports(settings):
        if parse_upstream(url).leads_to(own.address):
            yield _contradiction(("upstream", "url"), shown(url), f"the database: {own} is VecSieve itself", own.place)
    yield from _of_pinecone(settings) if settings.backend == "pinecone" else _of_qdrant(settings)


def _of_qdrant(settings: Settings) -> Iterator[Contradiction]:
    idle = settings.upstream.pool_idle_seconds
    if idle >= QDRANT_IDLE_SECONDS:
        wanted = f"a number below {QDRANT_IDLE_SECONDS:g}, because Qdrant closes idle connections then"
        yield _contradiction(("upstream", "pool_idle_seconds"), shown(idle), wanted, ("backend",))


def _of_pinecone(settings: Settings) -> Iterator[Contradiction]:
    upstream, own = settings.upstream, settings.pinecone
    if own.vector_memory_bytes is not None and settings.workers > 1:
        wanted = f"none, because workers is {settings.workers} and a write passes through one of them"
        yield _contradiction(("pinecone", "vector_memory_bytes"), shown(own.vector_memory_bytes), wanted, ("workers",))
    if upstream.path_prefix:
        at: Path = ("upstream", "path_prefix")
        yield _contradiction(at, shown(upstream.path_prefix), "nothing, because backend is pinecone", ("backend",))
    yield from _of_indexes(settings)
    has_index = own.index_host is not None or own.index_ports
    if settings.workers > 1 and upstream.url.startswith("http://") and not has_index:
        wanted = "1, because a plain http control plane is for tests: its hosts are known to one process alone"
        yield _contradiction(("workers",), shown(settings.workers), wanted, ("upstream", "url"))


def _of_indexes(settings: Settings) -> Iterator[Contradiction]:
    """Indexes that the settings name, and the ports they stand behind."""
    own, ports = settings.pinecone, _own_ports(settings)
    named: dict[Path, str] = {_index_port(port): url for port, url in sorted(own.index_ports.items())}
    fixed: dict[Path, str] = {} if own.index_host is None else {("pinecone", "index_host"): own.index_host}
    for place, url in {**fixed, **named}.items():
        for port in ports:
            if parse_upstream(url).leads_to(port.address):
                yield _contradiction(place, shown(url), f"an index: {port} is VecSieve itself", port.place)
    for port in ports[2:]:
        for other in ports[:2]:
            if port.address.collides(other.address):
                yield _contradiction(port.place, str(port.address.port), f"another port than {other}", other.place)
    first: dict[Address, Path] = {}
    for place, url in named.items():
        holder = first.setdefault(parse_upstream(url.lower()), place)
        if holder != place:
            yield _contradiction(place, shown(url), f"another index than {dotted(holder)} has", holder)
    if own.public_form != "path" and not own.index_ports:
        at: Path = ("pinecone", "public_form")
        yield _contradiction(
            at, shown(own.public_form), "path, because index_ports has none", ("pinecone", "index_ports")
        )


def of_policy(policy: PolicySettings) -> Iterator[Contradiction]:
    """Contradictions within one policy; paths begin at the policy."""
    fetch, threshold = policy.fetch, policy.threshold
    floor, cap, page_cap = ("fetch", "floor"), ("fetch", "cap"), ("fetch", "page_cap")
    if fetch.floor > fetch.cap:
        yield _contradiction(floor, shown(fetch.floor), f"at most fetch.cap ({fetch.cap})", cap)
    if fetch.page_cap < fetch.cap:
        yield _contradiction(page_cap, shown(fetch.page_cap), f"at least fetch.cap ({fetch.cap})", cap)
    if isinstance(threshold, RelativeThreshold) and threshold.min > threshold.max:
        wanted = f"at most max ({threshold.max:g})"
        yield _contradiction(("threshold", "min"), shown(threshold.min), wanted, ("threshold", "max"))
    if policy.order == "mmr" and policy.mmr is None and policy.diversify is None:
        wanted = "backend, because mmr and diversify are none"
        yield _contradiction(("order",), shown(policy.order), wanted, ("mmr",), ("diversify",))
    if policy.mmr is not None and policy.diversify is not None:
        wanted = "none, because mmr is given and one of the two chooses"
        yield _contradiction(("diversify",), shown(policy.diversify), wanted, ("mmr",))
    if policy.diversify in OF_PYVERSITY and find_spec("pyversity") is None:
        wanted = "dpp or none: pyversity is not installed; it comes with pip install 'vecsieve[diversifiers]'"
        yield _contradiction(("diversify",), shown(policy.diversify), wanted)
    if policy.representative == "longest" and not policy.text_fields:
        wanted = "at least one name, because representative is longest"
        yield _contradiction(("text_fields",), shown(policy.text_fields), wanted, ("representative",))
    if policy.representative == "chain" and not policy.chain:
        wanted = "at least one tie, because representative is chain"
        yield _contradiction(("chain",), shown(policy.chain), wanted, ("representative",))
    size, overlap = policy.metadata.chunk_size, policy.metadata.chunk_overlap
    if size is not None and overlap >= size:
        at: Path = ("metadata", "chunk_overlap")
        yield _contradiction(at, shown(overlap), f"below chunk_size ({size})", ("metadata", "chunk_size"))


def of_rules(rules: tuple[RuleSettings, ...]) -> Iterator[Contradiction]:
    """Rules that can never decide anything, as far as looking at the patterns proves it."""
    backends = get_args(Backend)
    hiding = _Hiding()
    for index, rule in enumerate(rules):
        at: Path = ("rules", index)
        if not any(fnmatchcase(backend, rule.backend) for backend in backends):
            wanted = f"a pattern that matches {alternatives(backends)}"
            yield _contradiction((*at, "backend"), shown(rule.backend), wanted)
        earlier = hiding.first(rule)
        hiding.add(rule)
        if earlier is not None:
            wanted = f"a rule that can be reached: rules[{earlier}] matches all that it matches"
            seen = f"backend {shown(rule.backend)}, collection {shown(rule.collection)}"
            patterns = [("rules", place, name) for place in (index, earlier) for name in ("backend", "collection")]
            yield Contradiction(Finding(at, seen, wanted), tuple(patterns))


class _Hiding:
    """The rules so far, kept so that thousands of plain names are compared in no time."""

    __slots__ = ("_count", "_same", "_wild")

    def __init__(self) -> None:
        self._count = 0
        self._wild: list[tuple[int, RuleSettings]] = []
        self._same: dict[str, list[tuple[int, RuleSettings]]] = {}

    def add(self, rule: RuleSettings) -> None:
        """Remember the next rule."""
        by_pattern = self._wild if _WILD.search(rule.collection) else self._same.setdefault(rule.collection, [])
        by_pattern.append((self._count, rule))
        self._count += 1

    def first(self, rule: RuleSettings) -> int | None:
        """The number of the first rule so far that leaves nothing to this one."""
        numbers = (
            number
            for number, earlier in (*self._wild, *self._same.get(rule.collection, ()))
            if _covers(earlier.backend, rule.backend) and _covers(earlier.collection, rule.collection)
        )
        return min(numbers, default=None)


def _covers(wider: str, narrower: str) -> bool:
    """Whether everything that ``narrower`` matches is certainly matched by ``wider``."""
    if wider in {"*", narrower}:
        return True
    return _WILD.search(narrower) is None and fnmatchcase(narrower, wider)
