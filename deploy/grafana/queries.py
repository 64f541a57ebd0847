"""The forms of the panels' queries, each over the chosen jobs and instances. Ratios have no value without traffic.

Rule of this file: text only. Tests check names against the declared metrics, and answers against a real Prometheus.
"""

from __future__ import annotations

TARGETS = 'job=~"$job",instance=~"$instance"'


def series(name: str, matchers: str = "") -> str:
    """A metric of the chosen instances, by its full name."""
    return f"{name}{{{TARGETS}{',' if matchers else ''}{matchers}}}"


def own(name: str, matchers: str = "") -> str:
    """One of VecSieve's metrics by its name without the prefix."""
    return series(f"vecsieve_{name}", matchers)


def rate(name: str, matchers: str = "", *, by: str = "") -> str:
    """Events per second of a counter, summed; ``by``: the labels that are kept."""
    return f"sum{f' by ({by})' if by else ''} (rate({own(name, matchers)}[$__rate_interval]))"


def ratio(above: str, below: str) -> str:
    """One sum divided by another of the same labels; absent while the divisor is 0."""
    return f"{above} / ({below} > 0)"


def mean(histogram: str, *, by: str = "") -> str:
    """The mean of a histogram's values."""
    return ratio(rate(f"{histogram}_sum", by=by), rate(f"{histogram}_count", by=by))


def quantile(share: float, histogram: str, *, by: str = "") -> str:
    """A quantile of a histogram's values; absent while there are none."""
    buckets = rate(f"{histogram}_bucket", by=f"le, {by}" if by else "le")
    return f"histogram_quantile({share}, {buckets}) and {rate(f'{histogram}_count', by=by)} > 0"


def buckets(histogram: str) -> str:
    """The buckets for a heatmap."""
    return rate(f"{histogram}_bucket", by="le")
