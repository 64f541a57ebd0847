"""What holds expressions against the declared metrics sees what it is there for; the rules' and the dashboards' tests lean on it."""

from __future__ import annotations

import pytest

from support.deploy.promql import grouped_labels, selectors, unknown


@pytest.mark.parametrize(
    ("expression", "fault"),
    [
        ("rate(vecsieve_nothing_total[5m])", "vecsieve_nothing_total: not declared"),
        ("sum by (job) (nginx_requests_total)", "nginx_requests_total: not declared"),
        ("vecsieve_candidates", "vecsieve_candidates: not declared"),  # a histogram has parts only
        ("vecsieve_refetch_total_sum", "vecsieve_refetch_total_sum: not declared"),
        ('vecsieve_searches_total{result="dedup"}', "vecsieve_searches_total: has no label result"),
        ('vecsieve_searches_total{outcome="dedupe"}', "vecsieve_searches_total: outcome is never dedupe"),
        ('vecsieve_searches_total{outcome=~"dedup|on"}', "vecsieve_searches_total: outcome is never on"),
        ('vecsieve_refetch_total{le="1"}', "vecsieve_refetch_total: has no label le"),
        ("job:vecsieve_nothing:rate5m > 1", "job:vecsieve_nothing:rate5m: not declared"),
    ],
)
def test_what_no_scrape_has_is_named(expression: str, fault: str) -> None:
    assert unknown(expression) == [fault]


@pytest.mark.parametrize(
    "expression",
    [
        "up == 0 and on (job, instance) last_over_time(vecsieve_build_info[1h])",
        'sum by (le) (rate(vecsieve_candidates_bucket{job=~"$job",le="+Inf"}[$__rate_interval])) offset 5m',
        'histogram_quantile(0.99, sum(rate(vecsieve_added_latency_seconds_bucket{operation!="query"}[5m])) by (le))',
        "process_resident_memory_bytes / 2e6 > bool 14.4 * 0.0005",
        'vecsieve_build_info{version="vecsieve_nothing{1}"}',
        "job:known:rate5m",
    ],
)
def test_what_a_scrape_has_is_let_be(expression: str) -> None:
    assert unknown(expression, frozenset({"job:known:rate5m"})) == []


def test_a_selector_comes_with_its_matchers_and_a_grouping_is_none() -> None:
    expression = 'sum by (job, kind) (rate(a_total{kind="x{y}",job="z"}[5m])) / ignoring (kind) group_left () b'
    assert list(selectors(expression)) == [("a_total", 'kind="x{y}",job="z"'), ("b", "")]
    assert grouped_labels(expression) == {"job", "kind"}
