"""Pinecone behind few ports: indexes by path or by port, the control plane beside them, and its answers leading back to us."""

from __future__ import annotations

import re

from vecsieve.adapters.pinecone_hosts import renamed
from vecsieve.config.schema import Settings
from vecsieve.proxy.http.editing import Editing
from vecsieve.proxy.http.headers import RawHeaders, values
from vecsieve.proxy.http.index_hosts import IndexHosts
from vecsieve.proxy.http.index_route import NAMED, route
from vecsieve.proxy.http.target import Target
from vecsieve.proxy.origin import Origin
from vecsieve.proxy.trouble import Trouble

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
