"""The shapes of query: over the chosen targets, and without a value where there is nothing to divide by."""

from __future__ import annotations

from pathlib import Path

import yaml

from deploy.grafana.queries import mean, own, quantile, rate, ratio, series
from support.deploy.dashboard_lint import substituted
from support.deploy.prometheus_tools import needs_promtool, promtool

CHOSEN = 'job=~"$job",instance=~"$instance"'


def test_a_series_is_asked_of_the_chosen_targets() -> None:
    assert series("up") == f"up{{{CHOSEN}}}"
    assert own("searches_total", 'outcome="dedup"') == f'vecsieve_searches_total{{{CHOSEN},outcome="dedup"}}'


def test_a_rate_is_summed_over_all_but_the_labels_that_stay() -> None:
    assert rate("a_total") == f"sum (rate(vecsieve_a_total{{{CHOSEN}}}[$__rate_interval]))"
    assert rate("a_total", by="kind").startswith("sum by (kind) (rate(")


@needs_promtool
def test_ratios_means_and_quantiles_have_no_value_at_rest_and_the_right_one_under_load(tmp_path: Path) -> None:
    queries = {
        ratio(rate("refetch_total"), rate("pool_exhausted_total")): 0.25,
        mean("candidates"): 4.0,
        quantile(0.5, "candidates"): 3.5,
    }
    values = {"refetch_total": 1, "pool_exhausted_total": 4, "candidates_sum": 16, "candidates_count": 4}
    buckets = {'le="2.0"': 0, 'le="5.0"': 4, 'le="+Inf"': 4}

    def test(moves: int) -> dict[str, object]:
        made = {f'vecsieve_{name}{{job="j",instance="i"}}': by * moves for name, by in values.items()}
        made |= {f'vecsieve_candidates_bucket{{job="j",instance="i",{le}}}': by * moves for le, by in buckets.items()}
        return {
            "interval": "15s",
            "input_series": [{"series": name, "values": f"0+{by}x40"} for name, by in made.items()],
            "promql_expr_test": [
                {
                    "expr": substituted(query),
                    "eval_time": "5m",
                    "exp_samples": [{"labels": "{}", "value": value}] if moves else [],
                }
                for query, value in queries.items()
            ],
        }

    file = tmp_path / "shapes.yaml"
    file.write_text(yaml.safe_dump({"tests": [test(0), test(60)]}), encoding="utf-8")
    done = promtool("test", "rules", file)
    assert done.returncode == 0, done.stdout + done.stderr
