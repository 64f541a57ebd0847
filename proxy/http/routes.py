"""Where requests go: one upstream, or one of many index hosts behind the same ports.

    /_i/<host>/query      that host, when it may be named
    /_i/<host>/a/b/query  that host, behind the path of another gateway or of another VecSieve
    /query, /vectors/…    the index behind the port, or the one that the settings name
    everything else       the control plane, whose paths overlap with no index path

The client's bytes are forwarded unchanged: doubled slashes, `%2F` and `b+c` keep their meaning.
"""

from __future__ import annotations

import logging
import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from vecsieve.adapters.backends import Backend, Transport
from vecsieve.adapters.contract import Adapter, IndexRules, Operation, RequestHead
from vecsieve.adapters.writes import WriteAdapter
from vecsieve.config.addresses import HTTPS_PORT, Host, parse_pattern, read_host
from vecsieve.config.schema import PineconeSettings, Settings

from ..runtime.addresses import Origin
from ..search.collections.learned import nameable
from ..search.errors import Trouble
from .answers import Editing
from .headers import RawHeaders, Target, matching_path, read_target, values


class Routes(Protocol):
    """Answers the data plane's questions about a target. Nothing here waits."""

    is_fixed: bool
    """Whether the same target always leads to the same place."""

    @property
    def may_be_private(self) -> Callable[[str], bool] | None:
        """Whether a host name may have a private address; None when requests never name hosts."""
        ...

    def find(self, target: Target, index: Origin | None) -> tuple[Target, str | None] | Trouble:
        """The target with its origin and what stands before the database's own paths, and the path for classification, None if it is none of
        the database's; or why there is none. ``index``: of the port that was used.
        """
        ...

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        """How the answer is changed; None if it is not."""
        ...


class OneUpstream:
    """Everything goes to the configured database. ``path_prefix``: precedes the database's own paths in requests. ``replacement``: stands
    in its place in what is sent; None: they are sent as they came.
    """

    is_fixed = True
    may_be_private = None

    def __init__(self, path_prefix: str, replacement: str | None) -> None:
        self._path_prefix = path_prefix
        self._replacement = replacement
        self._prefix = path_prefix if replacement is None else replacement

    def find(self, target: Target, index: Origin | None) -> tuple[Target, str | None] | Trouble:
        if self._replacement is not None:
            is_within = f"{target.path}/".startswith(f"{self._path_prefix}/")
            rest = target.raw[len(self._path_prefix) :] if is_within else target.raw
            raw = self._replacement + (rest if rest.startswith("/") else f"/{rest}")
            target = replace(target, raw=raw, path=raw.split("?", 1)[0])
        path = matching_path(target.path, self._prefix)
        return (replace(target, prefix=self._prefix) if self._prefix and path is not None else target), path

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        return None


@dataclass(frozen=True, slots=True)
class Classified:
    """What a request's head shows. ``search``: None if it is no ranked search. ``collection``: the one that it names. ``write``: an
    upsert that the write gate can read. ``deletion``: a request that may delete points. ``is_routed``: False for a target that is none of the
    database's: it is sent on unchanged, or refused for ``trouble``.
    """

    target: Target
    head: RequestHead
    search: Operation | None = None
    collection: str = ""
    write: Operation | None = None
    deletion: Operation | None = None
    is_routed: bool = True
    trouble: Trouble | None = None


LOGGER = logging.getLogger("vecsieve.upstream")
PREFIX_CHARACTERS = 128
MOST_REMEMBERED = 1024
REMEMBERED_CHARACTERS = 512


@dataclass(slots=True)
class Heads:
    """Reads the heads of requests, and caches the results, because the same few paths repeat.

    The key is method, path, content type and version. Targets with a query string, which may hold a key, are not cached.
    """

    _routes: Routes
    _adapter: Adapter
    _backend: Backend
    _rest: Transport = field(init=False)
    _writes: WriteAdapter | None = field(init=False)
    _known: dict[tuple[str, str, str, str], Classified] = field(default_factory=dict)
    _has_warned: bool = False
    _is_signature_known: bool = False

    def __post_init__(self) -> None:
        self._rest = rest = self._backend.rest
        self._writes = None if rest.writes is None else rest.writes()

    def read(self, method: str, raw_target: str, headers: Mapping[str, str], index: Origin | None) -> Classified:
        """``index``: of the port that was used."""
        version = "" if self._backend.version_field is None else headers.get(self._backend.version_field, "")
        key = (method, raw_target, headers.get("Content-Type", ""), version)
        known = self._known.get(key)
        if known is not None:
            return known
        head = self._read(*key, index)
        is_small = sum(map(len, key)) <= REMEMBERED_CHARACTERS
        if head.is_routed and self._routes.is_fixed and is_small and "?" not in raw_target:
            if len(self._known) >= MOST_REMEMBERED:
                self._known.clear()
            self._known[key] = head
        return head

    def _read(self, method: str, raw_target: str, content_type: str, version: str, index: Origin | None) -> Classified:
        target = read_target(raw_target)
        route = None if target is None else self._routes.find(target, index)
        trouble = route if isinstance(route, Trouble) else None
        passed, path = route if isinstance(route, tuple) else (Target(raw_target, raw_target), None)
        if path is None:
            head = RequestHead(method=method, path=passed.path, content_type=content_type, version=version)
            self._watch(head)
            return Classified(passed, replace(head, path=raw_target), is_routed=False, trouble=trouble)
        host = "" if passed.origin is None else passed.origin.authority + passed.prefix
        query = passed.raw[len(passed.path) + 1 :]
        head = RequestHead(method=method, path=path, query=query, content_type=content_type, host=host, version=version)
        search, deletes = nameable(self._adapter.classify(head)), self._rest.deletes
        write = None if search is not None or self._writes is None else nameable(self._writes.classify(head))
        deletion = None if search is not None or deletes is None else nameable(deletes.classify(head))
        collection = self._rest.collection_of(head)
        if search is None and not collection:
            self._watch(head)
        return Classified(passed, head, search, collection, write, deletion)

    def warn_of_signatures(self) -> None:
        """Warn, once, that signed searches pass through unchanged."""
        if not self._is_signature_known:
            self._is_signature_known = True
            LOGGER.warning(
                "searches are signed (AWS SigV4), and pass through unchanged: a widened request would need another signature."
                " Let clients use basic authentication, or let a signing proxy stand between VecSieve and the database"
            )

    def _watch(self, head: RequestHead) -> None:
        """Warn, once, when the path of a search stands behind another one: such a search passes through in silence."""
        if self._has_warned or head.method != "POST" or not self._routes.is_fixed:
            return
        slashes = [match.start() for match in re.finditer("/", head.path[:PREFIX_CHARACTERS])]
        if any(self._adapter.classify(replace(head, path=head.path[at:])) is not None for at in slashes):
            self._has_warned = True
            LOGGER.warning(
                "searches arrive under another path than that of the settings, and pass through unchanged: set"
                " upstream.path_prefix to what clients send before the database's own paths"
            )


NAMED = "_i"
_NAMING = re.compile(rf"/+{NAMED}(?:/([^/?]*)(.*))?")


OriginOf = Callable[[str], Origin | None]
"""The origin of a host that a path names; None if the path may not name it."""


def route(target: Target, index: Origin | None, origin_of: OriginOf, rules: IndexRules) -> Target | Trouble:
    """The target with its origin, None for the control plane. ``index``: the origin of plain paths."""
    first = target.path.lstrip("/").partition("/")[0]
    if first == NAMED:
        return _named(target, origin_of, rules)
    if first in rules.segments:
        return Trouble.NO_INDEX if index is None else Target(target.raw, target.path, index)
    return Trouble.WRONG_PATH if rules.is_misplaced(target.path) else target


def _named(target: Target, origin_of: OriginOf, rules: IndexRules) -> Target | Trouble:
    match = _NAMING.fullmatch(target.raw)
    if match is None or not match[1]:
        return Trouble.WRONG_PATH
    origin = origin_of(match[1])
    if origin is None:
        return Trouble.HOST_REFUSED
    rest: str = match[2]
    raw = rest if rest.startswith("/") else f"/{rest}"
    path = raw.split("?", 1)[0]
    return Target(raw, path, origin, prefix_of(path, rules))


def prefix_of(path: str, rules: IndexRules) -> str:
    """The part of a path before the index's own, without a closing slash; "" if there is none or it is unknown.

    Derived from the path alone, so that every worker finds the same, also after a restart. Paths with dots are not split.
    """
    at, segments = 0, path.split("/")
    if any(segment.lower().replace("%2e", ".") in {".", ".."} for segment in segments):
        return ""
    for number, segment in enumerate(segments):
        # A host behind `_i` may have one of these names.
        if segment in rules.segments and segments[number - 1] != NAMED:
            return path[:at].rstrip("/")
        at += len(segment) + 1
    return ""


MOST_NAMED = 1024
# With the colon of a port: behind another VecSieve an index is at `/_i/<host>:<port>`.
_PATH = re.compile(r"[A-Za-z0-9._~%/:-]*")


class IndexHosts:
    """Which hosts a request may name: configured ones, and https hosts on the allow-list.

    One exception, for tests and emulators: a control plane on plain http has no certificates, so the hosts in its
    answers are accepted as written, with port, address and plain http. This process remembers the latest ``MOST_NAMED``
    of them.
    """

    def __init__(self, settings: PineconeSettings, control_plane: Origin) -> None:
        fixed = () if settings.index_host is None else (settings.index_host,)
        indexes = tuple(Origin.of(url) for url in (*settings.index_ports.values(), *fixed))
        self._patterns = tuple(parse_pattern(text) for text in settings.allowed_hosts)
        self._hosts = {host.authority: host for host in (control_plane, *indexes)}
        self._private = {host.host for host in self._hosts.values()}
        self._private |= {pattern.name for pattern in self._patterns if pattern.is_exact}
        self._believes = control_plane.scheme == "http"
        self._named: OrderedDict[str, Origin] = OrderedDict()

    def origin(self, text: str) -> Origin | None:
        """The origin of a host in a path; None if the path may not name it, or it is no host."""
        host = read_host(text)
        if host is None:
            return None
        known = self._hosts.get(host.authority) or self._named.get(host.authority)
        if known is not None:
            if host.authority in self._named:
                self._named.move_to_end(host.authority)
            return known
        port = HTTPS_PORT if host.port is None else host.port
        if host.is_numeric or not any(pattern.allows(host.name, port) for pattern in self._patterns):
            return None
        return Origin("https", host.name if port == HTTPS_PORT else host.authority)

    def path_of(self, written: str) -> str | None:
        """The text after `/_i/` for a host in the control plane's answer; None if it cannot be reached this way."""
        scheme, separator, rest = written.rpartition("://")
        authority, slash, path = rest.partition("/")
        host = read_host(authority)
        if host is None or scheme not in {"", "http", "https"} or _PATH.fullmatch(path) is None:
            return None
        scheme = scheme if separator else self._unwritten(host)
        origin = self.origin(host.authority)
        if self._believes and (origin is None or origin.scheme != scheme):
            origin = self._believe(host, scheme)
        return None if origin is None or origin.scheme != scheme else f"{host.authority}{slash}{path}"

    def may_be_private(self, name: str) -> bool:
        """Whether this name may have a private address, because a trusted source named it in full."""
        return name in self._private or any(origin.host == name for origin in self._named.values())

    def _unwritten(self, host: Host) -> str:
        """The scheme of a host without one: https, as for every client.

        A plain control plane that adds a port is Pinecone Local, which answers `localhost:5081` and means http.
        """
        return "http" if self._believes and host.port is not None else "https"

    def _believe(self, host: Host, scheme: str) -> Origin:
        origin = Origin(scheme, host.authority)
        self._named[host.authority] = origin
        if len(self._named) > MOST_NAMED:
            self._named.popitem(last=False)
        return origin


_PORT = re.compile(r":[0-9]+\Z")
# Characters that may be repeated inside a JSON string and a URL. Some Pinecone clients put user names into Host.
_AUTHORITY = re.compile(rb"(?:[^@]*@)?((?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)")


class IndexRoutes:
    is_fixed = False

    def __init__(self, settings: Settings, pinecone: PineconeSettings, rules: IndexRules) -> None:
        self._rules = rules
        self._hosts = IndexHosts(pinecone, Origin.of(settings.upstream.url))
        self._public_url = pinecone.public_url
        self._over_tls = settings.tls.certificate is not None
        self._has_scheme = pinecone.public_form == "port_url"
        named = {} if pinecone.public_form == "path" else pinecone.index_ports
        self._ports = {Origin.of(url): port for port, url in named.items()}
        self._limit_bytes = settings.limits.reply_body_bytes
        self.may_be_private = self._hosts.may_be_private

    def find(self, target: Target, index: Origin | None) -> tuple[Target, str | None] | Trouble:
        """The path is the index's own, with one leading slash: a host that ends in a slash doubles it; other doubled slashes are names."""
        at = route(target, index, self._hosts.origin, self._rules)
        return at if isinstance(at, Trouble) else (at, "/" + at.path[len(at.prefix) :].lstrip("/"))

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        """Index descriptions get hosts that lead to this proxy; otherwise clients would bypass it."""
        if target.origin is not None or not self._rules.describes(method, target.path):
            return None
        base = self._public_url or public_url_of(raw_headers, over_tls=self._over_tls)
        if base is None:
            return None

        def lead_here(host: str) -> str | None:
            path = self._hosts.path_of(host)
            if path is None:
                return None
            port = self._port_of(path)
            return f"{base}/{NAMED}/{path}" if port is None else at_port(base, port, with_scheme=self._has_scheme)

        return Editing(change=lambda body: self._rules.rename(body, lead_here), limit_bytes=self._limit_bytes)

    def _port_of(self, path: str) -> int | None:
        """The port for the host in `/_i/<path>`, if clients should use one; no port leads behind a path prefix."""
        origin = self._hosts.origin(path.removesuffix("/"))
        return None if origin is None else self._ports.get(origin)


def at_port(base: str, port: int, *, with_scheme: bool) -> str:
    """Another port of the host in ``base``, without a path; gRPC clients want it without the scheme."""
    scheme, _, rest = base.partition("://")
    authority = f"{_PORT.sub('', rest.partition('/')[0])}:{port}"
    return f"{scheme}://{authority}" if with_scheme else authority


def public_url_of(raw_headers: RawHeaders, *, over_tls: bool) -> str | None:
    """The URL by which the client reached us, from its Host; None when that is absent or invalid. ``over_tls``: our
    ports speak TLS only.

    `X-Forwarded-Proto` may make it https: at worst it spoils the answer to its own sender, and without it a client
    behind a TLS gateway would be told to send its key unencrypted. No other forwarded field is used.
    """
    hosts = values(raw_headers, b"host")
    match = _AUTHORITY.fullmatch(hosts[0].strip()) if len(hosts) == 1 else None
    if match is None:
        return None
    forwarded = b",".join(values(raw_headers, b"x-forwarded-proto")).partition(b",")[0]
    scheme = "https" if over_tls or forwarded.strip().lower() == b"https" else "http"
    return f"{scheme}://{match[1].decode('ascii')}"
