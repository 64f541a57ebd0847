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


@dataclass(frozen=True, slots=True, kw_only=True)
class Resampled:
    """One set under one policy: the sample itself first, then each draw. All (1 + draws,) float64.

    ``retention`` is NaN if no drawn query's plain answer had a relevant item. ``strict`` to ``walked_wrong_text``: sums over the queries.
    """

    redundancy: FloatVector
    plain_redundancy: FloatVector
    retention: FloatVector
    gain: FloatVector
    strict: FloatVector
    plain_strict: FloatVector
    dropped: FloatVector
    wrong_label: FloatVector
    wrong_text: FloatVector
    walked: FloatVector
    walked_wrong_label: FloatVector
    walked_wrong_text: FloatVector


SUMMED = ("strict", "dropped", "wrong_label", "wrong_text", "walked", "walked_wrong_label", "walked_wrong_text")


def resampled(name: str, own: Columns, plain: Columns, *, draws: int, seed: int) -> Resampled:
    """The figures with intervals, for the sample and for ``draws`` draws."""
    has_answer = ~np.isnan(own.retained)
    measures = np.stack(
        (
            own.redundancy,
            plain.redundancy,
            np.where(has_answer, own.retained, 0.0),
            has_answer.astype(np.float64),
            own.recall - plain.recall,
            plain.strict,
            *(getattr(own, name) for name in SUMMED),
        )
    )
    sums = np.concatenate([weights @ measures.T for weights in _weights(name, len(has_answer), draws=draws, seed=seed)])
    with np.errstate(invalid="ignore"):  # 0 / 0 gives the intended NaN
        retention = sums[:, 2] / sums[:, 3]
    queries = len(has_answer)
    return Resampled(
        redundancy=sums[:, 0] / queries,
        plain_redundancy=sums[:, 1] / queries,
        retention=retention,
        gain=sums[:, 4] / queries,
        plain_strict=sums[:, 5],
        **{name: sums[:, 6 + place] for place, name in enumerate(SUMMED)},
    )


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
        resampled(each.name, each.by_contender[name], each.by_contender[PLAIN], draws=draws, seed=seed)
        for each in outcomes
    ]
    sets = tuple(_set_summary(each, name, values) for each, values in zip(outcomes, drawn, strict=True))
    headlines = {}
    for kind in Repeats:
        some = [place for place, each in enumerate(outcomes) if each.repeats is kind]
        if some:
            own = [outcomes[place].by_contender[name] for place in some]
            headlines[kind] = _headline([sets[place] for place in some], [drawn[place] for place in some], own)
    return Summary(headlines=headlines, sets=sets)


def _set_summary(outcome: SetOutcome, name: str, drawn: Resampled) -> SetSummary:
    own = outcome.by_contender[name]
    met = float(own.kept.sum() + own.lost.sum())
    return SetSummary(
        name=outcome.name,
        repeats=outcome.repeats,
        queries=outcome.queries,
        redundancy=_mean(own.redundancy),
        plain_redundancy=float(drawn.plain_redundancy[0]),
        reduction=estimate(_reduction(drawn)) if _is_redundant(drawn) else None,
        strict=int(drawn.strict[0]),
        plain_strict=int(drawn.plain_strict[0]),
        strict_cut=estimate(_strict_cut(drawn)) if drawn.plain_strict[0] else None,
        retention=estimate(drawn.retention),
        retained_subtopics=float(own.kept.sum()) / met if met else float("nan"),
        recall=_mean(own.recall),
        perfect=_mean(own.perfect),
        group_ndcg=_mean(own.group_ndcg),
        gain=estimate(drawn.gain),
        collapsed=_mean(own.collapsed),
        documents=_mean(own.documents),
        alpha_ndcg=_mean(own.alpha_ndcg),
        ndcg=_mean(own.ndcg),
        hit=_mean(own.hit),
        returned=_mean(own.returned),
        page=_wrong(drawn.dropped, drawn.wrong_label, drawn.wrong_text),
        walked=_wrong(drawn.walked, drawn.walked_wrong_label, drawn.walked_wrong_text),
        added_ms=float(np.median(own.added_seconds)) * MILLISECONDS,
    )


def _headline(sets: Sequence[SetSummary], drawn: Sequence[Resampled], own: Sequence[Columns]) -> Headline:
    judged = [each for each in sets if not np.isnan(each.retention.value)]
    least_kept = min(judged, key=lambda each: each.retention.value, default=None)
    return Headline(
        sets=len(sets),
        queries=sum(each.queries for each in sets),
        reduction=_over_sets([_reduction(each) for each in drawn if _is_redundant(each)]),
        strict_cut=_over_sets([_strict_cut(each) for each in drawn if each.plain_strict[0] >= MANY_REPEATS]),
        retention_worst=None if least_kept is None else Worst(name=least_kept.name, estimate=least_kept.retention),
        gain_mean=estimate(np.mean([each.gain for each in drawn], axis=0)),
        returned=float(np.mean([each.returned for each in sets])),
        page=_wrong(*(_summed(drawn, name) for name in ("dropped", "wrong_label", "wrong_text"))),
        walked=_wrong(*(_summed(drawn, name) for name in ("walked", "walked_wrong_label", "walked_wrong_text"))),
        added_ms=_median([each.added_seconds for each in own]),
    )


def _wrong(drops: FloatVector, by_label: FloatVector, by_text: FloatVector) -> Wrong:
    with np.errstate(invalid="ignore"):  # 0 / 0 gives the intended NaN
        label_share, text_share = by_label / drops, by_text / drops
    return Wrong(
        drops=int(drops[0]),
        by_label=int(by_label[0]),
        by_text=int(by_text[0]),
        label_share=estimate(label_share) if drops[0] else None,
        text_share=estimate(text_share) if drops[0] else None,
    )


def _summed(drawn: Sequence[Resampled], name: str) -> FloatVector:
    total: FloatVector = np.sum([getattr(each, name) for each in drawn], axis=0)
    return total


def _strict_cut(drawn: Resampled) -> FloatVector:
    """NaN for a draw whose plain answers have no strict repeat."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = drawn.strict / drawn.plain_strict
    return np.where(drawn.plain_strict > 0.0, 1.0 - share, np.nan)


def _is_redundant(drawn: Resampled) -> bool:
    return bool(drawn.plain_redundancy[0] > REDUNDANT)


def _reduction(drawn: Resampled) -> FloatVector:
    """NaN for a draw whose plain answers have no redundancy."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = drawn.redundancy / drawn.plain_redundancy
    return np.where(drawn.plain_redundancy > 0.0, 1.0 - share, np.nan)


def _over_sets(values: Sequence[FloatVector]) -> Estimate | None:
    return estimate(np.mean(values, axis=0)) if values else None


def _mean(values: FloatVector) -> float:
    """NaN if no query has the measure."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else float("nan")


def _median(seconds: Sequence[FloatVector]) -> float:
    return float(np.median(np.concatenate(seconds))) * MILLISECONDS
