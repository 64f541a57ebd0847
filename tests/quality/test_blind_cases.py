"""Cases that were written without a look at the judge's code: no result that must stay is lost, and few copies stay.

Each file was run once before anything was mended; since then it is a test like others. versions.jsonl: manuals of one product in many versions, which
differ in one value or step (the kind of VersionRAG): on first contact none was lost, and no copy stayed.
"""

from __future__ import annotations

import time
from functools import cache
from pathlib import Path

import pytest

from vecsieve.proxy.jobs.evaluate.cases import CaseOutcome, judged, read_cases
from vecsieve.proxy.jobs.evaluate.searching import contenders

FILES = sorted((Path(__file__).parent / "cases").glob("*.jsonl"))
# Of the copies in a file, the share that may stay in one of the two orders of their texts.
MOST_STAYING = 0.5


@cache
def outcomes(file: Path, policy: str) -> tuple[CaseOutcome, ...]:
    (contender,) = contenders(given=(policy,))
    return judged(read_cases(file), contender, clock=time.perf_counter, advance=lambda _: None)


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
@pytest.mark.parametrize("preset", ["default={}", "exact=exact", "meaning=meaning", "exchange={overlap: exchange}"])
def test_no_result_that_must_stay_is_lost(file: Path, preset: str) -> None:
    lost = [f"{outcome.case.kind}, {outcome.case.name}" for outcome in outcomes(file, preset) if outcome.loses]
    assert not lost


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_most_copies_leave(file: Path) -> None:
    results = outcomes(file, "default={}")
    copies = sum(result.case.copies for result in results)
    assert copies > 20
    staying = sum(min(len(page.stayed) for page in result.pages) for result in results)
    assert staying <= MOST_STAYING * copies
