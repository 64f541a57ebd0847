"""What texts add to a selection, against the least that can be done with them: splitting them into words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np

from bench.bench_select import default_policy, per_call
from bench.figures import Aim, Sides, figure
from bench.passages import WORDS, passages
from bench.report import Section, section
from bench.rounds import Effort, interleave
from support.selection.texts import as_texts, forget
from vecsieve.proxy.selection.judging.walk import Walk
from vecsieve.proxy.selection.policy import Policy
from vecsieve.proxy.selection.values import Candidates, Metadata, Metric, finished

SIZES = (50, 200)
POOLS = 6
AIMS = {(50, "never seen"): (Aim("ours", "<=", 1.5),), (50, "remembered"): (Aim("ours", "<=", 0.75),)}


def bench_text(effort: Effort) -> Iterator[Section]:
    """Per pool size two figures, in milliseconds a pool: all texts new, and all of them seen before."""
    policy, figures = reading_policy(), []
    for n in SIZES:
        pools = [passages(n, seed=seed) for seed in range(POOLS)]
        work = [partial(_judged, texts, policy) for texts in pools]
        sides = {
            "never seen": per_call([partial(_forgetting, text) for text in work]),
            "split": per_call([partial(_split, texts) for texts in pools]),
            "remembered": _warmed(work),
        }
        interleave(sides, rounds=1)
        times = interleave(sides, rounds=effort.kernel_rounds)
        for name in ("never seen", "remembered"):
            figures.append(
                figure(
                    f"{n} × {WORDS} words, {name}",
                    Sides(times[name], times["split"]),
                    unit="ms",
                    against="str.split of each",
                    aims=AIMS.get((n, name), ()),
                )
            )
    yield section("text", "what texts add to a selection", figures)


def reading_policy() -> Policy:
    """What a user gets who sets nothing. Raises LookupError should texts not be looked at by default any more."""
    policy = default_policy()
    if policy.texts is None:
        raise LookupError("the default policy reads no texts: there is nothing to measure")
    return policy


def _warmed(work: Sequence[Callable[[], object]]) -> Callable[[], float]:
    """A round in which nothing is new: the round before it forgot everything."""
    timed = per_call(work)

    def run() -> float:
        for item in work:
            item()
        return timed()

    return run


def _forgetting(work: Callable[[], object]) -> object:
    forget()
    return work()


def _judged(raw: tuple[str, ...], policy: Policy) -> object:
    """The verdict on each text of a pool, whatever the page needs."""
    n = len(raw)
    candidates = Candidates(
        scores=np.linspace(1.0, 0.5, n),
        vectors=np.empty((n, 0), np.float32),
        metric=Metric.COSINE,
        metadata=Metadata(texts=as_texts(raw)),
    )
    return finished(Walk(candidates, policy).steps())


def _split(texts: tuple[str, ...]) -> object:
    return [text.split() for text in texts]
