"""Which hosts a request may name, and how they are connected to: https, on the allow-list, or configured themselves.

One exception, for tests and emulators: a control plane that the settings give as plain http has no certificates to hand
out, so the hosts that it named itself in its answers are believed as it wrote them, ports, addresses and plain http
included. They are remembered by this process alone, the latest ``MOST_NAMED`` of them.
"""

from __future__ import annotations

import re
from collections import OrderedDict

from vecsieve.config.hosts import HTTPS_PORT, Host, parse_pattern, read_host
from vecsieve.config.schema import PineconeSettings
from vecsieve.proxy.origin import Origin

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
