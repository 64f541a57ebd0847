"""The operator's dashboard: availability, errors, cost, and time."""

from __future__ import annotations

from deploy.grafana.board import board
from deploy.grafana.panels import Json, Panel, Row, heatmap, lines, stat, timeline
from deploy.grafana.queries import buckets, mean, own, quantile, rate, ratio
from deploy.grafana.resources import resources, running

NOT_CLOSED = own("breaker_state", 'state!="closed"')


def overview() -> Json:
    """The dashboard."""
    return board(
        "vecsieve-overview",
        "VecSieve: overview",
        "For operators: traffic, errors, time, cost, safety and resources. Start here, then docs/operating.md.",
        (
            Row("At a glance", _glance()),
            Row("Traffic", _traffic()),
            Row("Where the time goes", _time()),
            Row("Safety", _safety()),
            Row("Cost", _cost()),
            Row("Resources", resources()),
            Row("What runs", running()),
        ),
    )


def _glance() -> tuple[Panel, ...]:
    improved = rate("searches_total", 'outcome!="bypass"')
    return (
        stat("Requests", "Requests that ended, of all kinds.", "reqps", rate("requests_total")),
        stat(
            "Answers changed",
            "Share of selected answers that differ from the database's own page; in mode shadow those that would.",
            "percentunit",
            ratio(rate("answers_changed_total"), rate("candidates_count")),
        ),
        stat(
            "Duplicates removed",
            "Share of fetched candidates that were left out as copies.",
            "percentunit",
            ratio(rate("candidates_collapsed_total"), rate("candidates_sum")),
        ),
        stat(
            "Added latency, p99",
            "Time of a search not spent waiting for the database.",
            "s",
            quantile(0.99, "added_latency_seconds"),
            warn=0.01,
            bad=0.025,
        ),
        stat(
            "Answered plainly",
            "Share of searches whose improvement failed; the client got the plain answer.",
            "percentunit",
            ratio(rate("fail_open_total"), improved),
            warn=0.01,
            bad=0.05,
        ),
        stat(
            "Own errors",
            "Share of requests that failed because of VecSieve. The objective is 0.05 % over 30 days.",
            "percentunit",
            ratio(rate("local_errors_total", 'kind=~"internal|shed"'), rate("requests_total")),
            warn=0.0005,
            bad=0.0072,
        ),
        stat(
            "Breakers open",
            "Instances that have stopped widening searches, or are probing whether to resume.",
            "none",
            f"sum({NOT_CLOSED})",
            warn=1,
        ),
        stat("Instances", "Instances that were scraped.", "none", f"count({own('build_info')})"),
    )


def _traffic() -> tuple[Panel, ...]:
    quantiles = {f"p{share:g}": quantile(share / 100, "request_duration_seconds") for share in (50, 95, 99)}
    return (
        lines(
            "Requests by operation",
            "Ranked searches by name; everything else is other.",
            "reqps",
            {"{{operation}}": rate("requests_total", by="operation")},
            is_stacked=True,
        ),
        lines(
            "Requests by outcome",
            "dedup: selection answered. shadow: measured only. bypass: deliberately not changed. passthrough: no search.",
            "reqps",
            {"{{outcome}}": rate("requests_total", by="outcome")},
            is_stacked=True,
        ),
        lines(
            "Responses by class and origin",
            "Whether the database or VecSieve answered. Errors with origin proxy are not the database's.",
            "reqps",
            {"{{code_class}} {{origin}}": rate("responses_total", by="code_class, origin")},
        ),
        lines("Duration of requests", "Whole time, database included.", "s", quantiles),
        lines(
            "Errors of VecSieve",
            "internal and shed: caused by VecSieve; no_upstream: the database is unreachable; bad_request: refused as malformed.",
            "cps",
            {"{{kind}}": rate("local_errors_total", by="kind")},
        ),
        lines(
            "Failures of the database",
            "Failed exchanges with the database, by kind.",
            "cps",
            {"{{kind}}": rate("upstream_errors_total", by="kind")},
        ),
    )


def _time() -> tuple[Panel, ...]:
    return (
        lines(
            "Mean time per stage",
            "Where a search spends its time; upstream is waiting for the database.",
            "s",
            {"{{stage}}": mean("stage_duration_seconds", by="stage")},
            is_stacked=True,
        ),
        heatmap(
            "Added latency",
            "Time of a search not spent waiting for the database.",
            "s",
            buckets("added_latency_seconds"),
        ),
        lines(
            "Mean time of the database by kind of request",
            "original: the client's own request. overfetch: the widened one. replay: the original after a failure. hedge: the original beside a late widened one.",
            "s",
            {"{{attempt}}": mean("upstream_request_duration_seconds", by="attempt")},
        ),
    )


def _safety() -> tuple[Panel, ...]:
    return (
        lines(
            "Answered plainly, by reason",
            "What failed. The client got the first results of the pool, or the answer to its own request.",
            "cps",
            {"{{reason}}": rate("fail_open_total", by="reason")},
        ),
        lines(
            "Bypassed, by reason",
            "Intended: disabled, or a kind of search whose meaning selection would change.",
            "cps",
            {"{{reason}}": rate("bypass_total", by="reason")},
        ),
        timeline(
            "Breaker",
            "Red while an instance does not widen searches, because widened ones failed too often.",
            f"max by (instance) ({NOT_CLOSED})",
            "{{instance}}",
        ),
        lines(
            "Requests refused because of overload",
            "Answered 503 with Retry-After.",
            "cps",
            {"{{reason}}": rate("requests_shed_total", by="reason")},
        ),
        lines(
            "Client connections ended",
            "limit and crowded: too many connections. head_timeout and silent: clients that sent no request. flood: too many frames or chunks without content. slow_reader: read a large answer too slowly while others lacked its connection or memory.",
            "cps",
            {"{{reason}}": rate("connections_rejected_total", by="reason")},
        ),
        lines(
            "Searches sent again, by reason",
            "The client's own request after a failed widened one, once. No other request is sent twice.",
            "reqps",
            {"{{reason}}": rate("retries_total", by="reason")},
        ),
    )


def _cost() -> tuple[Panel, ...]:
    return (
        lines(
            "Bytes",
            "From the database, of these replies to widened requests, and to clients.",
            "Bps",
            {
                "from the database": rate("upstream_response_bytes_total"),
                "of these widened": rate("overfetch_bytes_total"),
                "to clients": rate("client_response_bytes_total"),
            },
        ),
        lines(
            "Amplification",
            "Bytes from the database for each byte to a client.",
            "short",
            {"ratio": ratio(rate("upstream_response_bytes_total"), rate("client_response_bytes_total"))},
        ),
        lines(
            "Upstream requests per client request",
            "1 without widened failures or lookups; a failed widened request or a second request makes it 2.",
            "short",
            {"ratio": ratio(rate("upstream_request_duration_seconds_count"), rate("requests_total"))},
        ),
    )
