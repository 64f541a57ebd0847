"""Addresses a user may write: host:port to listen on, the URL of the database, the prefix before its paths."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_HOST = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?")  # a closing dot: no search list, as in a cluster
_PREFIX = re.compile(r"(/[A-Za-z0-9._~%!$&'()*+,;=:@-]+)*")
_PORT = re.compile(r"[1-9][0-9]{0,4}")
_EVERY_V4 = "0.0.0.0"  # noqa: S104 - compared with, never bound
_EVERY_V6 = "::"
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_DEFAULT_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Where to listen or to connect. ``host``: without the brackets of an IPv6 literal. Port 0: any free one."""

    host: str
    port: int

    def collides(self, other: Address) -> bool:
        """Whether both cannot be listened on at once. Judged by spelling: nothing is resolved. Port 0 collides never."""
        pair = (self.host.lower(), other.host.lower())
        return self._shares_port(other) and (_same(*pair) or _covers(*pair) or _covers(*pair[::-1]))

    def leads_to(self, listener: Address) -> bool:
        """Whether connecting here arrives at ``listener`` on this machine. Judged by spelling, as above."""
        here, there = self.host.lower(), listener.host.lower()
        return self._shares_port(listener) and (_same(here, there) or (here in _LOOPBACK and _covers(there, here)))

    def _shares_port(self, other: Address) -> bool:
        return self.port == other.port != 0


def parse_address(text: str) -> Address:
    """Read ``host:port`` or ``[v6]:port``. Raises ValueError."""
    host, colon, port = text.rpartition(":")
    if not colon or not re.fullmatch(r"[0-9]{1,5}", port) or int(port) > 65_535:
        raise ValueError("no port")
    if host.startswith("[") and host.endswith("]"):
        return Address(str(ipaddress.IPv6Address(host[1:-1])), int(port))
    if _HOST.fullmatch(host) is None:
        raise ValueError("no host")
    return Address(host, int(port))


def parse_upstream(url: str) -> Address:
    """Where a database URL leads. Raises ValueError for everything but ``http(s)://host[:port]``."""
    # urlsplit quietly removes tabs and line ends, and reads an empty query as none: both are looked for first.
    if any(character in url for character in "?#@\\") or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("more than scheme, host and port")
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or parts.path not in {"", "/"} or parts.port == 0:
        raise ValueError("not http or https, or a path")
    authority = parts.netloc if parts.port is not None else f"{parts.netloc}:{_DEFAULT_PORTS[parts.scheme]}"
    return parse_address(authority)


def upstream_url(url: str) -> str:
    """The URL as it is used: without a closing slash. Raises ValueError when it is none."""
    parse_upstream(url)
    return url.removesuffix("/")


def listen_address(text: str) -> str:
    """The text itself when it is host:port. Raises ValueError."""
    parse_address(text)
    return text


def port_number(written: object) -> object:
    """A port that stands as a key, which is text in YAML; everything else as it is."""
    return int(written) if isinstance(written, str) and _PORT.fullmatch(written) is not None else written


def path_prefix(text: str) -> str:
    """The text itself when it is empty or path segments without a closing slash. Raises ValueError."""
    if _PREFIX.fullmatch(text) is None:
        raise ValueError("not a path prefix")
    return text


def _same(one: str, other: str) -> bool:
    pair = {one, other}
    return len(pair) == 1 or ("localhost" in pair and pair <= _LOOPBACK)


def _covers(wildcard: str, host: str) -> bool:
    """Whether listening on ``wildcard`` takes the port of ``host`` too. asyncio binds :: to IPv6 alone."""
    if wildcard == _EVERY_V4:
        return ":" not in host
    return wildcard == _EVERY_V6 and (":" in host or host == "localhost")
