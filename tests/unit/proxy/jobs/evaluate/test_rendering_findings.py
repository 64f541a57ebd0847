"""What a program gets: everything that the tables say, and the policies whole."""

from __future__ import annotations

import json

import orjson

from support.outcomes import of, outcome
from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.jobs.evaluate.rendering import Findings, Terms, as_json
from vecsieve.proxy.jobs.evaluate.searching import contenders
from vecsieve.proxy.jobs.evaluate.summary import summarised

TERMS = Terms(top_k=8, every=2, pool=None, draws=10, seed=3)


def test_everything_is_there_as_plain_json() -> None:
    never = of(retained=[float("nan")], redundancy=[0.5])
    summaries = summarised([outcome("one", never, own=never)], draws=10, seed=3)
    found = [Findings(geometry=None, summaries=summaries), Findings(geometry="flat", summaries=summaries)]
    read = json.loads(orjson.dumps(as_json(found, contenders(given=["own={when: always}"]), TERMS)))
    assert {"top_k": 8, "every": 2, "pool": None, "draws": 10, "seed": 3}.items() <= read.items()
    assert [each["geometry"] for each in read["geometries"]] == [None, "flat"]
    own = read["geometries"][0]["policies"]["own"]
    assert own["headline"]["reduction"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert own["headline"]["retention_worst"] is None
    assert (own["sets"][0]["name"], own["sets"][0]["retention"]["value"]) == ("one", None)


def test_a_policy_comes_out_as_it_could_be_put_in_again() -> None:
    chosen = contenders(given=["own={threshold: {fixed: 0.07}, diversify: dpp, diversity: 0.3}"])
    read = json.loads(orjson.dumps(as_json([], chosen, TERMS)))
    assert PolicySettings.model_validate_json(json.dumps(read["policies"]["own"])) == chosen[0].settings
