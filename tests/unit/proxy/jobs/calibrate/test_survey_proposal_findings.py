"""What a calibration found, as a profile and as plain values."""

from __future__ import annotations

import json

import orjson

from support.jobs.calibrations import calibrated, calibration
from vecsieve.proxy.jobs.calibrate.survey import as_json, profile_of
from vecsieve.proxy.search.collections.profiles import decoded, encoded


def test_the_profile_says_what_was_seen() -> None:
    found = calibration(copies=3)
    profile = profile_of(found)
    assert (profile.collection, profile.vector_name, profile.dimension) == ("docs", "", 48)
    assert profile.distance == "Cosine"
    assert profile.sample == 120
    assert profile.pools == len(found.survey.pools)
    assert profile.created_by.startswith("vecsieve ")
    medians = profile.pool_median
    assert 0.5 < medians.percentile_1 <= medians.percentile_50 <= medians.percentile_99 < 1.2
    assert -0.1 < profile.mean_unrelated_similarity < 0.1


def test_the_profile_is_one_the_proxy_reads() -> None:
    profile = profile_of(calibration(copies=3))
    assert decoded(encoded(profile), name="docs.json") == profile


def test_the_same_collection_gives_the_same_bytes() -> None:
    assert encoded(profile_of(calibration(copies=2))) == encoded(profile_of(calibrated(copies=2)))


def test_plain_values_are_json_and_hold_the_profile_the_density_and_the_pairs() -> None:
    found = calibration(copies=3, noise=0.05)
    read = json.loads(orjson.dumps(as_json(found)))
    assert read["profile"] == profile_of(found).model_dump()
    assert read["points"] == 120
    assert {entry["distance"] for entry in read["density"]} >= {0.0, 0.1, 0.3}
    assert len(read["borderline"]) == len(found.pairs) > 0
    assert set(read["borderline"][0]) == {"ids", "texts", "distance", "merged"}
    assert read["cut"] == found.proposal.cut
    assert 0.0 <= read["nearest_neighbour_distance"]["percentile_50"] < 0.3
