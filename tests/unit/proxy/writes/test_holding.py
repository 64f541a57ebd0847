"""Which texts may be left out for another one: the pairs and records that once went, and the copies that should."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.backends.two_facts import PLANTED, TWO_FACTS
from vecsieve.proxy.selection.judging.judge import Judge
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.text import Text
from vecsieve.proxy.selection.values import Link
from vecsieve.proxy.writes.holding import Holder, holds, is_readable


@pytest.mark.parametrize("name", TWO_FACTS)
def test_no_record_holds_another_of_its_kind(name: str) -> None:
    texts = [Text(fact) for fact in TWO_FACTS[name]]
    for staying in texts:
        holder = Holder(staying)
        assert [text.raw for text in texts if holder.link(text) is not Link.NONE] == [staying.raw]


@pytest.mark.parametrize(("part", "whole"), PLANTED)
def test_a_planted_copy_is_held(part: str, whole: str) -> None:
    assert holds(Text(whole), [Text(part)])


WORDS = st.lists(
    st.sampled_from(["Stone", "river,", "field", "lights.", "no", "5", "mW", "(house)"]), min_size=1, max_size=30
)


@given(WORDS, st.data())
def test_a_look_at_some_words_leaves_out_no_text_that_is_held(words: list[str], data: st.DataObject) -> None:
    """Invariant: where the judge says that a text is held, so does the holder, which reads it only if some words stand in both."""
    start = data.draw(st.integers(0, len(words) - 1))
    part, whole = " ".join(words[start : data.draw(st.integers(start + 1, len(words)))]), " ".join(words)
    judge = Judge(Tier.EXACT)
    judge.keep(0, Text(whole))
    assert Holder(Text(whole)).link(Text(part)) is judge.verdict(Text(part)).link


@pytest.mark.parametrize("raw", ["", "\u200b", "<br>", "word " * 30_000, "ab, " * 24_000])
def test_a_text_that_is_not_read_holds_an_equal_one_alone(raw: str) -> None:
    assert not is_readable(Text(raw))
    assert Holder(Text(raw)).link(Text(raw)) is Link.EQUAL
    assert Holder(Text(raw)).link(Text(f"{raw}.")) is Link.NONE
    assert not holds(None, [Text(raw)])
