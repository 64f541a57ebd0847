"""`python -m quality.gates [DATA] [--policy NAME=PRESET …]`: whether a policy passes acceptance gates for a pipeline in front of a model.

DATA: a folder with labelled sets; without it a set with seeded copies. The exit code is 1 if a gate fails.

The gates and their limits are those of WFGY's page on duplicates. Where it leaves a definition open, it is one of these:

- collapse rate: the share of the candidates that left as copies, of those down to the page's last result: candidates behind a full page
  are not judged. Cutting 50 candidates to 8 results alone would score .84.
- unique documents: different documents / results of a page.
- sections: the share of a question's needs that the page covers. A need is covered whole by a result that is labelled with it, else by
  the largest share of such an item's token span that the results of its document cover together.
- questions: the share of questions with a relevant result.
- distance of meaning (delta S): 1 - cosine of the question and a result, of each page's best result.
- order stability: Jaccard index of a page's results before and after the items were stored in another order, which only equal scores
  may show. Items with the same vector, which a ranking cannot tell apart, count as one.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import orjson
from quality.seeded import seeded_set
from rich import box
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from vecsieve.config.problems import one_line
from vecsieve.proxy.jobs.evaluate.reading import Item, LabelledSet, Query, read_set, set_folders
from vecsieve.proxy.jobs.evaluate.searching import (
    Contender,
    Points,
    Trial,
    TrialOutcome,
    Upstream,
    contenders,
    neighbours,
)
from vecsieve.proxy.runtime.files import Advance, output_console, progress_bar, write_output
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.telemetry.tracing import Clock

SHUFFLES = 3  # orders of storage, beside the set's own


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Means over the questions of a set. ``delta_best``, ``delta_mean``: of each page's results. ``stability``: the lowest of all."""

    collapse: float
    documents: float
    sections: float
    questions: float
    delta_best: float
    delta_mean: float
    stability: float


@dataclass(frozen=True, slots=True)
class Gate:
    """A limit for one figure. ``is_most``: the figure must not be above it, else not below."""

    figure: str
    says: str
    of: Callable[[Figures], float]
    limit: float
    is_most: bool = False

    def passes(self, figures: Figures) -> bool:
        """NaN fails: nothing was measured."""
        value = self.of(figures)
        return value <= self.limit if self.is_most else value >= self.limit


GATES = (
    Gate("collapse", "collapse rate, down to the last result", lambda means: means.collapse, 0.35),
    Gate("documents", "unique documents by results", lambda means: means.documents, 0.60),
    Gate("sections", "coverage: sections", lambda means: means.sections, 0.70),
    Gate("questions", "coverage: questions with a relevant result", lambda means: means.questions, 0.70),
    Gate("delta_best", "distance of meaning, best result", lambda means: means.delta_best, 0.45, is_most=True),
    Gate("stability", "order stability, items stored in other orders", lambda means: means.stability, 1.0),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One policy on one set."""

    set: str
    policy: str
    queries: int
    figures: Figures

    @property
    def passed(self) -> bool:
        return all(gate.passes(self.figures) for gate in GATES)


def judged(
    labelled: LabelledSet, contender: Contender, *, top_k: int, every: int, seed: int, clock: Clock, advance: Advance
) -> Verdict:
    """The figures of every ``every``-th question. ``seed``: of the other orders. ``advance``: called for each question and order."""
    trial = Trial(top_k=top_k, clock=clock)
    outcomes = _pages(labelled, contender.policy, trial, every=every, advance=advance)
    rng = np.random.default_rng(seed)
    known = _kinds(labelled)
    stable = 1.0
    for _ in range(SHUFFLES):
        order = rng.permutation(len(labelled.items))
        again = _pages(_stored(labelled, order), contender.policy, trial, every=every, advance=advance)
        stable = min([stable, *(_alike(outcomes[number].rows, order[list(outcome.rows)].tolist(), known) for number, outcome in again.items())])  # fmt: skip
    rows = [_figures(labelled, number, outcome) for number, outcome in outcomes.items()]
    return Verdict(
        set=labelled.name,
        policy=contender.name,
        queries=len(rows),
        figures=Figures(**{name: _mean([row[name] for row in rows]) for name in rows[0]}, stability=stable),
    )


def _pages(
    labelled: LabelledSet, policy: ResolvedPolicy, trial: Trial, *, every: int, advance: Advance
) -> dict[int, TrialOutcome]:
    """The page of each question, by its number."""
    points = Points(labelled)
    outcomes: dict[int, TrialOutcome] = {}
    with asyncio.Runner() as runner:
        for number, ranking in neighbours(labelled, every=every):
            upstream = Upstream(points, ranking)
            outcomes[number] = runner.run(trial.search(policy, labelled.query_vectors[number], upstream))
            advance(1)
    return outcomes


def _figures(labelled: LabelledSet, number: int, outcome: TrialOutcome) -> dict[str, float]:
    query, rows = labelled.queries[number], outcome.rows
    distances = 1.0 - labelled.vectors[list(rows)].astype(np.float64) @ labelled.query_vectors[number].astype(
        np.float64
    )
    return {
        "collapse": len(outcome.dropped) / reached if (reached := len(rows) + len(outcome.dropped)) else math.nan,
        "documents": len({labelled.items[row].doc for row in rows}) / len(rows) if rows else math.nan,
        "sections": covered(query, rows, labelled.items),
        "questions": float(not query.relevant.isdisjoint(rows)),
        "delta_best": float(distances.min()) if rows else math.nan,
        "delta_mean": float(distances.mean()) if rows else math.nan,
    }


def _mean(values: Sequence[float]) -> float:
    """The mean of the values that are not NaN; NaN without any."""
    numbers = [value for value in values if not math.isnan(value)]
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


# Sections.

Span = tuple[float, float]


def covered(query: Query, rows: Sequence[int], items: Sequence[Item]) -> float:
    """The share of a question's needs that these results cover."""
    spans: dict[str, list[Span]] = {}
    for row in rows:
        span = _span(items[row])
        if span is not None:
            spans.setdefault(items[row].doc, []).append(span)
    shares = []
    for satisfying in query.subtopics.values():
        if not satisfying.isdisjoint(rows):
            shares.append(1.0)
            continue
        parts = ((_span(items[row]), spans.get(items[row].doc, [])) for row in satisfying)
        shares.append(max((overlap(span, others) for span, others in parts if span is not None), default=0.0))
    return math.fsum(shares) / len(shares)


def overlap(span: Span, others: Sequence[Span]) -> float:
    """The share of a non-empty span that the others cover together."""
    start, end = span
    total, at = 0.0, start
    for first, last in sorted(others):
        covers = min(last, end) - max(first, at)
        if covers > 0:
            total, at = total + covers, min(last, end)
    return total / (end - start)


def _span(item: Item) -> Span | None:
    """The item's tokens in its document; None if the payload names none."""
    try:
        start, end = (float(orjson.loads(item.payload[name])) for name in ("token_start", "token_end"))
    except (KeyError, TypeError, ValueError):
        return None
    return (start, end) if math.isfinite(start) and math.isfinite(end) and start < end else None


# Order stability.


def _stored(labelled: LabelledSet, order: np.ndarray) -> LabelledSet:
    """The same set with item ``order[i]`` in row i."""
    place = np.empty(len(order), np.intp)
    place[order] = np.arange(len(order))
    moved = place.tolist()

    def query(question: Query) -> Query:
        return replace(
            question,
            subtopics={name: frozenset(moved[row] for row in rows) for name, rows in question.subtopics.items()},
            relevant=frozenset(moved[row] for row in question.relevant),
            candidates=None if question.candidates is None else np.sort(place[question.candidates]),
        )

    return replace(
        labelled,
        items=tuple(labelled.items[row] for row in order.tolist()),
        vectors=labelled.vectors[order],
        queries=tuple(map(query, labelled.queries)),
    )


def _kinds(labelled: LabelledSet) -> Callable[[int], int]:
    """A number for each row, equal for rows with the same vector."""
    numbers: dict[bytes, int] = {}
    return [numbers.setdefault(row.tobytes(), len(numbers)) for row in labelled.vectors].__getitem__


def _alike(one: Sequence[int], other: Sequence[int], kind: Callable[[int], int]) -> float:
    """The Jaccard index of two pages; 1 for two empty ones."""
    first, second = set(map(kind, one)), set(map(kind, other))
    return len(first & second) / len(first | second) if first | second else 1.0


# Output for people and programs.


def report(verdicts: Sequence[Verdict]) -> RenderableType:
    return Group(*(part for verdict in verdicts for part in (_table(verdict), Text())))


def _table(verdict: Verdict) -> Table:
    title = Text(f"{one_line(verdict.set)}: {verdict.queries} questions, policy {one_line(verdict.policy)}")
    table = Table(box=box.HORIZONTALS, title=title, title_justify="left")
    table.add_column("gate")
    table.add_column("measured", justify="right")
    table.add_column("wanted", justify="right")
    table.add_column("")
    for gate in GATES:
        value, sign = gate.of(verdict.figures), "≤" if gate.is_most else "≥"
        table.add_row(
            gate.says, f"{value:.3f}", f"{sign} {gate.limit:.2f}", "pass" if gate.passes(verdict.figures) else "FAIL"
        )
    table.add_row("distance of meaning, all results", f"{verdict.figures.delta_mean:.3f}", "", "")
    return table


def as_json(verdicts: Sequence[Verdict], *, top_k: int, every: int, seed: int) -> Mapping[str, object]:
    """For orjson, which writes NaN as null."""
    return {
        "top_k": top_k,
        "every": every,
        "seed": seed,
        "passed": all(verdict.passed for verdict in verdicts),
        "verdicts": [
            {
                **asdict(verdict),
                "gates": {
                    gate.figure: {"limit": gate.limit, "is_most": gate.is_most, "passed": gate.passes(verdict.figures)}
                    for gate in GATES
                },
            }
            for verdict in verdicts
        ],
    }


def main(given: Sequence[str] | None = None) -> int:
    """Judge each policy on each set."""
    reader = argparse.ArgumentParser(prog="quality.gates", description=__doc__)
    reader.add_argument("data", nargs="?", type=Path)
    reader.add_argument("--policy", action="append", default=[], metavar="NAME=PRESET", help="or NAME=YAML; repeatable")
    reader.add_argument("--set", action="append", default=[], help="only this set; repeatable")
    reader.add_argument("--top-k", type=int, default=8)
    reader.add_argument("--every", type=int, default=1, help="only every n-th question")
    reader.add_argument("--seed", type=int, default=0, help="of the orders of storage")
    reader.add_argument("--json", type=Path, help="write the figures to this file")
    options = reader.parse_args(given)
    named = contenders(given=options.policy or ("default={}",))
    sets = [read_set(folder) for folder in set_folders(options.data, options.set)] if options.data else [seeded_set()]
    verdicts = []
    for labelled in sets:
        searches = len(range(0, len(labelled.queries), options.every)) * (1 + SHUFFLES)
        for contender in named:
            with progress_bar(one_line(f"{labelled.name}, {contender.name}"), searches) as advance:
                verdict = judged(
                    labelled, contender, top_k=options.top_k, every=options.every, seed=options.seed,
                    clock=time.perf_counter, advance=advance,
                )  # fmt: skip
            verdicts.append(verdict)
    output_console().print(report(verdicts))
    if options.json is not None:
        figures = as_json(verdicts, top_k=options.top_k, every=options.every, seed=options.seed)
        write_output("--json", options.json, orjson.dumps(figures, option=orjson.OPT_INDENT_2))
    return 0 if all(verdict.passed for verdict in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
