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
from support.texts import as_texts, forget
from vecsieve.proxy.selection.policy import TextRules
from vecsieve.proxy.selection.text.matching import Matches, matches
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.values import Metadata, finished

SIZES = (50, 200)
POOLS = 6
AIMS = {(50, "never seen"): (Aim("ours", "<=", 1.5),), (50, "remembered"): (Aim("ours", "<=", 0.75),)}


def bench_text(effort: Effort) -> Iterator[Section]:
    """Per pool size two figures, in milliseconds a pool: all texts new, and all of them seen before."""
    rules, figures = text_rules(), []
    for n in SIZES:
        pools = [passages(n, seed=seed) for seed in range(POOLS)]
        work = [partial(_matched, texts, rules) for texts in pools]
        sides = {
            "never seen": per_call([partial(_forgetting, each) for each in work]),
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


def text_rules() -> TextRules:
    """What a user gets who sets nothing. Raises LookupError should texts not be looked at by default any more."""
    rules = default_policy().text
    if rules is None:
        raise LookupError("the default policy has no text rules: there is nothing to measure")
    return rules


def _warmed(work: Sequence[Callable[[], object]]) -> Callable[[], float]:
    """A round in which nothing is new: the round before it forgot everything."""
    timed = per_call(work)

    def run() -> float:
        for each in work:
            each()
        return timed()

    return run


def _forgetting(work: Callable[[], object]) -> object:
    forget()
    return work()


def _matched(raw: tuple[str, ...], rules: TextRules) -> Matches:
    texts = read(Metadata(texts=as_texts(raw)), rules)
    each = np.arange(len(texts), dtype=np.intp)
    return finished(matches(texts, each, each, ~np.eye(len(each), dtype=np.bool_), rules))


def _split(texts: tuple[str, ...]) -> object:
    return [text.split() for text in texts]
