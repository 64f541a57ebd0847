"""What all questions together show, and what the detour costs: plain arithmetic over comparisons and waiting times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from vecsieve.proxy.demo.comparison import Comparison, CopyOf
from vecsieve.proxy.demo.store import Answer
from vecsieve.proxy.selection.values import Link


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """Pairs are (directly, through VecSieve). ``results``: how many were returned directly over all questions.

    ``with_repeats``: questions with a result that repeats one above it. ``left_out``: per link how many direct results
    another stands for, ``beyond``: how many of those repeat nothing by the yardstick. ``kept_apart``: repeats in the
    proxy's answers that a guard says are none.
    """

    questions: int
    results: int
    by_vector: tuple[int, int]
    by_wording: tuple[int, int]
    by_either: tuple[int, int]
    with_repeats: tuple[int, int]
    changed: int
    first_kept: int
    left_out: Mapping[Link, int]
    beyond: int
    kept_apart: int

    @property
    def unchanged(self) -> int:
        """Questions whose two answers are the same."""
        return self.questions - self.changed


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """Medians over ``rounds`` pairs of calls, as the client waits."""

    rounds: int
    direct_milliseconds: float
    proxied_milliseconds: float

    @property
    def added_milliseconds(self) -> float:
        """The difference of the medians."""
        return self.proxied_milliseconds - self.direct_milliseconds


def summarise(comparisons: Sequence[Comparison]) -> Summary:
    """Add up; no comparisons give zeros."""
    direct = [comparison.direct.counts for comparison in comparisons]
    proxied = [comparison.proxied.counts for comparison in comparisons]
    notes = [note for comparison in comparisons for each in comparison.direct.notes for note in each]
    return Summary(
        questions=len(comparisons),
        results=sum(counts.results for counts in direct),
        by_vector=(sum(counts.by_vector for counts in direct), sum(counts.by_vector for counts in proxied)),
        by_wording=(sum(counts.by_wording for counts in direct), sum(counts.by_wording for counts in proxied)),
        by_either=(sum(counts.by_either for counts in direct), sum(counts.by_either for counts in proxied)),
        with_repeats=(sum(counts.by_either > 0 for counts in direct), sum(counts.by_either > 0 for counts in proxied)),
        changed=sum(comparison.changed for comparison in comparisons),
        first_kept=sum(comparison.first_kept for comparison in comparisons),
        left_out=Counter(note.link for note in notes if isinstance(note, CopyOf)),
        beyond=sum(counts.beyond for counts in direct),
        kept_apart=sum(counts.kept_apart for counts in proxied),
    )


def timing(pairs: Sequence[tuple[Answer, Answer]]) -> Timing:
    """From pairs of a direct and a proxied call, at least one."""
    return Timing(
        rounds=len(pairs),
        direct_milliseconds=median(direct.milliseconds for direct, _ in pairs),
        proxied_milliseconds=median(proxied.milliseconds for _, proxied in pairs),
    )
