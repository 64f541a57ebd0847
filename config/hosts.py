"""Names of hosts that requests may be sent to: how a host is read, and patterns that allow some.

A pattern is compared label by label: `*.svc.*.pinecone.io` has five, so it allows five, and no host that merely ends
alike. Whoever names a host decides where a key goes, so everything that is not plainly a name is refused.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase

from vecsieve.config.addresses import parse_upstream

HTTPS_PORT = 443
LONGEST_NAME = 253  # characters, RFC 1035 2.3.4 without the closing dot

_LABEL = r"[A-Za-z0-9_](?:[A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?"
_PATTERN_LABEL = r"[A-Za-z0-9_*](?:[A-Za-z0-9_*-]{0,61}[A-Za-z0-9_*])?"
_NAME = re.compile(rf"{_LABEL}(?:\.{_LABEL})*")
_PATTERN = re.compile(rf"{_PATTERN_LABEL}(?:\.{_PATTERN_LABEL})+")
# `127.0.0.1`, `127.1`, `0x7f000001`, `2130706433`: what a resolver may take for an address ends in a number (WHATWG URL).
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*", re.IGNORECASE)
_PORT = re.compile(r"[1-9][0-9]{0,4}")


@dataclass(frozen=True, slots=True)
class Host:
    """A host name in lower case, and the port written behind it; None where none was."""

    name: str
    port: int | None

    @property
    def authority(self) -> str:
        """The text it was read from, in lower case."""
        return self.name if self.port is None else f"{self.name}:{self.port}"

    @property
    def is_numeric(self) -> bool:
        """Whether the name is, or may be taken for, an IPv4 address."""
        return _NUMBER.fullmatch(self.name.rpartition(".")[2]) is not None


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A host name in which `*` stands for any part of one label, and the port it allows."""

    labels: tuple[str, ...]
    port: int

    @property
    def is_exact(self) -> bool:
        """Whether it names one host."""
        return not any("*" in label for label in self.labels)

    @property
    def name(self) -> str:
        """The pattern without its port; the host itself when it is exact."""
        return ".".join(self.labels)

    def allows(self, name: str, port: int) -> bool:
        """Whether it covers this host. ``name``: in lower case."""
        labels = name.split(".")
        return (
            port == self.port
            and len(labels) == len(self.labels)
            and all(fnmatchcase(label, mine) for label, mine in zip(labels, self.labels, strict=True))
        )


def read_host(text: str) -> Host | None:
    """Read ``name`` or ``name:port``; None for everything else: brackets, user names, empty labels, odd characters."""
    name, colon, port = text.partition(":")
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        return None
    if not colon:
        return Host(name.lower(), None)
    number = _port(port)
    return None if number is None else Host(name.lower(), number)


def parse_pattern(text: str) -> HostPattern:
    """Read ``*.example.com`` or ``*.example.com:8443``; without a port it allows https' own. Raises ValueError."""
    name, colon, port = text.partition(":")
    number = _port(port) if colon else HTTPS_PORT
    if number is None or len(name) > LONGEST_NAME or _PATTERN.fullmatch(name) is None:
        raise ValueError("not a pattern of host names")
    labels = tuple(name.lower().split("."))
    if _NUMBER.fullmatch(labels[-1]) or "*" in labels[-1]:
        raise ValueError("an address, or every host there is")
    return HostPattern(labels, number)


def host_pattern(text: str) -> str:
    """The text itself when it is a pattern. Raises ValueError."""
    parse_pattern(text)
    return text


def index_url(text: str) -> str:
    """The URL of one index. A bare host means https, as it does for every Pinecone client. Raises ValueError."""
    url = text if "://" in text else f"https://{text}"
    parse_upstream(url)
    return url.removesuffix("/")


def public_url(text: str) -> str:
    """The URL under which clients reach us: scheme, host, and perhaps a port and a path. Raises ValueError."""
    scheme, found, rest = text.partition("://")
    authority, slash, path = rest.partition("/")
    if not found or re.fullmatch(r"[A-Za-z0-9._~/-]*", path) is None:
        raise ValueError("not a URL that a path can be added to")
    parse_upstream(f"{scheme}://{authority}")
    return f"{scheme}://{authority}{slash}{path}".rstrip("/")


def _port(text: str) -> int | None:
    if _PORT.fullmatch(text) is None or int(text) > 65_535:
        return None
    return int(text)
