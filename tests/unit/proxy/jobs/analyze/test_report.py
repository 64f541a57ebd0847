"""The report's JSON: keys that stay, what is unknown is null, the same bytes each time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.analyses import planted, report
from support.jobs.memory_source import families, points
from vecsieve.proxy.jobs.analyze.report import FEW, cautions, conclusions, percent
from vecsieve.proxy.jobs.pages import as_json
from vecsieve.proxy.jobs.source import Point

KEYS = {
    "": "format version about repeats families sources saving overlap",
    "about": "collection vector_name dimension distance points examined with_vector with_text gone text_fields source_fields",
    "repeats": "points equal contained edited vectors",
    "families": "count largest saturated sizes examples",
    "families.sizes.0": "smallest largest families points",
    "families.examples.0": "size equal leader members",
    "families.examples.0.leader": "id source evidence text",
    "families.examples.0.members.0": "id source evidence text",
    "sources": "distinct rows",
    "sources.rows.0": "name points repeated copied",
    "saving": "searches top_k results repeats by_repeats filled",
}


def at(tree: object, way: str) -> object:
    for step in filter(None, way.split(".")):
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]  # type: ignore[index]  # - a JSON tree
    return tree


def test_the_keys_are_these_and_in_this_order() -> None:
    tree = json.loads(as_json(report()))
    for way, keys in KEYS.items():
        member = at(tree, way)
        assert isinstance(member, dict)
        assert list(member) == keys.split(), way
    assert tree["format"] == 2


def test_what_is_unknown_is_null_and_never_zero() -> None:
    bare = [Point(id=point.id, vector=None, payload={}) for point in planted()]
    tree = json.loads(as_json(report(bare)))
    assert tree["sources"] is None
    assert tree["overlap"] is None
    assert json.loads(as_json(report()))["families"]["examples"][0]["leader"]["evidence"] is None


def test_only_a_part_that_was_looked_at_is_a_sample() -> None:
    assert report(limit=10).sampled
    assert not report().sampled
    assert not report(limit=10_000).sampled


def test_numbers_beyond_53_bits_and_uuids_stay_what_they_are() -> None:
    points = [Point(id=2**63 + 1 + place, vector=planted()[0].vector, payload={}) for place in range(3)]
    leader = json.loads(as_json(report(points)))["families"]["examples"][0]["leader"]
    assert leader["id"] in {2**63 + 1, 2**63 + 2, 2**63 + 3}


# The report in sentences: true to its figures, and honest about what they are not.


@pytest.mark.parametrize(
    ("part", "whole", "written"),
    [
        (0, 0, "-"),
        (0, 9, "0 %"),
        (1, 1000, "<1 %"),
        (1, 100, "1 %"),
        (999, 1000, ">99 %"),
        (99, 100, "99 %"),
        (5, 5, "100 %"),
    ],
)
def test_a_share_never_rounds_some_to_none_or_to_all(part: int, whole: int, written: str) -> None:
    assert percent(part, whole) == written


@given(st.integers(1, 10**9), st.data())
def test_none_and_all_are_said_of_none_and_all_only(whole: int, data: st.DataObject) -> None:
    """0 % and 100 % are exact; everything else is within half a per cent or says on which side of it."""
    part = data.draw(st.integers(0, whole))
    assert (percent(part, whole) == "0 %") == (part == 0)
    assert (percent(part, whole) == "100 %") == (part == whole)


def test_the_figures_stand_in_sentences() -> None:
    sentences = conclusions(report())
    assert sentences[0] == "24 of 50 points (48 %) say nothing that another point does not: 24 contained in one other."
    assert "repeats on average" in sentences[1]
    assert sentences[-1].startswith(
        "What to do: 24 points are copies by their texts. Do not load them again, or delete them with vecsieve sweep"
    )
    sampled = conclusions(report(limit=10))
    assert "of 10 points" in sampled[0]
    assert "have another that says all of them" in sampled[0]


def test_edited_copies_are_not_called_sure() -> None:
    one = " ".join(f"The depot in the {place} sends parcels by van and closes on all days." for place in "abcdefgh")
    texts = [{"text": one}, {"text": one.replace("van and", "van &", 1)}, {"text": one}]
    sentences = conclusions(report(points(families(1, 3), texts)))
    assert sentences[0].endswith(": 1 equal, 1 edited copies.")
    assert "The other 1 differ in something" in sentences[-1]


def test_a_clean_collection_has_nothing_to_deduplicate() -> None:
    sentences = conclusions(report(points(families(60, 1))))
    assert sentences[0] == "No point is wholly said by another: there is nothing to deduplicate."
    assert sentences[1] == "Of 60 searches around stored points, none has a repeat among its first 8 results."
    assert len(sentences) == 2


def test_the_source_that_stands_in_another_is_named_with_both_shares() -> None:
    payloads = [
        {"text": f"This is rule {place // 2}.", "source": "whole" if place % 2 == 0 else "part"}
        for place in range(2 * FEW)
    ]
    stored = points(families(FEW, 2), payloads)
    stored += [
        Point(id=1000 + place, vector=vector, payload={"text": f"own {place}", "source": "whole"})
        for place, vector in enumerate(families(FEW, 1, seed=11))
    ]
    assert "100 % of part is repeated in whole (50 % in the other direction)." in conclusions(report(stored))


def test_a_source_of_few_points_is_not_judged() -> None:
    assert not [
        sentence for sentence in conclusions(report()) if "stands in" in sentence or "repeats itself" in sentence
    ]


def test_a_source_that_repeats_itself_is_named() -> None:
    payloads = [{"text": f"This is rule {place // 2}.", "source": "mill"} for place in range(40)]
    assert "mill repeats itself: 100 % of it is repeated in the same source." in conclusions(
        report(points(families(20, 2), payloads))
    )


def test_small_sources_together_are_no_source_that_repeats_itself() -> None:
    payloads = [{"text": f"This is rule {place // 2}.", "source": f"page {place}"} for place in range(80)]
    assert not [
        sentence for sentence in conclusions(report(points(families(40, 2), payloads))) if "repeats itself" in sentence
    ]


def test_a_good_reading_of_everything_calls_for_no_caution() -> None:
    assert cautions(report()) == ()


def test_each_caution_says_what_is_missing_and_what_would_help() -> None:
    sentences = cautions(report(text_field="body", source_field="origin"))
    assert sentences[0].startswith("No text under body")
    assert "--text-field" in sentences[0]
    assert sentences[1].startswith("No source under origin")
    assert "--source-field" in sentences[1]
    sampled = cautions(report(limit=10))
    assert sampled[0].startswith("A sample of 10 of 50 points")
    assert "--limit" in sampled[0]
    crowd = cautions(report(points(families(1, 40), [{"text": "The same words."}] * 40), limit=40))
    assert [caution for caution in crowd if caution.startswith("40 points are repeated by all of the 20 neighbours")]
    bare = [Point(id=point.id, vector=None, payload=point.payload) for point in planted()]
    assert cautions(report(bare))[0].startswith("50 points have no vector of this name")


@pytest.mark.parametrize(
    ("step", "share", "is_much"), [(80, "20 %", False), (51, "49 %", False), (50, "50 %", True), (10, "90 %", True)]
)
def test_the_overlap_of_chunks_is_told_and_much_of_it_warned_of(step: int, share: str, is_much: bool) -> None:
    chunks = [
        replace(
            point,
            payload={**point.payload, "doc_id": "d", "token_start": place * step, "token_end": place * step + 100},
        )
        for place, point in enumerate(points(families(40, 1)))
    ]
    (overlap,) = [sentence for sentence in conclusions(report(chunks)) if "Neighbouring chunks" in sentence]
    assert overlap.startswith(f"Neighbouring chunks share {share} of the shorter one (39 pairs).")
    assert ("A smaller overlap" in overlap) is is_much
