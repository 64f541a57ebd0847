"""Addresses in settings: host:port to listen on, URLs, path prefixes, host names and patterns of them."""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

_HOST = re.compile(
    r"[A-Za-z0-9_]([A-Za-z0-9._-]*[A-Za-z0-9_])?\.?"
)  # with a trailing dot, resolvers use no search list
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
        """Whether both cannot be bound at once. Compares spellings: nothing is resolved. Port 0 never collides."""
        pair = (self.host.lower(), other.host.lower())
        return self._shares_port(other) and (_same(*pair) or _covers(*pair) or _covers(*pair[::-1]))

    def leads_to(self, listener: Address) -> bool:
        """Whether a connection to this address reaches ``listener`` on this machine. Compares spellings, as above."""
        here, there = self.host.lower(), listener.host.lower()
        return self._shares_port(listener) and (_same(here, there) or (here in _LOOPBACK and _covers(there, here)))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect. Compares spellings: nothing is resolved."""
        return self.host.lower() in _LOOPBACK or re.fullmatch(r"127(\.[0-9]{1,3}){3}", self.host) is not None

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
    """The address in a database's URL. Raises ValueError for everything but ``http(s)://host[:port]``."""
    # urlsplit silently removes tabs and line ends and ignores an empty query, so both are checked first.
    if any(character in url for character in "?#@\\") or not url.isascii() or not url.isprintable() or " " in url:
        raise ValueError("more than scheme, host and port")
    parts = urlsplit(url)
    if parts.scheme not in _DEFAULT_PORTS or parts.path not in {"", "/"} or parts.port == 0:
        raise ValueError("not http or https, or a path")
    authority = parts.netloc if parts.port is not None else f"{parts.netloc}:{_DEFAULT_PORTS[parts.scheme]}"
    return parse_address(authority)


def upstream_url(url: str) -> str:
    """The same URL, without a slash behind a path. Raises ValueError for everything but ``http(s)://host[:port][/path]``."""
    hook_url(url)
    return url if urlsplit(url).path == "/" else url.removesuffix("/")


def port_number(written: object) -> object:
    """A port given as a YAML key, which is text, as a number; other values unchanged."""
    return int(written) if isinstance(written, str) and _PORT.fullmatch(written) is not None else written


def path_prefix(text: str) -> str:
    """The same text. Raises ValueError unless it is empty, or path segments without a trailing slash."""
    if _PREFIX.fullmatch(text) is None:
        raise ValueError("not a path prefix")
    return text


def _same(one: str, other: str) -> bool:
    pair = {one, other}
    return len(pair) == 1 or ("localhost" in pair and pair <= _LOOPBACK)


def _covers(wildcard: str, host: str) -> bool:
    """Whether binding ``wildcard`` occupies the port of ``host``. asyncio binds :: to IPv6 alone."""
    if wildcard == _EVERY_V4:
        return ":" not in host
    return wildcard == _EVERY_V6 and (":" in host or host == "localhost")


# Patterns of hosts that requests may be sent to. A pattern is compared label by label: `*.svc.*.pinecone.io` allows names of
# five labels, and no other name with that suffix. A request's key goes to the host, so only plain host names are accepted.

HTTPS_PORT = 443
LONGEST_NAME = 253  # characters, RFC 1035 2.3.4, without the trailing dot

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_PATTERN_LABEL = r"[A-Za-z0-9_*](?:[A-Za-z0-9_*-]{0,61}[A-Za-z0-9_*])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_PATTERN = re.compile(rf"{_PATTERN_LABEL}(?:\.{_PATTERN_LABEL})+")
# `127.0.0.1`, `127.1`, `0x7f000001`, `2130706433`: names that end in a number may be read as addresses (WHATWG URL).
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Host:
    """A host name in lower case, and its port; None without one."""

    name: str
    port: int | None

    @property
    def authority(self) -> str:
        return self.name if self.port is None else f"{self.name}:{self.port}"

    @property
    def is_numeric(self) -> bool:
        return _NUMBER.fullmatch(self.name.rpartition(".")[2]) is not None


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host name in which `*` matches within one label, and the allowed port."""

    labels: tuple[str, ...]
    port: int

    @property
    def is_exact(self) -> bool:
        return not any("*" in label for label in self.labels)

    @property
    def name(self) -> str:
        return ".".join(self.labels)

    def allows(self, name: str, port: int) -> bool:
        """``name``: in lower case."""
        labels = name.split(".")
        return (
            port == self.port
            and len(labels) == len(self.labels)
            and all(fnmatchcase(label, mine) for label, mine in zip(labels, self.labels, strict=True))
        )


def read_host(text: str) -> Host | None:
    """Read ``name`` or ``name:port``; None for everything else, such as brackets, user names and empty labels."""
    name, colon, port = text.partition(":")
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        return None
    if not colon:
        return Host(name.lower(), None)
    number = _port(port)
    return None if number is None else Host(name.lower(), number)


def parse_pattern(text: str) -> HostPattern:
    """Read ``*.example.com`` or ``*.example.com:8443``; the default port is 443. Raises ValueError."""
    name, colon, port = text.partition(":")
    number = _port(port) if colon else HTTPS_PORT
    if number is None or len(name) > LONGEST_NAME or _PATTERN.fullmatch(name) is None:
        raise ValueError("not a pattern of host names")
    labels = tuple(name.lower().split("."))
    if _NUMBER.fullmatch(labels[-1]) or "*" in labels[-1]:
        raise ValueError("an address, or a pattern of all hosts")
    return HostPattern(labels, number)


def server_url(text: str, *, scheme: str) -> str:
    """The URL of a server. ``scheme``: of a host alone. Raises ValueError."""
    url = text if "://" in text else f"{scheme}://{text}"
    parse_upstream(url)
    return url.removesuffix("/")


def public_url(text: str) -> str:
    """The URL under which clients reach VecSieve, with an optional port and path. Raises ValueError."""
    scheme, separator, rest = text.partition("://")
    authority, slash, path = rest.partition("/")
    if not separator or re.fullmatch(r"[A-Za-z0-9._~/-]*", path) is None:
        raise ValueError("not a URL to which a path can be added")
    parse_upstream(f"{scheme}://{authority}")
    return f"{scheme}://{authority}{slash}{path}".rstrip("/")


def hook_url(url: str) -> str:
    """The same URL. Raises ValueError for everything but ``http(s)://host[:port][/path]``."""
    parse_upstream(origin_of(url))
    path_prefix(urlsplit(url).path.removesuffix("/"))
    return url


def collector_url(url: str) -> str:
    """The URL without a trailing slash. Raises ValueError as `hook_url`."""
    return hook_url(url).removesuffix("/")


def origin_of(url: str) -> str:
    """A URL without its path."""
    return url.removesuffix(path) if (path := urlsplit(url).path) else url


def _port(text: str) -> int | None:
    if _PORT.fullmatch(text) is None or int(text) > 65_535:
        return None
    return int(text)
