"""Means over questions with intervals, and the tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from .scores import Score

RESAMPLES = 2_000
SEED = 7

Scores = Sequence[Score]


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One way to a page at one k: means over the questions. ``more``: by how much ``stated`` exceeds the plain page's, with its interval of 95 %. ``lost``,
    ``won``: whole answers that only the plain page has, or only this one. ``broken``: that both have, and only the plain page in single chunks. ``milliseconds``: that the client
    waited, the median and the 99th percentile; None where nothing was sent.
    """

    name: str
    recall: float
    precision: float
    iou: float
    stated: float
    more: tuple[float, float, float]
    lost: int
    won: int
    broken: int
    twice: float
    tokens: float
    milliseconds: tuple[float, float] | None

    @property
    def cells(self) -> tuple[str, ...]:
        mean, low, high = self.more
        seconds = "–" if self.milliseconds is None else "{:.1f} · {:.1f}".format(*self.milliseconds)
        return (
            *(self.name, f"{self.recall:.3f}", f"{self.precision:.3f}", f"{self.iou:.3f}", f"{self.stated:.3f}"),
            *(f"{mean:+.3f} ({low:+.3f} to {high:+.3f})", str(self.lost), str(self.won), str(self.broken)),
            *(f"{self.twice:.3f}", f"{self.tokens:.0f}", seconds),
        )


HEAD = (
    "way",
    "recall",
    "precision",
    "IoU",
    "said",
    "said − plain",
    "lost",
    "won",
    "in pieces",
    "read twice",
    "words",
    "ms, p50 · p99",
)


def row(name: str, scores: Scores, plain: Scores, seconds: Sequence[float]) -> Row:
    """``scores``, ``plain``: of the same questions in the same order. ``seconds``: that the client waited; () where nothing was sent."""
    return Row(
        name=name,
        recall=_mean([score.recall for score in scores]),
        precision=_mean([score.precision for score in scores]),
        iou=_mean([score.iou for score in scores]),
        stated=_mean([score.stated for score in scores]),
        more=interval(np.array([one.stated - other.stated for one, other in zip(scores, plain, strict=True)])),
        lost=sum(other.answered and not one.answered for one, other in zip(scores, plain, strict=True)),
        won=sum(one.answered and not other.answered for one, other in zip(scores, plain, strict=True)),
        broken=sum(
            other.unbroken and one.answered and not one.unbroken for one, other in zip(scores, plain, strict=True)
        ),
        twice=_mean([score.twice for score in scores]),
        tokens=_mean([score.tokens for score in scores]),
        milliseconds=(_percentile(seconds, 50), _percentile(seconds, 99)) if seconds else None,
    )


def interval(differences: npt.NDArray[np.float64]) -> tuple[float, float, float]:
    """The mean, and the 2.5th and 97.5th percentile of means of resampled questions."""
    rng = np.random.default_rng(SEED)
    means = differences[rng.integers(0, len(differences), (RESAMPLES, len(differences)))].mean(axis=1)
    low, high = np.percentile(means, [2.5, 97.5])
    return float(differences.mean()), float(low), float(high)


def table(title: str, rows: Sequence[Row]) -> str:
    """In Markdown."""
    lines = [f"### {title}", "", *("| " + " | ".join(cells) + " |" for cells in (HEAD, ("---",) * len(HEAD)))]
    return "\n".join([*lines, *("| " + " | ".join(entry.cells) + " |" for entry in rows), ""])


def by_corpora(scores: Mapping[str, Scores], corpora: Sequence[str], among: frozenset[str]) -> dict[str, list[Score]]:
    """The scores of the questions whose corpus is among these. ``corpora``: of each question."""
    return {
        name: [score for score, corpus in zip(score, corpora, strict=True) if corpus in among]
        for name, score in scores.items()
    }


def _percentile(seconds: Sequence[float], part: float) -> float:
    """In milliseconds."""
    return 1000 * float(np.percentile(seconds, part))


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))
