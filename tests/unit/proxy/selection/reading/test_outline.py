"""Outlines: what they let through to be read, and what they leave unread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.judging.judge import VERDICTS, Judge, Verdict
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.outline import FEW_WORDS, Outline
from vecsieve.proxy.selection.reading.text import READINGS, Text

TEXTS = {
    "english": "the pump is inspected before it starts and again after ten hours of service by a trained person",
    "accented": "la création d'un élève élevé à Orléans où l'été déçoit naïvement les hôtes préférés du château",
    "hindi": "यह पंप हर दस घंटे बाद जाँचा जाता है और फिर से चालू किया जाता है जब तापमान कम हो",
    "han": "本 装 置 启 动 前 必 须 检 查 水 位 并 在 运 行 十 小 时 后 由 专 业 人 员 再 次 确 认 其 状 态",
}
WORDS = {script: text.split() for script, text in TEXTS.items()}


def text_in(script: str) -> st.SearchStrategy[list[str]]:
    return st.lists(st.sampled_from(WORDS[script]), min_size=FEW_WORDS + 3, max_size=60)


def joined(words: list[str], script: str) -> str:
    return ("" if script == "han" else " ").join(words)


@pytest.mark.parametrize("script", WORDS)
@given(data=st.data())
def test_what_stands_in_another_text_is_read(script: str, data: st.DataObject) -> None:
    """Invariant: a text that is one unbroken run of another meets it, and has as much in common with it as is needed."""
    words = data.draw(text_in(script))
    start = data.draw(st.integers(0, len(words) - FEW_WORDS - 2))
    end = data.draw(st.integers(start + FEW_WORDS + 1, len(words)))
    whole, part = Outline(joined(words, script)), Outline(joined(words[start:end], script))
    assert part.shares_words(whole) if part.is_short else len({*part.grams} & {*whole.grams}) >= part.least


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("<p>The <b>pump</b> hums</p>", "The pump hums"),
        ("Salt &amp; pepper at &lt; 60 &deg;C", "Salt & pepper at < 60 °C"),
        ("the regu\u00adla\u00adtion applies", "the regulation applies"),
        ("the regu-\n  lation applies", "the regulation applies"),
    ],
)
def test_markup_is_no_part_of_an_outline(one: str, other: str) -> None:
    assert Outline(one).grams == Outline(other).grams


@pytest.mark.parametrize("script", WORDS)
@given(data=st.data())
def test_a_verdict_is_the_same_whether_it_was_made_before_or_not(script: str, data: st.DataObject) -> None:
    """Invariant: verdicts on a ranking do not depend on the verdicts that are kept."""
    texts = [joined(words, script) for words in data.draw(st.lists(text_in(script), min_size=2, max_size=6))]
    texts += [texts[0][: len(texts[0]) // 2], texts[1] + " " + texts[0]]

    def walked() -> list[Verdict]:
        judge, verdicts = Judge(Tier.EDITED), []
        for number, raw in enumerate(texts):
            verdicts.append(judge.verdict(text := Text(raw)))
            if not verdicts[-1].holders:
                judge.keep(number, text)
        return verdicts

    VERDICTS.clear()
    cold = walked()
    assert walked() == cold


def test_texts_of_other_words_are_not_read() -> None:
    judge = Judge(Tier.EDITED)
    judge.keep(
        0,
        Text("The warranty covers defects of material for two years from the date of delivery, but no wear of seals."),
    )
    other = Text("Before the first start the tank must be filled with clean water up to the upper mark of the glass.")
    assert not judge.verdict(other).holders
    assert READINGS.get((other.raw, False)) is None, "its outline was enough"


def test_case_marks_and_articles_do_not_count() -> None:
    one = Outline(
        "“The pump”, it says, is checked before THE first start: daily, by a trained person – always in writing."
    )
    other = Outline("the pump it says is checked before first start daily by trained person always in writing")
    assert sorted(one.grams) == sorted(other.grams)


@pytest.mark.parametrize(("lines", "least"), [(1, 0.6), (2, 0.25)])
def test_of_a_text_of_several_lines_less_must_be_known(lines: int, least: float) -> None:
    words = [f"w{number}" for number in range(40)]
    raw = " ".join(words) if lines == 1 else " ".join(words[:20]) + "\n" + " ".join(words[20:])
    assert Outline(raw).least == pytest.approx(least * 38)


@given(raw=st.text(st.characters(exclude_categories=["Cs"]), max_size=200))
def test_any_text_has_an_outline(raw: str) -> None:
    """Invariant: every text that can be encoded has an outline, and no run of three words twice in it."""
    outline = Outline(raw)
    assert outline.is_short or 0 < len(set(outline.grams)) == len(outline.grams)


@given(st.lists(st.integers(0, 400), min_size=FEW_WORDS, max_size=80), st.booleans(), st.data())
def test_where_enough_runs_are_known_one_of_the_first_is(
    numbers: list[int], has_lines: bool, data: st.DataObject
) -> None:
    """Invariant: no text whose known runs suffice is taken for one that has too few by its first runs alone."""
    outline = Outline(("\n" if has_lines else " ").join(f"w{number}" for number in numbers))
    known = data.draw(st.sets(st.sampled_from(list(outline.grams))))
    if len(known) >= outline.least:
        assert not known.isdisjoint(outline.grams[: outline.enough])
