"""The page of a sweep says what the report says, and lets nothing of the collection out of its place."""

from __future__ import annotations

from dataclasses import replace

import pytest

from vecsieve.proxy.jobs.pages import as_html, as_json
from vecsieve.proxy.jobs.sweep.report import FORMAT, Family, Member, Report, page_of

HOSTILE = "<script>alert(1)</script> \ud800"


def report(**changed: object) -> Report:
    survivor = Member(id=7, evidence=None, similarity=None, text="grüße")
    member = Member(id=HOSTILE, evidence="equal", similarity=0.98761, text=HOSTILE, differs=(HOSTILE,))
    usual = Report(
        format=FORMAT,
        version="1",
        collection="<docs>",
        vector_name="dense",
        dimension=8,
        distance="Cosine",
        points=12345,
        gone=0,
        with_vector=12345,
        with_text=12000,
        keep="newest",
        ignored=("at",),
        united=False,
        candidates=5000,
        pairs=4000,
        repeats=1511,
        redundant=1200,
        equal=1111,
        contained=77,
        equal_vector=12,
        other_facts=222,
        fields={"file": 222},
        searched=89,
        families=999,
        largest=17,
        redundant_bytes=3_400_000,
        examples=(Family(size=17, survivor=survivor, members=(member,)),),
        left=(),
    )
    return replace(usual, **changed)  # type: ignore[arg-type]  # - members by name


def test_the_page_has_the_figures_of_the_report() -> None:
    page = as_html(page_of(report())).decode()
    for text in (
        "12,345",
        "1,511",
        "1,200",
        "999",
        "3.4 MB",
        "1,111",
        "222",
        "89",
        "equal or contained but for metadata",
        "left alone though a search would collapse it",
        "nothing was deleted",
        "equal, but for",
        "0.9876",
        "grüße",
    ):
        assert text in page


def test_what_is_the_collections_own_is_text_and_nothing_else() -> None:
    page = as_html(page_of(report())).decode()
    assert "<script" not in page
    assert "<docs>" not in page
    assert page.count("&lt;script&gt;alert(1)&lt;/script&gt; \\ud800") == 3
    assert "default-src 'none'" in page


@pytest.mark.parametrize("applied", [None, {"deleted": 1000, "gone": 3, "changed": 2, "alone": 195}])
def test_what_became_of_the_points_is_in_both(applied: dict[str, int] | None) -> None:
    page, text = (
        as_html(page_of(report(applied=applied))).decode(),
        as_json(report(applied=applied, examples=())).decode(),
    )
    assert ("1,000 were deleted" in page) is (applied is not None)
    assert ('"alone": 195' in text) is (applied is not None)
