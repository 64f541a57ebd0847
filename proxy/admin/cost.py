"""What VecSieve costs, read off the metrics that are counted anyway, of one process or of all workers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from prometheus_client import CollectorRegistry
from prometheus_client.samples import Sample

from vecsieve.proxy.telemetry.instruments import PREFIX

# Members of the answer: the counter and the label that it is given by.
COUNTERS = {
    "outcomes": ("searches_total", "outcome"),
    "bypassed": ("bypass_total", "reason"),
    "failed_open": ("fail_open_total", "reason"),
    "collapsed": ("candidates_collapsed_total", "reason"),
    "kept_apart": ("candidates_vetoed_total", "guard"),
    "memory": ("memory_recalls_total", "result"),
    "own_reads": ("own_reads_total", "kind"),
}
BYTES = {
    "from_database": "upstream_response_bytes_total",
    "to_clients": "client_response_bytes_total",
    "widened": "overfetch_bytes_total",
}
TIMES = {
    "added_ms": "added_latency_seconds",
    "request_ms": "request_duration_seconds",
    "database_ms": "upstream_request_duration_seconds",
}


def read_cost(registry: CollectorRegistry) -> dict[str, object]:
    """Counts since the start, without those that are 0; times in milliseconds."""
    samples = _by_name(registry)
    return {
        **{name: _times(samples, metric) for name, metric in TIMES.items()},
        "bytes": {name: int(sum(each.value for each in samples[metric])) for name, metric in BYTES.items()},
        **{name: _counts(samples[metric], label) for name, (metric, label) in COUNTERS.items()},
    }


def _by_name(registry: CollectorRegistry) -> dict[str, list[Sample]]:
    found: dict[str, list[Sample]] = defaultdict(list)
    for metric in registry.collect():
        for sample in metric.samples:
            found[sample.name.removeprefix(PREFIX)].append(sample)
    return found


def _counts(samples: Iterable[Sample], label: str) -> dict[str, int]:
    """By the label's value, the largest first."""
    counts: dict[str, int] = defaultdict(int)
    for sample in samples:
        counts[sample.labels[label]] += int(sample.value)
    return dict(sorted(((name, count) for name, count in counts.items() if count), key=lambda each: -each[1]))


def _times(samples: dict[str, list[Sample]], metric: str) -> dict[str, float | int | None]:
    """Count, mean and percentiles of a histogram over all its labels."""
    count = sum(each.value for each in samples[f"{metric}_count"])
    total = sum(each.value for each in samples[f"{metric}_sum"])
    buckets: dict[float, float] = defaultdict(float)
    for sample in samples[f"{metric}_bucket"]:
        buckets[float(sample.labels["le"])] += sample.value
    return {
        "count": int(count),
        "mean": round(total / count * 1000, 3) if count else None,
        **{f"p{share}": _percentile(buckets, count * share / 100) for share in (50, 95, 99)},
    }


def _percentile(buckets: dict[float, float], wanted: float) -> float | None:
    """Interpolated within its bucket, as Prometheus does; the last bound where it is beyond it."""
    below, start = 0.0, 0.0
    for bound, reached in sorted(buckets.items()):
        if reached >= wanted and reached > below:
            end = start if bound == float("inf") else start + (bound - start) * (wanted - below) / (reached - below)
            return round(end * 1000, 3)
        below, start = reached, bound
    return None
