"""The dashboard of selection: what it removes and why, its price, and what mode shadow would have changed."""

from __future__ import annotations

from deploy.grafana.board import board
from deploy.grafana.panels import Json, Panel, Row, heatmap, lines, stat
from deploy.grafana.queries import buckets, mean, quantile, rate, ratio

SEARCHES = rate("candidates_count")  # a batch is one call with several of these


def quality() -> Json:
    """The dashboard."""
    return board(
        "vecsieve-quality",
        "VecSieve: selection quality",
        "For owners of the results: what is left out, for which reason, and whether pages stay full and relevant.",
        (
            Row("At a glance", _glance()),
            Row("Effect", _effect()),
            Row("Reasons", _reasons()),
            Row("Price in relevance", _relevance()),
            Row("By rule", _rules()),
            Row("Shadow", _shadow()),
            Row("What rules", _rulings()),
        ),
    )


def per_search(counter: str, *, by: str = "") -> str:
    """Events per search; by a label if they are broken down."""
    if not by:
        return ratio(rate(counter), SEARCHES)
    return f"{rate(counter, by=by)} / ignoring ({by}) group_left () ({SEARCHES} > 0)"


def _glance() -> tuple[Panel, ...]:
    return (*_removed(), *_pools())


def _removed() -> tuple[Panel, ...]:
    return (
        stat(
            "Answers changed",
            "Share of answers that differ from the database's own page; in mode shadow those that would.",
            "percentunit",
            per_search("answers_changed_total"),
        ),
        stat(
            "Results replaced",
            "Results of the database's own page that left as copies, per search.",
            "short",
            per_search("results_replaced_total"),
        ),
        stat(
            "Tokens saved",
            "Estimated tokens of the results that left as copies, per search.",
            "short",
            per_search("tokens_saved_total"),
        ),
    )


def _pools() -> tuple[Panel, ...]:
    return (
        stat("Searches", "Searches with a selection; each search of a batch counts.", "reqps", SEARCHES),
        stat(
            "Duplicates removed",
            "Share of fetched candidates that were left out as copies.",
            "percentunit",
            ratio(rate("candidates_collapsed_total"), rate("candidates_sum")),
        ),
        stat("Candidates", "Mean size of a pool.", "short", mean("candidates")),
        stat("Results", "Mean size of a page.", "short", mean("results_returned")),
        stat(
            "Filled up",
            "Duplicates returned per search, because there were fewer distinct results than asked for.",
            "short",
            per_search("results_filled_total"),
            warn=1,
        ),
        stat(
            "Pools exhausted",
            "Share of searches with fewer clusters than requested results.",
            "percentunit",
            per_search("pool_exhausted_total"),
            warn=0.25,
        ),
        stat(
            "Repeats in a page",
            "Results of the database's own page that repeat a better one of it.",
            "short",
            per_search("results_repeated_total"),
        ),
        stat("Score moved", "Mean relative change of a page's mean score.", "percentunit", mean("score_loss_ratio")),
    )


def _effect() -> tuple[Panel, ...]:
    return (
        lines(
            "From candidates to results",
            "Mean per search: fetched candidates, clusters among them, returned results.",
            "short",
            {
                "candidates": mean("candidates"),
                "clusters": mean("clusters"),
                "results": mean("results_returned"),
            },
        ),
        heatmap(
            "Share of a pool left out",
            "Each search's duplicates as a share of its candidates.",
            "percentunit",
            buckets("collapsed_ratio"),
        ),
        lines(
            "Pools that held too little",
            "Shares of searches: exhausted pools, and pools that were grown once.",
            "percentunit",
            {"exhausted": per_search("pool_exhausted_total"), "grown": per_search("refetch_total")},
        ),
        lines(
            "Reads of our own",
            "In addition to the clients' reads, by kind; withheld: beyond the budget, or soon after a refusal.",
            "reqps",
            {
                "{{kind}}": rate("own_reads_total", by="kind"),
                "withheld: {{reason}}": rate("own_reads_withheld_total", by="reason"),
            },
        ),
    )


def _reasons() -> tuple[Panel, ...]:
    return (
        lines(
            "Left out, by reason",
            "Candidates per search: what the results that stay say, by how that was found, and near vectors where a text is missing.",
            "short",
            {"{{reason}}": per_search("candidates_collapsed_total", by="reason")},
            is_stacked=True,
        ),
        lines(
            "Would leave under preset meaning",
            "Share of the results of sampled searches that a better result says in other words: no text proves it, so they stay by default.",
            "percentunit",
            {
                "in other words": ratio(
                    rate("sampled_results_total", 'result="reworded"'), rate("sampled_results_total")
                )
            },
        ),
        lines(
            "Left out otherwise, unusable, restrained",
            "Per search: left out by a cap, a budget, or as returned before; candidates without a usable vector; answers not changed because vectors"
            " alone would have collapsed most of a pool whose scores differ.",
            "short",
            {
                "{{reason}}": per_search("results_left_out_total", by="reason"),
                "unusable": per_search("candidates_unusable_total"),
                "restrained": per_search("searches_restrained_total"),
            },
        ),
    )


def _relevance() -> tuple[Panel, ...]:
    return (
        lines(
            "Score moved",
            "How far selection moves a page's mean score, relative to the plain page's.",
            "percentunit",
            {"p50": quantile(0.5, "score_loss_ratio"), "p95": quantile(0.95, "score_loss_ratio")},
        ),
        lines(
            "Duplicates returned",
            "Per search, for want of distinct results.",
            "short",
            {"filled": per_search("results_filled_total")},
        ),
    )


def _rules() -> tuple[Panel, ...]:
    searches = rate("rule_searches_total", by="rule")
    return (
        lines(
            "Searches, by rule",
            "By the rule that gave the policy. default: none matched. unnamed: rules without a name in the settings.",
            "reqps",
            {"{{rule}}": searches},
        ),
        lines(
            "Left out, by rule",
            "Share of the candidates that were left out as copies.",
            "percentunit",
            {
                "{{rule}}": ratio(
                    rate("rule_candidates_collapsed_total", by="rule"), rate("rule_candidates_total", by="rule")
                )
            },
        ),
        lines(
            "Duplicates returned, by rule",
            "Per search, for want of distinct results.",
            "short",
            {"{{rule}}": ratio(rate("rule_results_filled_total", by="rule"), searches)},
        ),
    )


def _shadow() -> tuple[Panel, ...]:
    measured = rate("searches_total", 'outcome="shadow"')
    return (
        lines(
            "Searches measured beside the plain answer",
            "Calls in mode shadow; clients got the database's own bytes.",
            "reqps",
            {"shadow": measured},
            width=12,
        ),
        lines(
            "Answers that would have differed",
            "Share of shadow calls whose page would have changed.",
            "percentunit",
            {"changed": ratio(rate("answers_changed_total", 'outcome="shadow"'), measured)},
            width=12,
        ),
    )


def _rulings() -> tuple[Panel, ...]:
    return (
        lines(
            "Overrides obeyed",
            "Requests whose headers changed the policy.",
            "reqps",
            {"{{header}}": rate("overrides_total", by="header")},
        ),
        lines(
            "Profiles ignored or refused",
            "Pools that no longer match their profile, and profile files that could not be read.",
            "cps",
            {
                "{{kind}}": rate("profile_failures_total", by="kind"),
            },
        ),
        lines(
            "Vectors remembered, and read units",
            "Pools fetched without vectors, by how much the feature memory had; read units of second requests (Pinecone).",
            "cps",
            {
                "recall: {{result}}": rate("memory_recalls_total", by="result"),
                "read units": rate("extra_read_units_total"),
            },
        ),
    )
