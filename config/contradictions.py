"""Settings that are each right and together wrong. Every check names all the places it looked at."""

from __future__ import annotations

import re
from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import get_args

from vecsieve.config.contradiction import Contradiction, contradiction
from vecsieve.config.fields import alternatives
from vecsieve.config.policy import PolicySettings, RelativeThreshold
from vecsieve.config.ports import of_grpc, of_indexes, of_ports
from vecsieve.config.problems import Finding, Path, shown
from vecsieve.config.schema import RuleSettings, Settings
from vecsieve.config.tracing import of_tracing
from vecsieve.config.values import Backend

OF_PYVERSITY = frozenset({"msd", "cover", "ssd"})
QDRANT_IDLE_SECONDS = 5.0  # actix-web's keep-alive, which Qdrant leaves as it is
_WILD = re.compile(r"[*?\[]")


def of_settings(settings: Settings) -> Iterator[Contradiction]:
    """Contradictions outside policies and rules."""
    yield from of_ports(settings)
    yield from of_grpc(settings)
    yield from of_tracing(settings.tracing)
    if settings.backend == "pinecone":
        yield from _of_pinecone(settings)
    elif settings.backend == "qdrant":
        yield from _of_qdrant(settings)


def _of_qdrant(settings: Settings) -> Iterator[Contradiction]:
    idle = settings.upstream.pool_idle_seconds
    if idle >= QDRANT_IDLE_SECONDS:
        wanted = f"a number below {QDRANT_IDLE_SECONDS:g}, because Qdrant closes idle connections then"
        yield contradiction(("upstream", "pool_idle_seconds"), shown(idle), wanted, ("backend",))


def _of_pinecone(settings: Settings) -> Iterator[Contradiction]:
    upstream, own = settings.upstream, settings.pinecone
    if own.vector_memory_bytes is not None and settings.workers > 1:
        wanted = f"none, because workers is {settings.workers} and a write passes through one of them"
        yield contradiction(("pinecone", "vector_memory_bytes"), shown(own.vector_memory_bytes), wanted, ("workers",))
    if upstream.path_prefix:
        at: Path = ("upstream", "path_prefix")
        yield contradiction(at, shown(upstream.path_prefix), "nothing, because backend is pinecone", ("backend",))
    yield from of_indexes(settings)
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
    if policy.diversify in OF_PYVERSITY and find_spec("pyversity") is None:
        wanted = "dpp or none: pyversity is not installed; it comes with pip install 'vecsieve[diversifiers]'"
        yield contradiction(("diversify",), shown(policy.diversify), wanted)
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


def of_rules(rules: tuple[RuleSettings, ...]) -> Iterator[Contradiction]:
    """Rules that can never decide anything, as far as looking at the patterns proves it."""
    backends = get_args(Backend)
    hiding = _Hiding()
    for index, rule in enumerate(rules):
        at: Path = ("rules", index)
        if not any(fnmatchcase(backend, rule.backend) for backend in backends):
            wanted = f"a pattern that matches {alternatives(backends)}"
            yield contradiction((*at, "backend"), shown(rule.backend), wanted)
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
