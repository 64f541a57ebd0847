"""The figures of each set, and those over all sets, with their intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...selection.values import FloatVector
from .judging import Columns, SetOutcome
from .reading import Repeats
from .searching import PLAIN

# Intervals over queries: each set's queries are drawn again with replacement, and all figures are computed again.
#
# The draws depend on the seed and the set's name only, so every policy gets the same ones, and a set's interval does not depend on the
# other sets.

COVERED = 0.95
CELLS = 4_000_000  # of one block of draws: 32 MB for any number of queries


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """A figure and its 95 % interval; no interval without draws."""

    value: float
    low: float | None
    high: float | None


# Sums over the queries of one set under one policy, by what is summed: of the sample itself first, then of each draw. All (1 + draws,) float64.
Sums = Mapping[str, FloatVector]


def resampled(name: str, columns: Columns, plain: Columns, *, draws: int, seed: int) -> Sums:
    """For the sample and for ``draws`` draws. ``plain_…``: of the plain answers. ``answered``: queries whose plain answer has a relevant item."""
    has_answer = ~np.isnan(columns.retained)
    measures = {
        "retained": np.where(has_answer, columns.retained, 0.0),
        "answered": has_answer.astype(np.float64),
        **{f"plain_{name}": getattr(plain, name) for name in ("redundancy", "recall", "strict")},
        "redundancy": columns.redundancy,
        "recall": columns.recall,
        "strict": columns.strict,
        "dropped": columns.dropped,
        "wrong_label": columns.wrong_label,
        "wrong_text": columns.wrong_text,
        "walked": columns.walked,
        "walked_wrong_label": columns.walked_wrong_label,
        "walked_wrong_text": columns.walked_wrong_text,
    }
    matrix = np.stack(list(measures.values())).T
    weights = _weights(name, len(has_answer), draws=draws, seed=seed)
    return dict(zip(measures, np.concatenate([weight @ matrix for weight in weights]).T, strict=True))


def _share(sums: Sums, part: str, whole: str) -> FloatVector:
    """NaN for a draw without any."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = sums[part] / sums[whole]
    return np.where(sums[whole] > 0.0, share, np.nan)


def estimate(values: FloatVector) -> Estimate:
    """The first value, and the range of the middle 95 % of the others."""
    drawn = values[1:]
    drawn = drawn[~np.isnan(drawn)]
    if not len(drawn):
        return Estimate(value=float(values[0]), low=None, high=None)
    low, high = np.quantile(drawn, [(1.0 - COVERED) / 2.0, (1.0 + COVERED) / 2.0]).tolist()
    return Estimate(value=float(values[0]), low=low, high=high)


def _weights(name: str, queries: int, *, draws: int, seed: int) -> Iterator[FloatVector]:
    """(…, queries) float64 in blocks: how often each query is in the sample (once), and in each draw."""
    yield np.ones((1, queries))
    generator = np.random.default_rng([seed, *name.encode()])
    block = max(1, CELLS // queries)
    for start in range(0, draws, block):
        size = min(block, draws - start)
        yield generator.multinomial(queries, np.full(queries, 1.0 / queries), size=size).astype(np.float64)


# Only sets whose plain answers hold more redundant items than this: otherwise a reduction is a quotient of noise.
REDUNDANT = 0.10
# The same for strict repeats: sets whose plain answers hold fewer do not count.
MANY_REPEATS = 20
MILLISECONDS = 1000.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Wrong:
    """Results that were left out as copies, and what the answer does not say of them. ``label_share``, ``text_share``: shares of the
    ``drops``; None without any.
    """

    drops: int
    by_label: int
    by_text: int
    label_share: Estimate | None
    text_share: Estimate | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SetSummary:
    """Means over the queries of one set under one policy; NaN if no query has the measure.

    ``reduction``: None if there was hardly anything to reduce; ``strict_cut``: None without strict repeats. ``retained_subtopics``: of all
    subtopics in plain answers, the share still found. ``page``: drops among the results of the plain answer; ``walked``: among all of the
    pool that the page reaches. ``added_ms``: the median.
    """

    name: str
    repeats: Repeats
    queries: int
    redundancy: float
    plain_redundancy: float
    reduction: Estimate | None
    strict: int
    plain_strict: int
    strict_cut: Estimate | None
    retention: Estimate
    retained_subtopics: float
    recall: float
    perfect: float
    group_ndcg: float
    gain: Estimate
    collapsed: float
    documents: float
    alpha_ndcg: float
    ndcg: float
    hit: float
    returned: float
    page: Wrong
    walked: Wrong
    added_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Worst:
    """The set with the worst value, and that set's own interval."""

    name: str
    estimate: Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """One policy over the sets whose repeats are of one kind, each with the same weight; None if no set has the measure.

    ``reduction``: over the sets with more than REDUNDANT; ``strict_cut``: over those with MANY_REPEATS. ``page``, ``walked``: over all
    drops. ``added_ms``: the median over all queries.
    """

    sets: int
    queries: int
    reduction: Estimate | None
    strict_cut: Estimate | None
    retention_worst: Worst | None
    gain_mean: Estimate
    returned: float
    page: Wrong
    walked: Wrong
    added_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """One policy. Sets of copies, of meanings and without repeats are never averaged together: what helps in one is harm in another."""

    headlines: Mapping[Repeats, Headline]
    sets: tuple[SetSummary, ...]


def summarised(outcomes: Sequence[SetOutcome], *, draws: int, seed: int) -> Mapping[str, Summary]:
    """By contender, the plain answer first. All outcomes have the same contenders."""
    return {name: _summary(name, outcomes, draws=draws, seed=seed) for name in outcomes[0].by_contender}


def _summary(name: str, outcomes: Sequence[SetOutcome], *, draws: int, seed: int) -> Summary:
    drawn = [
        resampled(outcome.name, outcome.by_contender[name], outcome.by_contender[PLAIN], draws=draws, seed=seed)
        for outcome in outcomes
    ]
    sets = tuple(_set_summary(outcome, name, values) for outcome, values in zip(outcomes, drawn, strict=True))
    headlines = {}
    for kind in Repeats:
        some = [place for place, outcome in enumerate(outcomes) if outcome.repeats is kind]
        if some:
            columns = [outcomes[place].by_contender[name] for place in some]
            headlines[kind] = _headline([sets[place] for place in some], [drawn[place] for place in some], columns)
    return Summary(headlines=headlines, sets=sets)


def _set_summary(outcome: SetOutcome, name: str, drawn: Sums) -> SetSummary:
    columns, queries = outcome.by_contender[name], outcome.queries
    met = float(columns.kept.sum() + columns.lost.sum())
    plain_redundancy = float(drawn["plain_redundancy"][0]) / queries
    return SetSummary(
        name=outcome.name,
        repeats=outcome.repeats,
        queries=queries,
        plain_redundancy=plain_redundancy,
        reduction=estimate(_reduction(drawn)) if plain_redundancy > REDUNDANT else None,
        strict=int(drawn["strict"][0]),
        plain_strict=int(drawn["plain_strict"][0]),
        strict_cut=estimate(_strict_cut(drawn)) if drawn["plain_strict"][0] else None,
        retention=estimate(_share(drawn, "retained", "answered")),
        retained_subtopics=float(columns.kept.sum()) / met if met else float("nan"),
        gain=estimate(_gain(drawn, queries)),
        redundancy=_mean(columns.redundancy),
        recall=_mean(columns.recall),
        perfect=_mean(columns.perfect),
        group_ndcg=_mean(columns.group_ndcg),
        collapsed=_mean(columns.collapsed),
        documents=_mean(columns.documents),
        alpha_ndcg=_mean(columns.alpha_ndcg),
        ndcg=_mean(columns.ndcg),
        hit=_mean(columns.hit),
        returned=_mean(columns.returned),
        page=_wrong(drawn, "dropped", "wrong"),
        walked=_wrong(drawn, "walked", "walked_wrong"),
        added_ms=float(np.median(columns.added_seconds)) * MILLISECONDS,
    )


def _headline(sets: Sequence[SetSummary], drawn: Sequence[Sums], columns: Sequence[Columns]) -> Headline:
    judged = [summary for summary in sets if not np.isnan(summary.retention.value)]
    least_kept = min(judged, key=lambda summary: summary.retention.value, default=None)
    pairs = list(zip(drawn, sets, strict=True))
    total: Sums = {name: np.sum([sums[name] for sums in drawn], axis=0) for name in drawn[0]}
    return Headline(
        sets=len(sets),
        queries=sum(summary.queries for summary in sets),
        reduction=_over_sets([_reduction(sums) for sums, summary in pairs if summary.plain_redundancy > REDUNDANT]),
        strict_cut=_over_sets([_strict_cut(sums) for sums, summary in pairs if summary.plain_strict >= MANY_REPEATS]),
        retention_worst=None if least_kept is None else Worst(name=least_kept.name, estimate=least_kept.retention),
        gain_mean=estimate(np.mean([_gain(sums, summary.queries) for sums, summary in pairs], axis=0)),
        returned=float(np.mean([summary.returned for summary in sets])),
        page=_wrong(total, "dropped", "wrong"),
        walked=_wrong(total, "walked", "walked_wrong"),
        added_ms=float(np.median(np.concatenate([part.added_seconds for part in columns]))) * MILLISECONDS,
    )


def _wrong(sums: Sums, drops: str, wrong: str) -> Wrong:
    by_label, by_text = f"{wrong}_label", f"{wrong}_text"
    has_drops = bool(sums[drops][0])
    return Wrong(
        drops=int(sums[drops][0]),
        by_label=int(sums[by_label][0]),
        by_text=int(sums[by_text][0]),
        label_share=estimate(_share(sums, by_label, drops)) if has_drops else None,
        text_share=estimate(_share(sums, by_text, drops)) if has_drops else None,
    )


def _reduction(sums: Sums) -> FloatVector:
    reduction: FloatVector = 1.0 - _share(sums, "redundancy", "plain_redundancy")
    return reduction


def _strict_cut(sums: Sums) -> FloatVector:
    cut: FloatVector = 1.0 - _share(sums, "strict", "plain_strict")
    return cut


def _gain(sums: Sums, queries: int) -> FloatVector:
    gain: FloatVector = (sums["recall"] - sums["plain_recall"]) / queries
    return gain


def _over_sets(values: Sequence[FloatVector]) -> Estimate | None:
    return estimate(np.mean(values, axis=0)) if values else None


def _mean(values: FloatVector) -> float:
    """NaN if no query has the measure."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")
