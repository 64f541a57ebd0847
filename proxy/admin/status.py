"""The status page's content: what an operator may see of a running process, and nothing a client has sent.

No credential, collection, path or header: the upstream is host and port only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from urllib.parse import urlsplit

from vecsieve.config.schema import Settings
from vecsieve.proxy.labels import BreakerState


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerStatus:
    """One worker process. ``restarts``: how often its place was filled anew."""

    index: int
    state: str
    pid: int
    restarts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """One reading. ``mode``: the mode that overrides every policy's, None when policies decide."""

    version: str
    state: str
    uptime_seconds: float
    backend: str
    mode: str | None
    upstream: str
    settings_hash: str
    requests_in_flight: int
    searches_in_flight: int
    breaker: BreakerState
    learned_collections: int
    index_ports: tuple[int, ...] = ()
    workers: tuple[WorkerStatus, ...] = ()

    def as_json(self) -> bytes:
        """The reading as one JSON object."""
        return json.dumps(asdict(self), separators=(",", ":")).encode("ascii") + b"\n"


def upstream_address(url: str) -> str:
    """Host and port of a URL: no user, no password, no path, no query. "invalid" when it cannot be read."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "invalid"
    if not host:
        return "invalid"
    name = f"[{host}]" if ":" in host else host
    return name if port is None else f"{name}:{port}"


def settings_hash(settings: Settings) -> str:
    """Twelve hexadecimal digits that change with any setting, so that replicas can be compared.

    Of the upstream URL only host and port enter: a hash of a password could be used to try passwords.
    """
    plain = settings.model_dump(mode="json", by_alias=True)
    plain["upstream"]["url"] = upstream_address(settings.upstream.url)
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:12]
