"""Where requests go: one upstream, or one of many behind the same ports."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable
from typing import Protocol

from vecsieve.adapters.pinecone.calls import is_of_the_control_plane
from vecsieve.adapters.pinecone.hosts import renamed
from vecsieve.config.addresses import HTTPS_PORT, Host, parse_pattern, read_host
from vecsieve.config.schema import PineconeSettings, Settings
from vecsieve.proxy.addresses import Origin
from vecsieve.proxy.http.answers import Editing
from vecsieve.proxy.http.headers import RawHeaders, Target, matching_path, values
from vecsieve.proxy.search.errors import Trouble


class Routes(Protocol):
    """What the data plane asks about a target. Nothing here waits."""

    @property
    def may_be_private(self) -> Callable[[str], bool] | None:
        """Whether a host name may lead to a private address; None when requests never name hosts."""
        ...

    def find(self, target: Target, index: Origin | None) -> Target | Trouble:
        """The target as it goes upstream, with its origin; or why it goes nowhere. ``index``: of the port it came to."""
        ...

    def matching(self, target: Target) -> str | None:
        """The path that decides what a found target is; None when it is none of ours."""
        ...

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        """How the answer to a found target is changed; None when it is not."""
        ...


class OneUpstream:
    """Everything goes to the configured database. ``path_prefix``: what stands before its own paths."""

    may_be_private = None

    def __init__(self, path_prefix: str) -> None:
        self._path_prefix = path_prefix

    def find(self, target: Target, index: Origin | None) -> Target | Trouble:
        """The target itself."""
        return target

    def matching(self, target: Target) -> str | None:
        """The path as the database's router reads it, without the prefix."""
        return matching_path(target.path, self._path_prefix)

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        """Nothing is changed."""
        return None


# Few listeners, many hosts: which Pinecone host a path leads to. Pure: a target in, a target with its origin or a refusal out.
#
#     /_i/<host>/query      that host, when it may be named
#     /_i/<host>/a/b/query  that host too, and what is found there is behind /a/b: another gateway's path, or /_i/<host> of another VecSieve
#     /query, /vectors/…    the index behind the port, or the one that the settings fix
#     everything else       the control plane, which no path of an index overlaps
#
# What goes on is the client's own bytes: doubled slashes, `%2F` and `b+c` mean something to whoever wrote them.

NAMED = "_i"
OF_AN_INDEX = frozenset({"query", "vectors", "describe_index_stats", "records", "namespaces", "bulk"})
_NAMING = re.compile(rf"/+{NAMED}(?:/([^/?]*)(.*))?")
# How the paths of an index end, seen behind a first segment that nobody knows: a prefix that leads nowhere.
_LOST = re.compile(r"/(?:query|describe_index_stats|vectors/[a-z_]+|records/namespaces/[^/]*/[a-z]+)/?\Z")


OriginOf = Callable[[str], Origin | None]
"""The origin of a host that a path names; None when it may not be named."""


def route(target: Target, index: Origin | None, origin_of: OriginOf) -> Target | Trouble:
    """The target where it belongs; its origin stays None for the control plane. ``index``: what plain paths lead to."""
    first = target.path.lstrip("/").partition("/")[0]
    if first == NAMED:
        return _named(target, origin_of)
    if first in OF_AN_INDEX:
        return Trouble.NO_INDEX if index is None else Target(target.raw, target.path, index)
    if not is_of_the_control_plane(target.path) and _LOST.search(target.path) is not None:
        return Trouble.WRONG_PATH
    return target


def _named(target: Target, origin_of: OriginOf) -> Target | Trouble:
    match = _NAMING.fullmatch(target.raw)
    if match is None or not match[1]:
        return Trouble.WRONG_PATH
    origin = origin_of(match[1])
    if origin is None:
        return Trouble.HOST_REFUSED
    rest: str = match[2]
    raw = rest if rest.startswith("/") else f"/{rest}"
    path = raw.split("?", 1)[0]
    return Target(raw, path, origin, prefix_of(path))


def prefix_of(path: str) -> str:
    """What stands before an index's own part of a path, without a closing slash; "" where nothing does, or no such part is known.

    Told by the path alone, so that every worker tells it alike, and after a restart. A path with dots may become another one.
    """
    at, segments = 0, path.split("/")
    if any(segment.lower().replace("%2e", ".") in {".", ".."} for segment in segments):
        return ""
    for number, segment in enumerate(segments):
        # A host behind `_i` may be called like one of these.
        if segment in OF_AN_INDEX and segments[number - 1] != NAMED:
            return path[:at].rstrip("/")
        at += len(segment) + 1
    return ""


# Which hosts a request may name, and how they are connected to: https, on the allow-list, or configured themselves.
#
# One exception, for tests and emulators: a control plane that the settings give as plain http has no certificates to hand
# out, so the hosts that it named itself in its answers are believed as it wrote them, ports, addresses and plain http
# included. They are remembered by this process alone, the latest ``MOST_NAMED`` of them.

MOST_NAMED = 1024
# With the colon of a port: behind another VecSieve an index is at `/_i/<host>:<port>`.
_PATH = re.compile(r"[A-Za-z0-9._~%/:-]*")


class IndexHosts:
    """The allow-list of one process. ``control_plane``: where the settings say it is."""

    def __init__(self, settings: PineconeSettings, control_plane: Origin) -> None:
        fixed = () if settings.index_host is None else (settings.index_host,)
        indexes = tuple(Origin.of(url) for url in (*settings.index_ports.values(), *fixed))
        self._patterns = tuple(parse_pattern(text) for text in settings.allowed_hosts)
        self._own = {each.authority: each for each in (control_plane, *indexes)}
        self._private = {each.host for each in self._own.values()}
        self._private |= {pattern.name for pattern in self._patterns if pattern.is_exact}
        self._believes = control_plane.scheme == "http"
        self._named: OrderedDict[str, Origin] = OrderedDict()

    def origin(self, text: str) -> Origin | None:
        """Where the host of a path is reached; None when it may not be named or is no host."""
        host = read_host(text)
        if host is None:
            return None
        known = self._own.get(host.authority) or self._named.get(host.authority)
        if known is not None:
            if host.authority in self._named:
                self._named.move_to_end(host.authority)
            return known
        port = HTTPS_PORT if host.port is None else host.port
        if host.is_numeric or not any(pattern.allows(host.name, port) for pattern in self._patterns):
            return None
        return Origin("https", host.name if port == HTTPS_PORT else host.authority)

    def path_of(self, written: str) -> str | None:
        """What stands behind `/_i/` for a host as the control plane wrote it; None when it could not be reached so."""
        scheme, found, rest = written.rpartition("://")
        authority, slash, path = rest.partition("/")
        host = read_host(authority)
        if host is None or scheme not in {"", "http", "https"} or _PATH.fullmatch(path) is None:
            return None
        scheme = scheme if found else self._unwritten(host)
        origin = self.origin(host.authority)
        if self._believes and (origin is None or origin.scheme != scheme):
            origin = self._believe(host, scheme)
        return None if origin is None or origin.scheme != scheme else f"{host.authority}{slash}{path}"

    def may_be_private(self, name: str) -> bool:
        """Whether this host name may lead to an address that is not public: somebody trusted wrote it in full."""
        return name in self._private or any(origin.host == name for origin in self._named.values())

    def _unwritten(self, host: Host) -> str:
        """The scheme of a host written without one: https, as for every client.

        A plain control plane that adds a port is Pinecone Local, which answers `localhost:5081` and means http.
        """
        return "http" if self._believes and host.port is not None else "https"

    def _believe(self, host: Host, scheme: str) -> Origin:
        origin = Origin(scheme, host.authority)
        self._named[host.authority] = origin
        if len(self._named) > MOST_NAMED:
            self._named.popitem(last=False)
        return origin


# Pinecone behind few ports: indexes by path or by port, the control plane beside them, and its answers leading back to us.

# list, create; describe, configure, create-for-model. A deletion answers with nothing.
_DESCRIBING = re.compile(r"/+indexes(/[^/]+)?/?")
_METHODS = frozenset({"GET", "POST", "PATCH", "PUT"})
_PORT = re.compile(r":[0-9]+\Z")
# What may be repeated inside a JSON string and a URL. Clients of Pinecone have been seen to put user names into Host.
_AUTHORITY = re.compile(rb"(?:[^@]*@)?((?:[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?)")


class IndexRoutes:
    """The routes of one process."""

    def __init__(self, settings: Settings) -> None:
        own = settings.pinecone
        self._hosts = IndexHosts(own, Origin.of(settings.upstream.url))
        self._public_url = own.public_url
        self._over_tls = settings.tls.certificate is not None
        self._has_scheme = own.public_form == "port_url"
        told = {} if own.public_form == "path" else own.index_ports
        self._ports = {Origin.of(url): port for port, url in told.items()}
        self._limit_bytes = settings.limits.reply_body_bytes
        self.may_be_private = self._hosts.may_be_private

    def find(self, target: Target, index: Origin | None) -> Target | Trouble:
        """The target at its index or at the control plane."""
        return route(target, index, self._hosts.origin)

    def matching(self, target: Target) -> str | None:
        """The path of the index itself, its leading slashes as one: a host that ends in a slash doubles them, other doubles are names."""
        return "/" + target.path[len(target.prefix) :].lstrip("/")

    def editing(self, method: str, raw_headers: RawHeaders, target: Target) -> Editing | None:
        """Index descriptions from the control plane get hosts that lead here; a client would go past us otherwise."""
        if target.origin is not None or method not in _METHODS or _DESCRIBING.fullmatch(target.path) is None:
            return None
        base = self._public_url or own_url(raw_headers, over_tls=self._over_tls)
        if base is None:
            return None

        def lead_here(host: str) -> str | None:
            path = self._hosts.path_of(host)
            if path is None:
                return None
            port = self._port_of(path)
            return f"{base}/{NAMED}/{path}" if port is None else at_port(base, port, with_scheme=self._has_scheme)

        return Editing(change=lambda body: renamed(body, lead_here), limit_bytes=self._limit_bytes)

    def _port_of(self, path: str) -> int | None:
        """The port that leads to the host in `/_i/<path>`, when clients are to be told of it; none leads behind a path."""
        origin = self._hosts.origin(path.removesuffix("/"))
        return None if origin is None else self._ports.get(origin)


def at_port(base: str, port: int, *, with_scheme: bool) -> str:
    """Another port of the host in a URL of ours; without the scheme as gRPC's clients want it. A path of ours is lost."""
    scheme, _, rest = base.partition("://")
    authority = f"{_PORT.sub('', rest.partition('/')[0])}:{port}"
    return f"{scheme}://{authority}" if with_scheme else authority


def own_url(raw_headers: RawHeaders, *, over_tls: bool) -> str | None:
    """The URL that the client used for us, by its Host; None when that is absent or odd. ``over_tls``: our ports speak
    nothing else.

    `X-Forwarded-Proto` may make it https and nothing else is believed: at worst it spoils the answer to whoever sent it,
    and without it a client behind a TLS gateway would be told to send its key in the clear.
    """
    hosts = values(raw_headers, b"host")
    match = _AUTHORITY.fullmatch(hosts[0].strip()) if len(hosts) == 1 else None
    if match is None:
        return None
    forwarded = b",".join(values(raw_headers, b"x-forwarded-proto")).partition(b",")[0]
    scheme = "https" if over_tls or forwarded.strip().lower() == b"https" else "http"
    return f"{scheme}://{match[1].decode('ascii')}"
