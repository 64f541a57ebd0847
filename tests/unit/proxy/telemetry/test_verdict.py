"""The verdict follows from the measured searches alone, decides only what its intervals decide, and says why."""

from __future__ import annotations

import random
from statistics import fmean

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.reports import FIGURES, REPORT
from vecsieve.proxy.telemetry.labels import FailOpen
from vecsieve.proxy.telemetry.verdict import LEAST_PAGES, Decision, Estimate, Measured, Plain, measured_rows, verdict_of

PAGE = Measured("docs", is_warm=True, results=8, fetched_bytes=36_000, plain_bytes=7_000, added_ms=4.0, plain_ms=12.0)
CHANGED = PAGE._replace(changed=True, proven=2, arrived=2, tokens=240)
FAILED = Measured("docs", is_warm=False, failed="overfetch_timeout")


def pages(changed: int, of: int) -> list[Measured]:
    return [CHANGED] * changed + [PAGE] * (of - changed)


def test_go_names_pages_repeats_and_time() -> None:
    verdict = verdict_of(pages(30, 50))
    assert verdict.sentence == (
        "Go: mode on would change 60 % (46 to 72) of pages: 1.2 of 8 results are repeats, and it adds 4.0 ms (4.0 to 4.0) to a search."
    )
    assert dict(verdict.details) == {
        "measured": "50 pages, 50 with warm caches, after the clients had their answers",
        "pages changed": "60 % (46 to 72)",
        "repeats removed": "1.2 (0.9 to 1.5) a page proven by texts, 0.0 (0.0 to 0.6) judged",
        "results that came in": "1.2 (0.9 to 1.5) a page of 8",
        "time added to a search": "warm 4.0 ms (4.0 to 4.0), cold too few to say; it takes 12.0 ms now",
        "bytes": "36.0 (36.0 to 36.0) kB a search from the database, 7.0 kB now",
        "tokens saved": "about 144 (111 to 177) a page, of repeats",
    }


@pytest.mark.parametrize(
    ("rows", "decision", "words"),
    [
        ([], Decision.NOT_YET, "0 of at least 20 pages are measured."),
        (pages(10, LEAST_PAGES - 1), Decision.NOT_YET, "19 of at least 20"),
        (pages(0, 50), Decision.NOT_YET, "0 % (0 to 7) of pages. 5 % decide"),
        (pages(0, 100), Decision.NO_GO, "0 % (0 to 4) of pages: there is next to nothing to remove"),
        (pages(4, 50), Decision.NOT_YET, "8 % (3 to 19) of pages. 5 % decide"),
        ([row._replace(added_ms=48.0) for row in pages(30, 50)], Decision.NO_GO, "add 48.0 ms (48.0 to 48.0) to a search, which takes 12.0"),
        ([row._replace(added_ms=48.0, plain_ms=60.0) for row in pages(30, 50)], Decision.GO, "adds 48.0 ms"),
        ([row._replace(added_ms=None) for row in pages(30, 50)], Decision.GO, "too few are measured to say"),
        ([*pages(30, 50), *[FAILED] * 10], Decision.NO_GO, "10 of 60 measurements failed, most often by overfetch_timeout"),
        ([row._replace(proven=0, judged=row.proven) for row in pages(30, 50)], Decision.GO, "check some under Doubtful"),
    ],
)  # fmt: skip
def test_what_is_measured_decides(rows: list[Measured], decision: Decision, words: str) -> None:
    verdict = verdict_of(rows)
    assert (verdict.decision, words in verdict.sentence) == (decision, True), verdict.sentence


def test_a_few_failures_are_figures_and_do_not_decide() -> None:
    verdict = verdict_of([*pages(30, 50), FAILED])
    assert (verdict.decision, verdict.pages) == (Decision.GO, 50)
    assert verdict.details[-1] == ("failed", "1 overfetch_timeout")
    assert verdict.line.endswith("Failed: 1 overfetch_timeout.")


def test_cold_and_warm_times_stay_apart_and_warm_decides() -> None:
    cold = [row._replace(is_warm=False, added_ms=40.0) for row in pages(10, 20)]
    verdict = verdict_of([*pages(30, 50), *cold])
    assert (verdict.warm_ms, verdict.cold_ms) == (Estimate(4.0, 4.0, 4.0), Estimate(40.0, 40.0, 40.0))
    assert verdict.decision is Decision.GO
    assert verdict_of([*cold, *cold]).decision is Decision.NO_GO


def test_a_measurement_of_a_batch_is_a_row_a_search_with_one_time() -> None:
    report = REPORT._replace(figures=(FIGURES._replace(changed=True, proven=2, short=1), FIGURES))
    first, second = measured_rows(report, FailOpen.INTERNAL, Plain(0.004, 1000), collection="docs", is_warm=True)
    assert (first.results, first.changed, first.proven, first.plain_ms) == (FIGURES.returned + 1, True, 2, 4.0)
    assert first.added_ms == pytest.approx(7.4)
    assert (second.added_ms, second.plain_ms, second.plain_bytes) == (None, None, 500)
    (slowed, _) = measured_rows(report, FailOpen.INTERNAL, Plain(None, 1000), collection="docs", is_warm=True)
    assert (slowed.added_ms, slowed.changed) == (None, True)
    assert first.fetched_bytes + second.fetched_bytes == REPORT.overfetch_bytes


ROWS = st.lists(
    st.builds(
        Measured,
        st.just("docs"),
        is_warm=st.booleans(),
        failed=st.sampled_from([None, None, None, "breaker"]),
        results=st.integers(0, 20),
        changed=st.booleans(),
        proven=st.integers(0, 20),
        judged=st.integers(0, 5),
        arrived=st.integers(0, 20),
        tokens=st.integers(0, 10_000),
        fetched_bytes=st.floats(0, 1e6),
        added_ms=st.none() | st.floats(-50, 500),
        plain_ms=st.none() | st.floats(0, 500),
    ),
    max_size=60,
)


@given(ROWS.map(lambda rows: [row._replace(proven=min(row.proven, row.results)) for row in rows]))
def test_every_estimate_is_within_its_interval(rows: list[Measured]) -> None:
    verdict = verdict_of(rows)
    for estimate in (
        verdict.changed,
        verdict.proven,
        verdict.tokens,
        verdict.fetched_bytes,
        verdict.warm_ms,
        verdict.cold_ms,
    ):
        assert estimate is None or estimate.low - 1e-6 <= estimate.value <= estimate.high + 1e-6
    assert verdict.line.startswith(verdict.sentence)


def test_intervals_hold_what_is_true_in_nineteen_of_twenty_samples() -> None:
    """Of traffic whose pages have many repeats or none, so that results of one page depend on each other."""
    draw = random.Random(7)
    traffic = [
        row._replace(proven=draw.choice([2, 4, 6]), added_ms=draw.lognormvariate(1, 1)) if row.changed else row
        for row in pages(300, 1000)
    ]
    truth = fmean(row.proven for row in traffic), fmean(row.changed for row in traffic)
    hits, runs = [0, 0], 400
    for _ in range(runs):
        verdict = verdict_of(draw.sample(traffic, 60))
        hits[0] += verdict.proven.low <= truth[0] <= verdict.proven.high
        hits[1] += verdict.changed.low <= truth[1] <= verdict.changed.high
    assert min(hits) >= 0.92 * runs, hits
