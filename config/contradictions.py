"""Settings that are valid individually and invalid together. Every check names all the places it depends on."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from importlib.util import find_spec
from itertools import combinations
from operator import attrgetter

from pydantic import BaseModel

from .addresses import Address, origin_of, parse_address, parse_upstream
from .backends import INDEXES, TRAITS
from .policy import CHANGING, CertaintySettings, PolicySettings, ThresholdSettings, WriteSettings
from .problems import Contradiction, Finding, Path, comes_with, contradiction, dotted, excerpt
from .schema import PineconeSettings, RuleSettings, Settings
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
    listening = tuple(ListenPort(place, parse_address(text), text, excerpt(text)) for place, text in texts.items())
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
                yield contradiction(place, excerpt(url), f"{what}: {port} is VecSieve itself", port.place)


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


# A rule: whether it is broken, the setting to change, what it should be, and the settings on which that depends.
Rule = tuple[bool, str, str, *tuple[str, ...]]


def conflicts(settings: BaseModel, rules: Iterable[Rule]) -> Iterator[Contradiction]:
    """What is broken of these rules. Paths begin at ``settings``."""
    for is_broken, path, expected, *others in rules:
        if is_broken:
            value = attrgetter(path)(settings)
            yield contradiction(_parts(path), _seen(value), expected, *map(_parts, others))


def _parts(path: str) -> Path:
    return tuple(path.split("."))


def _seen(value: object) -> str:
    """A value as a file has it: of a section what is not the default, of an even certainty one number."""
    match value:
        case None:
            return "none"
        case CertaintySettings(first=first, last=last):
            return excerpt(first if first == last else value.model_dump())
        case BaseModel():
            return excerpt(value.model_dump(exclude_defaults=True))
    return excerpt(value)


def of_settings(settings: Settings) -> Iterator[Contradiction]:
    yield from of_ports(settings)
    yield from conflicts(settings, _rules(settings))
    if settings.indexes is not None:
        yield from conflicts(settings, _rules_of_hosts(settings, settings.indexes))
        yield from _shared_indexes(settings.indexes)


# The SDK and the exporter are two distributions, and chromadb brings the first without the second.
TRACING = ("opentelemetry", "opentelemetry.sdk", "opentelemetry.exporter.otlp.proto.http")


def _rules(settings: Settings) -> Iterator[Rule]:
    grpc, traits, indexes, backend = settings.grpc, settings.traits, settings.indexes, settings.backend
    for name, address in (("listen", grpc.listen), ("upstream", grpc.upstream)):
        expected = f"none, because {backend} has no gRPC"
        yield (not traits.has_grpc and address is not None, f"grpc.{name}", expected, "backend")
    leads = grpc.upstream is not None or traits.shares_port or (indexes is not None and indexes.index_host is not None)
    expected = f"where gRPC calls go, because grpc.listen is {grpc.listen}"
    yield (traits.has_grpc and grpc.listen is not None and not leads, "grpc.upstream", expected, "grpc.listen")
    for given, missing in PAIRS_OF_FILES:
        is_half = attrgetter(given)(settings) is not None and attrgetter(missing)(settings) is None
        yield (is_half, missing, f"a file, because {given} is given", given)
    yield needs_library("tracing.endpoint", settings.tracing.endpoint, TRACING, "opentelemetry", "otel")
    yield needs_library("api.tokenizer", settings.api.tokenizer, ("tiktoken",), "tiktoken", "tokens")
    yield needs_library("sessions.url", settings.sessions.url, ("redis",), "redis", "sessions")
    # A canary raises mode shadow: in mode on all searches are on already. Mode off stays possible, as the emergency switch.
    of_rules = {rule.policy["mode"] for rule in settings.rules if "mode" in rule.policy}
    modes = {settings.mode} if settings.mode else {settings.policy.mode, *of_rules}
    expected = "none, because mode is on for all searches: mode: shadow is what it starts from"
    yield (settings.canary.is_any and modes == {"on"}, "canary", expected, "mode", "policy.mode")
    why = f"because admin ({settings.admin}) is not on loopback and explain.token_file is none"
    is_open, explain = not settings.admin_is_private, settings.explain
    yield (is_open and bool(explain.texts), "explain.texts", f"false, {why}", "admin", "explain.token_file")
    has_file = explain.judgements is not None
    yield (is_open and has_file, "explain.judgements", f"none, {why}", "admin", "explain.token_file")
    api = settings.api
    is_open = api.listen is not None and api.token_file is None and not parse_address(api.listen).is_loopback
    yield (is_open, "api.listen", "an address on loopback, because api.token_file is none", "api.token_file")
    is_unsigned = settings.webhook.url is not None and settings.webhook.secret_file is None
    yield (is_unsigned, "webhook.secret_file", "a file, because webhook.url is given", "webhook.url")
    closes = traits.closes_idle_seconds or math.inf
    expected = f"a number below {closes:g}, because {backend.capitalize()} closes idle connections then"
    yield (settings.upstream.pool_idle_seconds >= closes, "upstream.pool_idle_seconds", expected, "backend")


PAIRS_OF_FILES = (
    ("tls.certificate", "tls.key"),
    ("tls.key", "tls.certificate"),
    ("upstream.client_certificate", "upstream.client_key"),
    ("upstream.client_key", "upstream.client_certificate"),
)


def needs_library(path: str, value: object, modules: Sequence[str], library: str, extra: str) -> Rule:
    """A setting that needs an optional library. ``value``: None needs none."""
    expected = f"none: {library} is not installed; {comes_with(extra)}"
    return (value is not None and not all(map(_is_installed, modules)), path, expected)


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:  # for a module whose parent package is missing
        return False


def _rules_of_hosts(settings: Settings, indexes: PineconeSettings) -> Iterator[Rule]:
    """For backends whose indexes are hosts."""
    upstream, because = settings.upstream, f"because backend is {settings.backend}"
    yield (bool(upstream.path_prefix), "upstream.path_prefix", f"nothing, {because}", "backend")
    yield (bool(upstream.replacement), "upstream.url", f"no path, {because}", "backend")
    is_path, ports = indexes.public_form == "path", f"{INDEXES}.index_ports"
    has_none = not is_path and not indexes.index_ports
    yield (has_none, f"{INDEXES}.public_form", "path, because index_ports has none", ports)
    has_index = indexes.index_host is not None or indexes.index_ports
    is_plain = settings.workers > 1 and upstream.url.startswith("http://") and not has_index
    expected = "1, because a plain http control plane is for tests: its hosts are known to one process alone"
    yield (is_plain, "workers", expected, "upstream.url")


def _shared_indexes(indexes: PineconeSettings) -> Iterator[Contradiction]:
    """Two ports for one index."""
    first: dict[Address, Path] = {}
    for port, url in sorted(indexes.index_ports.items()):
        place = index_port(port)
        holder = first.setdefault(parse_upstream(url.lower()), place)
        if holder != place:
            yield contradiction(place, excerpt(url), f"another index than {dotted(holder)} has", holder)


def of_policy(policy: PolicySettings) -> Iterator[Contradiction]:
    """Paths begin at the policy."""
    return conflicts(policy, _rules_of_policy(policy))


def _rules_of_policy(policy: PolicySettings) -> Iterator[Rule]:
    fetch, threshold, metadata = policy.fetch, policy.threshold, policy.metadata
    yield (fetch.floor > fetch.cap, "fetch.floor", f"at most fetch.cap ({fetch.cap})", "fetch.cap")
    yield (fetch.page_cap < fetch.cap, "fetch.page_cap", f"at least fetch.cap ({fetch.cap})", "fetch.cap")
    if threshold is not None:
        is_mixed = threshold.fixed is not None and threshold != ThresholdSettings(fixed=threshold.fixed)
        yield (is_mixed, "threshold", "fixed alone, or relative with min and max", "threshold.fixed")
        is_crossed = threshold.min > threshold.max
        yield (is_crossed, "threshold.min", f"at most max ({threshold.max:g})", "threshold.max")
    has_both = policy.certainty is not None and threshold is not None
    expected = "none, because threshold decides where there are no texts: leave one of the two out"
    yield (has_both, "certainty", expected, "threshold")
    has_neither = policy.mmr is None and policy.dpp is None
    yield (policy.order == "mmr" and has_neither, "order", "backend, because mmr and dpp are none", "mmr", "dpp")
    has_both = policy.mmr is not None and policy.dpp is not None
    yield (has_both, "dpp", "none, because mmr is given and one of the two chooses", "mmr")
    yield needs_library("budget.tokenizer", policy.budget.tokenizer, ("tiktoken",), "tiktoken", "tokens")
    has_no_texts = policy.rewordings is not None and policy.texts is None
    yield (has_no_texts, "rewordings", "none, because texts is none and rewordings are read in texts", "texts")
    is_longest = policy.representative == "longest" and not policy.text_fields
    yield (is_longest, "text_fields", "at least one name, because representative is longest", "representative")
    is_chain = policy.representative == "chain" and not policy.chain
    yield (is_chain, "chain", "at least one tie, because representative is chain", "representative")
    size = metadata.chunk_size
    swallows = size is not None and metadata.chunk_overlap >= size
    yield (swallows, "metadata.chunk_overlap", f"below chunk_size ({size})", "metadata.chunk_size")


def of_write(settings: Settings, policy: PolicySettings) -> Iterator[Contradiction]:
    """Paths begin at the policy, except the path of the backend."""
    return conflicts(policy, _rules_of_write(settings, policy.write))


def _rules_of_write(settings: Settings, write: WriteSettings) -> Iterator[Rule]:
    is_crossed = write.related >= write.semantic
    yield (is_crossed, "write.related", f"below semantic ({write.semantic:g})", "write.semantic")
    expected = f"off, observe or annotate: {write.mode} changes what is stored, and journal.path is none"
    yield (write.mode in CHANGING and settings.journal.path is None, "write.mode", expected)
    if write.merge == "custom":
        fault = _fault_of_custom(write)
        expected = f"module:function, importable here, because merge is custom ({fault})"
        yield (fault is not None, "write.custom", expected, "write.merge")


def _fault_of_custom(write: WriteSettings) -> str | None:
    """Its module is imported. None: it can be called."""
    try:
        write.custom_policy()
    except (ImportError, SyntaxError, AttributeError, ValueError, TypeError) as error:
        return type(error).__name__
    return None


_WILD = re.compile(r"[*?\[]")
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
            yield contradiction((*at, "backend"), excerpt(rule.backend), expected)
        hiding = [place for place in known.near(rule.collection) if _hides(rules[place], rule)]
        if not hiding:  # what a hidden rule hides, the earlier one hides as well
            known.add(rule.collection, index)
        else:
            earlier = min(hiding)
            expected = f"a rule that can be reached: rules[{earlier}] matches all that it matches"
            seen = f"backend {excerpt(rule.backend)}, collection {excerpt(rule.collection)}"
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
        yield contradiction(
            (*at, "name"), excerpt(name), f"another name: {alternatives(RESERVED_NAMES)} have a meaning"
        )
    elif name in named:
        earlier = ("rules", named[name], "name")
        yield contradiction(
            (*at, "name"), excerpt(name), f"a name of its own: rules[{named[name]}] has this one", earlier
        )
    elif len(named) == MOST_NAMED:
        yield contradiction(
            (*at, "name"), excerpt(name), f"at most {MOST_NAMED} named rules: each has series of its own"
        )


def _covers(wider: str, narrower: str) -> bool:
    """Whether ``wider`` provably matches everything that ``narrower`` matches."""
    if wider in {"*", narrower}:
        return True
    return _WILD.search(narrower) is None and fnmatchcase(narrower, wider)
