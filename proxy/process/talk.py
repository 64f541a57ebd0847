"""The output of `serve` for people: a banner at the start, log lines as text in a terminal, a summary at the end.

The summary is read from the metrics, in the same way for one process and for several workers.
"""

from __future__ import annotations

import asyncio
import json
import logging
import socket
import ssl
import sys
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

from prometheus_client import CollectorRegistry

from vecsieve.config.applications import LogSettings
from vecsieve.config.schema import Settings, UpstreamSettings

from ..http.tls import upstream_context
from ..runtime.addresses import DataPort, Origin
from ..search.errors import FailureKind, cause_of, words_of_tls
from ..telemetry.exposition import Samples
from ..telemetry.labels import Bypass, Evidence, Outcome, WriteOutcome
from ..telemetry.log import LineSink

LOGGER = logging.getLogger("vecsieve.instance")
_MEBIBYTE = 1024 * 1024
_MOST_RULES = 4
_NEXT = {
    "on": "Connect a client to the first address. The header x-vecsieve of an answer shows what was done.",
    "shadow": "Answers are the database's own. The page says whether `--mode on` pays, and so does Ctrl-C.",
    "shadow with a canary": "Answers of the canary have no repeats, others are the database's own. /status says whether it still is on.",
    "off": "Nothing is measured or changed. Continue with --mode shadow.",
}


def is_text(log: LogSettings) -> bool:
    """Whether the log is for people."""
    return log.format == "text" or (log.format == "auto" and sys.stdout.isatty())


def level_of(log: LogSettings) -> int:
    return logging.getLevelNamesMapping()[log.level.upper()]


def mode_of(settings: Settings) -> str:
    mode = settings.mode or settings.policy.mode
    return "shadow with a canary" if mode == "shadow" and settings.canary.is_any else mode


def policy_of(settings: Settings) -> str:
    """The rules in the order in which they are tried, then the policy for all others."""
    rules = [f"{rule.collection}: {rule.preset or 'own policy'}" for rule in settings.rules[:_MOST_RULES]]
    more = len(settings.rules) - _MOST_RULES
    if more > 0:
        rules.append(f"{more} more rules")
    return ", ".join([*rules, "others: the default" if rules else "the default for every collection"])


def announce_ports(data_ports: tuple[DataPort, ...], ports: tuple[int, ...], settings: Settings) -> None:
    """Print the main port, each index host with its port, the gRPC port and the API port."""
    for_people, over_tls = is_text(settings.log), settings.tls.certificate is not None
    for number, (data_port, port) in enumerate(zip(data_ports, ports, strict=True)):
        announce(_label(data_port, is_main=number == 0), data_port.host, port, over_tls=over_tls, is_text=for_people)


def _label(data_port: DataPort, *, is_main: bool) -> str:
    if data_port.is_for_grpc:
        return "gRPC"
    if data_port.is_for_api:
        return "API"
    return "listening" if is_main or data_port.index is None else f"index {data_port.index.authority}"


def announce(what: str, host: str, port: int, *, over_tls: bool = False, is_text: bool) -> None:
    """Print `vecsieve serve listening on http://host:port` with the bound port, or log it.

    Output errors, such as a full disk or a closed pipe, are ignored.
    """
    scheme = "https" if over_tls else "http"
    name = f"[{host}]" if ":" in host else host
    line = f"vecsieve serve {what} on {scheme}://{name}:{port}"
    if not is_text:
        LOGGER.info(line)
        return
    with suppress(OSError):
        sys.stdout.write(f"{line}\n")
        sys.stdout.flush()


def banner(
    settings: Settings, *, version: str, admin: str, resident_bytes: int, limit_bytes: int | None
) -> Iterable[str]:
    """The lines after the addresses. ``admin``: the URL of the admin listener."""
    mode = mode_of(settings)
    limit = "no limit" if limit_bytes is None else f"limit {limit_bytes // _MEBIBYTE} MiB"
    yield f"VecSieve {version}, mode {mode}, backend {settings.backend}"
    yield f"  database  {settings.upstream.url}"
    yield f"  policy    {policy_of(settings)}"
    yield f"  memory    {resident_bytes // _MEBIBYTE} MiB, {limit}"
    yield f"  look at   {admin}/ for searches before and after, {admin}/metrics for figures"
    yield f"  next      {_NEXT[mode]}"


PROBE_SECONDS = 2.0


async def fault_of(upstream: UpstreamSettings, *, seconds: float = PROBE_SECONDS) -> str | None:
    """Why the database accepts no connection; None if it does. Sends nothing."""
    origin = Origin.of(upstream.url)
    parsed, tls = origin.url("/"), upstream_context(upstream) if origin.scheme == "https" else None
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(parsed.host, parsed.port, ssl=tls)
            writer.close()
            await writer.wait_closed()
    except ssl.SSLError as error:
        return cause_of(FailureKind.TLS, origin.authority, words=words_of_tls(error))
    except TimeoutError:
        return cause_of(FailureKind.TIMEOUT, origin.authority)
    except socket.gaierror:
        return cause_of(FailureKind.DNS, origin.authority)
    except OSError as error:
        return cause_of(FailureKind.CONNECT, origin.authority, number=error.errno)
    return None


def advised(fault: str) -> str:
    """The fault with what to look at, unless it asks a question already."""
    return fault if fault.endswith("?") else f"{fault}. Is upstream.url right, and does the database run?"


class TextLines:
    """A sink that writes the log's JSON lines as text."""

    __slots__ = ("_sink",)

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink

    def put(self, line: bytes) -> None:
        self._sink.put(as_text(line))

    def close(self) -> None:
        self._sink.close()


_LEADING_FIELDS = ("ts", "level", "msg", "logger", "request_id", "backend", "peer_is_loopback", "connection_is_reused")
_OF_ACCESS = ("method", "operation", "status", "outcome", "duration_ms", "cause", "origin")


def as_text(line: bytes) -> bytes:
    """`20:31:07 warning POST query 502 passthrough 3.1 ms: …`; values stay as JSON escapes them. Further lines of a message are indented."""
    fields = json.loads(line)
    time, level = (_plain(fields.get(name, "")) for name in ("ts", "level"))
    message = "\n  ".join(_plain(part).replace('\\"', '"') for part in str(fields.get("msg", "")).split("\n"))
    if message == "access":
        method, operation, status, outcome, took = (_plain(fields.get(name)) for name in _OF_ACCESS[:5])
        message = f"{method} {operation} {status} {outcome} {took} ms"
        message += f": {_plain(fields['cause'])}" if "cause" in fields else ""
        fields = {name: value for name, value in fields.items() if name not in _OF_ACCESS and "bytes" not in name}
    rest = " ".join(f"{_plain(name)}={_plain(value)}" for name, value in fields.items() if name not in _LEADING_FIELDS)
    words = (time[11:19], "" if level == "info" else level, message, rest)
    return (" ".join(word for word in words if word) + "\n").encode("ascii", "backslashreplace")


def _plain(value: object) -> str:
    """A string without its quotes, other values as JSON has them."""
    text = json.dumps(value)
    return text[1:-1] if isinstance(value, str) else text


def summary(registry: CollectorRegistry, verdict: str = "") -> str:
    """The whole life in a few sentences: searches, changes, and the verdict of mode shadow."""
    samples = Samples(registry)
    outcomes, reasons = samples.by("searches_total", "outcome"), Counter[str]()
    for name in ("bypass_total", "fail_open_total"):
        reasons.update(samples.by(name, "reason"))
    searches = int(sum(outcomes.values()))
    if not searches and (writes := int(samples.by("writes_total", "outcome").get(WriteOutcome.JUDGED, 0))):
        copies = int(samples.total("write_copies_total"))
        return f"No search arrived. The write gate compared {writes:,} writes, with {copies:,} copies."
    if not searches and (requests := int(samples.total("requests_total", but=Outcome.SHADOW))):
        return (
            f"No search arrived, but {requests:,} other request{'' if requests == 1 else 's'}. Is the backend right (--backend), and the prefix of "
            "the paths that clients send (upstream.path_prefix)?"
        )
    if not searches:
        return "No search arrived. Does the client use the address of VecSieve?"
    parts = ["1 search" if searches == 1 else f"{searches:,} searches"]
    if outcomes.get(Outcome.DEDUP):
        parts += _changes(samples)
    unsampled = int(reasons.pop(Bypass.SHADOW_NOT_SAMPLED, 0))
    if left := int(outcomes.get(Outcome.BYPASS, 0) + outcomes.get(Outcome.FAIL_OPEN, 0)) - unsampled:
        reason = max(reasons, key=lambda name: (reasons[name], name))
        parts.append(f"{left:,} answered plainly (most often {reason})")
    if errors := int(samples.by("responses_total", "code_class").get("5xx", 0)):
        parts.append(f"{errors:,} request{'' if errors == 1 else 's'} got an error (5xx)")
    sentence = ", ".join(parts) + "."
    if not verdict and outcomes.get(Outcome.SHADOW):
        verdict = "None was measured since a policy changed."
    elif not verdict and unsampled:
        verdict = "None was measured; shadow.sample sets the share."
    return f"{sentence} {verdict}".rstrip()


def _changes(samples: Samples) -> list[str]:
    """What mode `on` did. The verdict has what mode shadow measured."""
    changed, tokens = (
        int(samples.total(name, but=Outcome.SHADOW)) for name in ("answers_changed_total", "tokens_saved_total")
    )
    replaced = samples.by("results_replaced_total", "evidence", but=Outcome.SHADOW)
    proven, judged = (int(replaced.get(evidence, 0)) for evidence in (Evidence.PROVEN, Evidence.JUDGED))
    parts = ["1 answer changed" if changed == 1 else f"{changed:,} answers changed"]
    if proven + judged:
        parts.append(f"{proven + judged:,} repeats replaced ({proven:,} proven, {judged:,} judged)")
    if tokens:
        parts.append(f"about {tokens:,} tokens saved")
    added = samples.quantile("added_latency_seconds", 0.5)
    return parts if added is None else [*parts, f"p50 +{1000 * added:.1f} ms"]
