"""The acceptance gates: their figures worked out by hand, and the mistakes that each of them is there to catch."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from quality import gates
from quality.gates import GATES, Figures, Gate, Verdict, judged, main, overlap
from quality.seeded import seeded_set

from support.jobs.labelled_folders import BY_TEXT, BY_VECTORS, labelled_folder
from vecsieve.proxy.jobs.evaluate.reading import Item, LabelledSet, Query, read_set, unit
from vecsieve.proxy.jobs.evaluate.searching import contenders

PASSING = Figures(
    collapse=0.35, documents=0.6, sections=0.7, questions=0.7, delta_best=0.45, delta_mean=0.9, stability=1.0
)

UNFILLED = BY_TEXT.replace("short: fill", "short: allow")


def verdict(labelled: LabelledSet, policy: str, *, top_k: int = 3) -> Verdict:
    (contender,) = contenders(given=(f"own={policy}",))
    return judged(labelled, contender, top_k=top_k, every=1, seed=0, clock=time.perf_counter, advance=lambda _: None)


def item(text: str, *, doc: str = "d", atom: str = "x", **payload: Any) -> Item:
    fields = {"text": text, "doc_id": doc, **payload}
    return Item(doc=doc, atoms=(atom,), payload={name: orjson.dumps(value) for name, value in fields.items()})


def labelled(items: Sequence[Item], vectors: Sequence[Sequence[float]], needs: Sequence[Sequence[int]]) -> LabelledSet:
    """One question along the first axis. ``needs``: the rows that satisfy each."""
    subtopics = {f"need {number}": frozenset(rows) for number, rows in enumerate(needs)}
    query = Query(subtopics=subtopics, relevant=frozenset().union(*subtopics.values()), candidates=None)
    questions = np.eye(1, len(vectors[0]), dtype=np.float32)
    matrix = unit(np.array(vectors, np.float32))
    return LabelledSet(name="s", items=tuple(items), queries=(query,), vectors=matrix, query_vectors=questions)


def near(number: int, width: int = 64, *, step: float = 0.35) -> list[float]:
    """A vector near the first axis, and no nearer to others than to it."""
    row = [0.0] * width
    row[0], row[number + 1] = 1.0, step + number / 1000
    return row


# The limits.


def test_the_limits_are_those_of_the_page_they_come_from() -> None:
    assert {gate.figure: gate.limit for gate in GATES} == {
        "collapse": 0.35,
        "documents": 0.60,
        "sections": 0.70,
        "questions": 0.70,
        "delta_best": 0.45,
        "stability": 1.0,
    }


@pytest.mark.parametrize("gate", GATES, ids=lambda gate: gate.figure)
def test_a_figure_at_its_limit_passes_and_one_beyond_does_not(gate: Gate) -> None:
    beyond = gate.limit + 1e-6 if gate.is_most else gate.limit - 1e-6
    assert gate.passes(PASSING)
    assert not gate.passes(replace(PASSING, **{gate.figure: beyond}))
    assert not gate.passes(replace(PASSING, **{gate.figure: math.nan})), "nothing was measured"


def test_one_failed_gate_fails_the_policy() -> None:
    passing = Verdict(set="s", policy="p", queries=1, figures=PASSING)
    assert passing.passed
    assert not replace(passing, figures=replace(PASSING, questions=0.69)).passed


# The figures.


def test_the_figures_of_a_small_set(tmp_path: Path) -> None:
    ruling = verdict(read_set(labelled_folder(tmp_path / "tiny")), BY_VECTORS)
    figures = ruling.figures
    assert ruling.queries == 2
    assert figures.collapse == pytest.approx(1 / 8), (
        "one of the four candidates down to the last result, and none of three"
    )
    assert figures.documents == pytest.approx(2 / 3), "documents one, one, three | three, one, one"
    assert figures.questions == 1.0
    assert figures.delta_best == pytest.approx(0.0, abs=1e-3)


def test_what_a_page_has_no_room_for_has_not_collapsed() -> None:
    """Cutting 40 different candidates to 4 collapses nothing."""
    items = [item(f"text number {'abcdefgh'[n % 8] * (n + 1)}", doc=f"d{n}") for n in range(40)]
    ruling = verdict(labelled(items, [near(n) for n in range(40)], [[0]]), "{texts: none}", top_k=4)
    assert ruling.figures.collapse == 0.0
    assert not ruling.passed


@pytest.mark.parametrize(
    ("span", "others", "share"),
    [
        ((0, 10), [], 0.0),
        ((0, 10), [(0, 10)], 1.0),
        ((0, 10), [(-5, 3)], 0.3),
        ((0, 10), [(0, 4), (2, 6)], 0.6),
        ((0, 10), [(8, 20), (0, 4)], 0.6),
        ((0, 10), [(0, 9), (1, 2)], 0.9),
        ((0, 10), [(10, 20), (-9, 0)], 0.0),
    ],
)
def test_spans_that_overlap_count_once(span: gates.Span, others: list[gates.Span], share: float) -> None:
    assert overlap(span, others) == pytest.approx(share)


def test_a_page_that_depends_on_the_order_of_equal_scores_is_not_stable() -> None:
    """Two items score alike and are no copies; the page has room for one of them."""
    vectors = [[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.6, 0.0, 0.8]]
    items = [item(f"{word} of its own", doc=word) for word in ("first", "second", "third")]
    assert verdict(labelled(items, vectors, [[0]]), "{texts: none}", top_k=2).figures.stability < 1.0


def test_items_that_no_ranking_can_tell_apart_count_as_one() -> None:
    vectors = [[1.0, 0.0], [0.6, 0.8], [0.6, 0.8]]
    items = [item(word, doc=word) for word in ("first", "second", "third")]
    assert verdict(labelled(items, vectors, [[0]]), BY_VECTORS, top_k=2).figures.stability == 1.0


# What the gates are there to catch.

WORDS = (
    "the valve of the pump opens when pressure in the second chamber falls below the limit that was set at the panel"
)


def with_drift(text: str, number: int) -> str:
    """Soft hyphens, and a header that differs from page to page."""
    return f"Manual of the plant | page {number}\n" + text.replace("pressure", "pres\u00adsure").replace(
        "chamber", "cham\u00adber"
    )


def test_soft_hyphens_and_drifting_headers_do_not_hide_copies() -> None:
    """A title beside a page number tells where a text stands."""
    long = f"{WORDS}, and it closes again as soon as both gauges of the inner circuit have shown the same reading for a minute"
    others = [
        f"the walls of room {word} are to be painted in the colour of {word} sand again" for word in ("oak", "elm")
    ]
    texts = [long, with_drift(long, 3), *(with_drift(text, page) for page, text in enumerate(others, 14))]
    items = [item(text, doc=str(number)) for number, text in enumerate(texts)]
    vectors = [near(number, step=0.1) for number in range(4)]
    assert verdict(labelled(items, vectors, [[0]]), BY_TEXT, top_k=3).figures.collapse == pytest.approx(0.25)


def test_ids_of_sections_that_change_with_each_build_do_not_hide_copies() -> None:
    texts = [WORDS] * 4 + [
        f"{word} is another matter of its own in the plant" for word in ("paint", "water", "light", "sound")
    ]
    items = [item(text, doc=str(n), section_id=f"div[{n * 7}]/p[{n}]") for n, text in enumerate(texts)]
    vectors = [near(n, step=0.1 if n < 4 else 0.9) for n in range(8)]
    ruling = verdict(labelled(items, vectors, [[0]]), UNFILLED, top_k=2)
    assert ruling.figures.collapse == pytest.approx(0.6)


def test_a_page_is_the_same_whichever_spelling_of_a_text_came_first() -> None:
    """Neither case nor layout of plain words decides who stays beside whom."""
    spelled = [WORDS, WORDS.upper(), WORDS.replace(" ", "\n"), with_drift(WORDS, 0).partition("\n")[2]]
    pages = [
        verdict(
            labelled(
                [item(text, doc=str(number)) for number, text in enumerate(spelled[turn:] + spelled[:turn])],
                [near(number, step=0.1) for number in range(4)],
                [range(4)],
            ),
            UNFILLED,
            top_k=2,
        ).figures
        for turn in range(4)
    ]
    assert {page.collapse for page in pages} == {0.75}


def test_several_wordings_of_one_question_find_the_same_passages() -> None:
    """A question is often replaced by made-up answers to it. Each finds another copy; without copies all find the same families."""
    items = [
        item(f"{WORDS} {'xyz'[family] * 9}", doc=f"{family}.{copy}", atom=str(family))
        for family in range(3)
        for copy in range(3)
    ]
    rng = np.random.default_rng(3)
    rows = np.repeat(np.eye(3, 32, dtype=np.float32) + 0.4, 3, axis=0) + rng.normal(scale=1e-3, size=(9, 32)).astype(
        np.float32
    )
    needs = {str(family): frozenset(range(family * 3, family * 3 + 3)) for family in range(3)}
    query = Query(subtopics=needs, relevant=frozenset(range(9)), candidates=None)
    wordings = unit(rows[[0, 4, 8]])
    whole = LabelledSet(name="s", items=tuple(items), queries=(query,) * 3, vectors=unit(rows), query_vectors=wordings)
    assert verdict(whole, BY_VECTORS).figures.sections == 1.0


def test_collapsing_by_document_alone_loses_sections_and_does_not_pass() -> None:
    """One result a document makes the first two gates happy, and drops three of four sections that were asked for."""
    items = [item(f"{WORDS} in part {'abcd'[part] * 5}", doc="manual", atom=str(part)) for part in range(4)]
    items += [item(f"{word * 6} is of no use", doc=word, atom=word) for word in ("one", "two", "six")]
    whole = labelled(
        items,
        [*(near(n, step=0.5) for n in range(4)), *(near(n + 8, step=0.8) for n in range(3))],
        [[0], [1], [2], [3]],
    )
    ruling = verdict(whole, "{texts: none, caps: {per_document: 1}, short: allow, threshold: {fixed: 0.0}}", top_k=4)
    assert ruling.figures.documents == 1.0
    assert ruling.figures.sections == 0.25
    assert not ruling.passed


# What is told.


def test_the_gates_decide_about_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = labelled_folder(tmp_path / "data" / "first").parent
    assert main([str(folder), "--policy", f"own={BY_VECTORS}", "--top-k", "3"]) == 1
    out = capsys.readouterr().out
    assert "first: 2 questions, policy own" in out
    assert "FAIL" in out


def test_the_default_policy_passes_with_seeded_copies_and_writes_it(tmp_path: Path) -> None:
    written = tmp_path / "gates.json"
    assert main(["--every", "10", "--json", str(written)]) == 0
    content = orjson.loads(written.read_bytes())
    assert content["passed"] is True
    assert [(row["set"], row["policy"], row["queries"]) for row in content["verdicts"]] == [("seeded", "default", 10)]


def test_a_policy_that_collapses_nothing_does_not_pass() -> None:
    assert main(["--every", "20", "--policy", "nothing={texts: none}"]) == 1


# The set with seeded copies: a hundred questions, each with four items that answer it.


@pytest.fixture(scope="module")
def seeded() -> LabelledSet:
    return seeded_set()


def texts(seeded: LabelledSet, number: int) -> list[str]:
    return [orjson.loads(seeded.items[row].payload["text"]) for row in sorted(seeded.queries[number].relevant)]
