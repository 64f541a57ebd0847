"""The report's JSON: keys that stay, what is unknown is null, the same bytes each time."""

from __future__ import annotations

import json

from support.analyzed import planted, report
from vecsieve.proxy.jobs.analyze.report import as_json
from vecsieve.proxy.jobs.source import Point

KEYS = {
    "": "format version about cut exact near families sources density saving overlap",
    "about": "collection vector_name dimension distance points examined with_vector with_text gone text_fields source_fields",
    "cut": "value origin relative median pools",
    "exact": "with_copy redundant",
    "near": "with_copy redundant",
    "families": "count largest saturated sizes examples",
    "families.sizes.0": "smallest largest families points",
    "families.examples.0": "size exact leader members",
    "families.examples.0.leader": "id source distance exact text",
    "families.examples.0.members.0": "id source distance exact text",
    "sources": "distinct rows",
    "sources.rows.0": "name points with_copy copied",
    "density.0": "cut with_copy redundant",
    "saving": "searches top_k results copies by_copies filled",
}


def at(tree: object, way: str) -> object:
    for step in filter(None, way.split(".")):
        tree = tree[int(step)] if isinstance(tree, list) else tree[step]  # type: ignore[index]  # - a JSON tree
    return tree


def test_the_keys_are_these_and_in_this_order() -> None:
    tree = json.loads(as_json(report()))
    for way, keys in KEYS.items():
        found = at(tree, way)
        assert isinstance(found, dict)
        assert list(found) == keys.split(), way
    assert tree["format"] == 1


def test_the_same_collection_gives_the_same_bytes() -> None:
    assert as_json(report()) == as_json(report())
    assert as_json(report()).endswith(b"}\n")


def test_what_is_unknown_is_null_and_never_zero() -> None:
    tree = json.loads(as_json(report(limit=10)))
    assert tree["near"]["redundant"] is None
    assert {each["redundant"] for each in tree["density"]} == {None}
    bare = [Point(id=each.id, vector=None, payload={}) for each in planted()]
    tree = json.loads(as_json(report(bare, cut=None)))
    assert tree["sources"] is None
    assert tree["overlap"] is None
    assert (tree["cut"]["median"], tree["cut"]["relative"]) == (None, None)


def test_only_a_part_that_was_looked_at_is_a_sample() -> None:
    assert report(limit=10).sampled
    assert not report().sampled
    assert not report(limit=10_000).sampled


def test_numbers_beyond_53_bits_and_uuids_stay_what_they_are() -> None:
    points = [Point(id=2**63 + 1 + place, vector=each.vector, payload={}) for place, each in enumerate(planted()[:3])]
    leader = json.loads(as_json(report(points)))["families"]["examples"][0]["leader"]
    assert leader["id"] in {2**63 + 1, 2**63 + 2, 2**63 + 3}
