"""The request target: which forms we take, and how a path is read for matching.

The raw target is what goes upstream, byte for byte. Only the matching works on a normalised path, as actix-web's
`NormalizePath::trim` routes in Qdrant: runs of slashes merged, the trailing slash dropped, percent-encoding left alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from vecsieve.proxy.origin import Origin

SLASHES = re.compile(r"/{2,}")
# Space and control characters would end the request line or a log line; anything beyond ASCII is no URI (RFC 3986 2).
FORWARDABLE = re.compile(r"/[\x21-\x7e]*")


@dataclass(frozen=True, slots=True)
class Target:
    """An origin-form request target. ``raw`` is forwarded; ``path`` is everything before the first `?`.

    ``origin``: where it goes; None is the configured upstream. ``prefix``: how ``path`` begins where what is found there is behind
    a path: another gateway's, or another VecSieve's.
    """

    raw: str
    path: str
    origin: Origin | None = None
    prefix: str = ""

    def beside(self, raw: str) -> str:
        """Another target of the same place."""
        return self.prefix + raw


def read_target(raw: str) -> Target | None:
    """Read an origin-form target; None for absolute-form, authority-form, asterisk-form and bytes that are no URI.

    `//evil.example/a` is a path: the upstream comes from the settings alone, never from a request.
    """
    if FORWARDABLE.fullmatch(raw) is None:
        return None
    return Target(raw=raw, path=raw.split("?", 1)[0])


def matching_path(path: str, prefix: str = "") -> str | None:
    """The path that decides what a request is: normalised, the deployment prefix removed.

    ``prefix``: as in the settings, such as `/qdrant`, or empty. None when the path lies outside it.
    """
    merged = SLASHES.sub("/", path)
    trimmed = merged.rstrip("/") or "/"
    if not prefix:
        return trimmed
    if trimmed == prefix:
        return "/"
    return trimmed[len(prefix) :] if trimmed.startswith(prefix + "/") else None
