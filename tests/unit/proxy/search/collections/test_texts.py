"""What pools teach about where the texts of a collection are, and what a person is shown of it."""

from __future__ import annotations

import json
import logging
from collections import Counter

import numpy as np
import pytest

from vecsieve.adapters.contract import Needs, Pool, Reply
from vecsieve.config.backends import KNOWN_TEXTS
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.collections.paths import Reading
from vecsieve.proxy.search.collections.texts import (
    LOOK_EVERY,
    WINDOW,
    CollectionTexts,
    read_pools,
    with_fields,
)
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy
from vecsieve.proxy.telemetry.labels import TextsKnown

EMPTY = Reading((), frozenset(), ("file",), 10)


def policy(**members: object) -> ResolvedPolicy:
    return Policies(Settings.model_validate({"policy": members})).resolve("qdrant", "c")


def reading(*paths: str, against: tuple[str, ...] = ()) -> Reading:
    return Reading(paths, frozenset(against), (*paths, *against), 10)


def learned(*readings: Reading) -> CollectionTexts:
    texts = CollectionTexts()
    for pool_reading in readings:
        texts.learn("c", pool_reading, is_look=False)
    return texts


def standing(texts: CollectionTexts) -> TextsKnown:
    (row,) = texts.rows()
    return row.standing


def test_the_first_pool_with_a_text_settles_a_collection_and_its_policy_reads_nothing_else() -> None:
    texts = learned(reading("passage"))
    fields = texts.applied(policy(), "c").fields
    assert (fields.text, fields.guesses) == (("passage",), ())
    assert policy().fields.guesses == KNOWN_TEXTS
    assert texts.applied(policy(), "other").fields.guesses == KNOWN_TEXTS
    assert texts.plan(policy(), "c").seen == ("passage",)


def test_a_setting_comes_first_and_what_is_known_is_added() -> None:
    configured = policy(text_fields=("body_md", "text"))
    assert configured.fields.text == ("body_md", "text")
    assert configured.fields.guesses == tuple(name for name in KNOWN_TEXTS if name != "text")
    assert learned(reading("passage")).applied(configured, "c").fields.text == ("body_md", "text", "passage")


@pytest.mark.parametrize("members", [{"texts": "none"}, {"text_fields": ()}], ids=str)
def test_a_policy_without_texts_learns_nothing_and_asks_for_nothing(members: dict[str, object]) -> None:
    texts = learned(reading("passage"))
    assert texts.applied(policy(**members), "c").fields.text == ()
    assert texts.plan(policy(text_fields=()), "c")[1:] == ((), False, False, False)


def test_pools_that_disagree_decide_alone() -> None:
    texts = learned(reading("text"))
    assert texts.learn("c", reading("passage"), is_look=False) == (), "in doubt no text"
    assert standing(texts) is TextsKnown.UNSETTLED
    assert texts.learn("c", reading("passage"), is_look=False) == ("passage",)
    for _ in range(WINDOW):
        texts.learn("c", reading("passage"), is_look=False)
    assert texts.applied(policy(), "c").fields.text == ("passage",)


def test_further_layouts_are_added() -> None:
    texts = learned(reading("text"), reading("text", "page_content"))
    assert texts.applied(policy(), "c").fields.text == ("text", "page_content")


def test_a_path_that_is_proven_to_be_no_text_is_used_by_that_pool_no_longer() -> None:
    texts = learned(reading("content"))
    assert texts.learn("c", reading(against=("content",)), is_look=False) == ()
    assert standing(texts) is TextsKnown.UNSETTLED
    assert texts.learn("c", reading("passage", against=("content",)), is_look=False) == ("passage",)


def test_a_pool_that_shows_nothing_changes_nothing() -> None:
    texts = learned(reading("text"))
    assert texts.learn("c", EMPTY, is_look=False) == ("text",)
    assert standing(texts) is TextsKnown.FOUND


def test_a_settled_collection_is_read_seldom() -> None:
    texts = learned(*[reading("text")] * WINDOW)
    assert sum(texts.is_look(policy(), "c") for _ in range(LOOK_EVERY)) == 1


def test_where_the_first_pools_showed_no_text_further_ones_are_read() -> None:
    texts = learned(EMPTY, EMPTY, EMPTY)
    assert standing(texts) is TextsKnown.NONE
    assert texts.is_open(policy(), "c"), "short texts under an unknown key show in longer ones"
    assert texts.learn("c", reading("passage"), is_look=False) == ("passage",)
    assert not learned(*[reading("text")] * WINDOW).is_open(policy(), "c")


def test_whole_payloads_are_requested_only_where_the_known_keys_held_no_text_and_seldom() -> None:
    texts = CollectionTexts()
    assert not texts.plan(policy(), "c").whole, "of an unknown collection the known keys alone"
    texts.learn("c", EMPTY, is_look=False)
    assert texts.plan(policy(), "c").whole
    texts.learn("c", EMPTY, is_look=True)
    texts.learn("c", EMPTY, is_look=True)
    assert standing(texts) is TextsKnown.NONE
    assert not texts.plan(policy(), "c").whole
    due = [texts.plan(policy(), "c").whole for _ in range(LOOK_EVERY)]
    assert due.count(True) >= 1
    assert not learned(reading("text")).plan(policy(), "c").whole


def test_whole_payloads_whose_replies_are_lost_are_requested_no_longer() -> None:
    texts = learned(EMPTY)
    for _ in range(2):
        assert texts.plan(policy(), "c").whole
        texts.looking("c")
    assert not texts.plan(policy(), "c").whole


def test_a_text_that_appears_later_is_found() -> None:
    texts = learned(EMPTY, EMPTY, EMPTY)
    assert texts.learn("c", reading("passage"), is_look=True) == ("passage",)
    assert texts.applied(policy(), "c").fields.text == ("passage",)


def test_a_collection_without_a_name_is_not_learned() -> None:
    texts = CollectionTexts()
    assert texts.learn("", reading("passage"), is_look=False) == ("passage",)
    assert list(texts.rows()) == []
    assert texts.is_look(policy(), "")


def test_a_collection_that_is_made_anew_is_forgotten_with_its_parts() -> None:
    seen: list[Counter[TextsKnown]] = []
    texts = CollectionTexts(seen.append)
    for name in ("c", "c/tenant", "other"):
        texts.learn(name, reading("text"), is_look=False)
    texts.forget("c")
    assert [row.collection for row in texts.rows()] == ["other"]
    assert seen[-1] == {TextsKnown.FOUND: 1}
    texts.forget(None)
    assert list(texts.rows()) == []


def test_it_is_bounded() -> None:
    texts = CollectionTexts()
    for number in range(1500):
        texts.learn(f"c{number}", Reading(("text",), frozenset(), tuple(f"k{n}" for n in range(64)), 5), is_look=False)
    rows = list(texts.rows())
    assert len(rows) == 1024
    assert max(len(row.keys) for row in rows) == 32


def test_each_finding_is_logged_once_with_keys_and_no_value(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, logger="vecsieve.texts")
    texts = CollectionTexts()
    for _ in range(5):
        texts.learn("found", reading("text"), is_look=False)
        texts.learn("bare", Reading((), frozenset(), ("file", "someone@example.com"), 5), is_look=False)
    fields = [record.__dict__["fields"] for record in caplog.records]
    assert fields == [{"collection": "found", "texts": ["text"]}, {"collection": "bare", "keys seen": ["file"]}]
    assert caplog.records[1].levelname == "WARNING"
    assert "no text found, only equal vectors are removed" in caplog.records[1].getMessage()


def pool(*payloads: dict[str, str], fields: tuple[tuple[bytes | None, ...], ...] = ()) -> Pool:
    raws = [json.dumps(payload).encode() for payload in payloads]
    vectors = np.random.default_rng(0).normal(size=(len(raws), 8)).astype(np.float32)
    return Pool(
        scores=np.linspace(1, 0, len(raws)),
        vectors=vectors,
        fields=fields,
        payloads=lambda rows: [raws[row] for row in rows],
    )


def test_the_fields_of_a_reply_follow_the_policy_and_new_ones_come_from_the_payloads() -> None:
    needs = Needs(payload_fields=("tenant",), optional_fields=("text", "source"))
    configured = policy(tenant_keys=("tenant",), metadata={"source": ("source",)}, keep_sources=("a",))
    had = ((b'"t"', None, b'"T"'), (b'"t"', None, None))
    before = pool({"passage": "one", "source": "T"}, {"passage": "two"}, fields=had)
    (after,) = with_fields(Reply(pools=(before,), document=None), needs, configured.with_texts(("passage",))).pools
    assert after.fields == ((b'"t"', b'"one"', b'"T"'), (b'"t"', b'"two"', None))
    empty = Pool(scores=np.zeros(0), vectors=np.zeros((0, 0), np.float32))
    assert with_fields(Reply(pools=(empty,), document=None), needs, configured.with_texts(())).pools[0].fields == ()


def test_of_a_batch_no_pool_s_text_is_what_another_one_disproves() -> None:
    words = ["valve", "pump", "meter", "water", "heat", "cable", "room", "floor", "green", "pressure", "cover"]
    lines = [" ".join(np.random.default_rng(n).choice(words, 20)) for n in range(12)]
    one = pool(*({"content": line, "passage": f"{line} {line}"} for line in lines))
    other = pool(*({"content": lines[n % 2], "passage": line} for n, line in enumerate(lines)))
    readings = read_pools((one, other), Needs())
    assert readings.against == {"content"}
    assert readings.paths == ("passage",)
