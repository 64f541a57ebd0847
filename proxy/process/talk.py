"""The output of `serve` for people: a banner at the start, log lines as text in a terminal, a summary at the end.

The summary is read from the metrics, in the same way for one process and for several workers.
"""

from __future__ import annotations

import asyncio
import json
import ssl
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

from prometheus_client import CollectorRegistry

from vecsieve.config.schema import Settings

from ..runtime.addresses import Origin
from ..search.errors import FailureKind, cause_of
from ..telemetry.instruments import PREFIX
from ..telemetry.labels import Bypass, Evidence, Outcome
from ..telemetry.log import LineSink

_MEBIBYTE = 1024 * 1024
_RULES_SHOWN = 4
_NEXT = {
    "on": "Connect a client to the first address. The header x-vecsieve of an answer shows what was done.",
    "shadow": "Answers are the database's own. The page says whether `--mode on` pays, and so does Ctrl-C.",
    "shadow with a canary": "Answers of the canary have no repeats, others are the database's own. /status says whether it still is on.",
    "off": "Nothing is measured or changed. Continue with --mode shadow.",
}


def mode_of(settings: Settings) -> str:
    mode = settings.mode or settings.policy.mode
    return "shadow with a canary" if mode == "shadow" and settings.canary.is_any else mode


def policy_of(settings: Settings) -> str:
    """The rules in the order in which they are tried, then the policy for all others."""
    rules = [f"{rule.collection}: {rule.preset or 'own policy'}" for rule in settings.rules[:_RULES_SHOWN]]
    more = len(settings.rules) - _RULES_SHOWN
    if more > 0:
        rules.append(f"{more} more rules")
    return ", ".join([*rules, "others: the default" if rules else "the default for every collection"])


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


async def fault_of(url: str, *, seconds: float = PROBE_SECONDS) -> str | None:
    """Why the database accepts no connection; None if it does. Sends nothing."""
    origin = Origin.of(url)
    parsed = origin.url("/")
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(parsed.host, parsed.port, ssl=origin.scheme == "https")
            writer.close()
            await writer.wait_closed()
    except ssl.SSLError:
        return cause_of(FailureKind.TLS, origin.authority)
    except TimeoutError:
        return cause_of(FailureKind.TIMEOUT, origin.authority)
    except OSError as error:
        return cause_of(FailureKind.CONNECT if error.errno else FailureKind.DNS, origin.authority, number=error.errno)
    return None


class TextLines:
    """A sink that writes the log's JSON lines as text."""

    __slots__ = ("_sink",)

    def __init__(self, sink: LineSink) -> None:
        self._sink = sink

    def put(self, line: bytes) -> None:
        self._sink.put(as_text(line))

    def close(self) -> None:
        self._sink.close()


_SHOWN_FIRST = ("ts", "level", "msg", "logger", "request_id", "backend", "peer_is_loopback", "connection_is_reused")
_OF_ACCESS = ("method", "operation", "status", "outcome", "duration_ms", "cause", "origin")


def as_text(line: bytes) -> bytes:
    """`20:31:07 warning POST query 502 passthrough 3.1 ms: …`; values stay as JSON escapes them."""
    fields = json.loads(line)
    time, level, said = (_plain(fields.get(name, "")) for name in ("ts", "level", "msg"))
    if said == "access":
        method, operation, status, outcome, took = (_plain(fields.get(name)) for name in _OF_ACCESS[:5])
        said = f"{method} {operation} {status} {outcome} {took} ms"
        said += f": {_plain(fields['cause'])}" if "cause" in fields else ""
        fields = {name: value for name, value in fields.items() if name not in _OF_ACCESS and "bytes" not in name}
    rest = " ".join(f"{_plain(name)}={_plain(value)}" for name, value in fields.items() if name not in _SHOWN_FIRST)
    words = (time[11:19], "" if level == "info" else level, said, rest)
    return (" ".join(word for word in words if word) + "\n").encode("ascii", "backslashreplace")


def _plain(value: object) -> str:
    """A string without its quotes, other values as JSON has them."""
    text = json.dumps(value)
    return text[1:-1] if isinstance(value, str) else text


def _counts() -> defaultdict[str, float]:
    return defaultdict(float)


@dataclass(slots=True)
class Totals:
    """Sums over the life of the process. ``added``: for each bucket, its upper bound in seconds and the number of searches up to it."""

    plain: defaultdict[str, float] = field(default_factory=_counts)
    outcomes: defaultdict[str, float] = field(default_factory=_counts)
    reasons: defaultdict[str, float] = field(default_factory=_counts)
    replaced: defaultdict[str, float] = field(default_factory=_counts)
    added: defaultdict[float, float] = field(default_factory=lambda: defaultdict(float))

    @classmethod
    def of(cls, registry: CollectorRegistry) -> Totals:
        totals = cls()
        for metric in registry.collect():
            for sample in metric.samples:
                totals._take(sample.name.removeprefix(PREFIX), sample.labels, sample.value)
        return totals

    def _take(self, name: str, labels: dict[str, str], value: float) -> None:
        if name == "searches_total":
            self.outcomes[labels["outcome"]] += value
        elif name in {"bypass_total", "fail_open_total"}:
            self.reasons[labels["reason"]] += value
        elif labels.get("outcome") == Outcome.SHADOW:
            return  # no answer of a client; the verdict has them
        elif name == "results_replaced_total":
            self.replaced[labels["evidence"]] += value
        elif name == "added_latency_seconds_bucket":
            self.added[float(labels["le"])] += value
        elif name in {"answers_changed_total", "tokens_saved_total"}:
            self.plain[name] += value

    @property
    def added_ms(self) -> float | None:
        """The median of the added time, interpolated within its bucket; None without a search."""
        bounds = sorted(self.added.items())
        half = bounds[-1][1] / 2 if bounds else 0.0
        for (low, below), (high, upto) in pairwise([(0.0, 0.0), *bounds]):
            if upto >= half > below:
                return 1000 * (low if high == float("inf") else low + (high - low) * (half - below) / (upto - below))
        return None


def summary(registry: CollectorRegistry, verdict: str = "") -> str:
    """The whole life in a few sentences: searches, changes, and the verdict of mode shadow."""
    totals = Totals.of(registry)
    searches = int(sum(totals.outcomes.values()))
    if not searches:
        return "No search arrived. Does the client use the address of VecSieve?"
    parts = ["1 search" if searches == 1 else f"{searches:,} searches"]
    if totals.outcomes[Outcome.DEDUP]:
        parts += _changes(totals)
    unsampled = int(totals.reasons.pop(Bypass.SHADOW_NOT_SAMPLED, 0))
    if left := int(totals.outcomes[Outcome.BYPASS] + totals.outcomes[Outcome.FAIL_OPEN]) - unsampled:
        reason = max(totals.reasons, key=lambda name: (totals.reasons[name], name))
        parts.append(f"{left:,} answered plainly (most often {reason})")
    said = ", ".join(parts) + "."
    if not verdict and unsampled:
        verdict = "None was measured; shadow.sample sets the share."
    return f"{said} {verdict}".rstrip()


def _changes(totals: Totals) -> list[str]:
    """What mode `on` did."""
    changed, tokens = int(totals.plain["answers_changed_total"]), int(totals.plain["tokens_saved_total"])
    proven, judged = int(totals.replaced[Evidence.PROVEN]), int(totals.replaced[Evidence.JUDGED])
    parts = ["1 answer changed" if changed == 1 else f"{changed:,} answers changed"]
    if proven + judged:
        parts.append(f"{proven + judged:,} repeats replaced ({proven:,} proven, {judged:,} judged)")
    if tokens:
        parts.append(f"about {tokens:,} tokens saved")
    return parts if totals.added_ms is None else [*parts, f"p50 +{totals.added_ms:.1f} ms"]
