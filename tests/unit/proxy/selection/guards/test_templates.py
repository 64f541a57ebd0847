"""Texts that are made from one template, and copies, which are not."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.templates import POLICY, chosen
from support.texts import as_texts
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.policy import Policies
from vecsieve.proxy.selection.guards import templates
from vecsieve.proxy.selection.guards.templates import (
    MOST_DIRECT,
    MOST_GAPS,
    MOST_WORDS,
    READ,
    STEP_WORK,
    are_exchanged,
    from_one_template,
    gaps,
    words_of,
)
from vecsieve.proxy.selection.text.reading import read
from vecsieve.proxy.selection.values import (
    Metadata,
    Veto,
    finished,
)

assert POLICY.text is not None
TEXT = POLICY.text

JOBS = [
    f"{level} Python developer in {place}"
    for level in ("Junior", "Senior", "Lead")
    for place in ("Paris", "Bonn", "Rome")
]
FRAME = (
    "Welcome to our hotel in {place}. All rooms have free wireless internet, air conditioning and a private bathroom. Guests enjoy a generous "
    "breakfast every morning, and the reception is staffed around the clock. Parking is free, and pets are welcome on request."
)
HOTELS = [FRAME.format(place=place) for place in ("Lisbon", "Madrid", "Rome", "Vienna")]


@pytest.mark.parametrize("texts", [JOBS, HOTELS], ids=["jobs", "hotels"])
def test_texts_of_one_template_all_stay(texts: list[str]) -> None:
    found = chosen(texts)
    assert found.keep.tolist() == list(range(len(texts)))
    assert not found.acted


@pytest.mark.parametrize("texts", [JOBS[:2], HOTELS[:2]], ids=["jobs", "hotels"])
def test_two_texts_alone_show_no_template(texts: list[str]) -> None:
    assert 1 not in chosen(texts).keep.tolist()


def test_a_veto_says_that_a_template_is_why() -> None:
    # Equal texts are copies of each other, and open the gate.
    found = chosen([*HOTELS, HOTELS[0]])
    assert found.vetoes.tolist()[1:4] == [Veto.TEMPLATE] * 3
    assert found.representative.item(4) == 0


@pytest.mark.parametrize(
    "edited",
    [
        [HOTELS[0].replace("generous", "rich"), HOTELS[0].replace("free wireless", "wireless")],
        [HOTELS[0].replace("our hotel", "the hotel"), HOTELS[0].replace("our hotel", "this hotel")],
        [HOTELS[0].replace("Guests", "Version 1.2. Guests"), HOTELS[0].replace("Guests", "Version 1.3. Guests")],
        [f"{HOTELS[0]} Source: alpha.example", f"{HOTELS[0]} Source: beta.example"],
        [f"{agency} {HOTELS[0]}" for agency in ("(Alpha) -", "(Beta) -", "(Gamma) -")],
        [f"{site} {HOTELS[0]}" for site in ("alpha:", "beta:", "gamma:")],
    ],
    ids=[
        "at different places",
        "in words without a meaning",
        "in their numbers",
        "at the foot",
        "in a byline",
        "in a prefix",
    ],
)
def test_copies_that_differ_otherwise_are_of_no_template(edited: list[str]) -> None:
    assert Veto.TEMPLATE not in chosen([HOTELS[0], *edited]).vetoes.tolist()


def test_a_third_text_that_fills_the_gap_alike_shows_no_template() -> None:
    """Two releases: the edit is in all texts of the second."""
    old, new = HOTELS[0], HOTELS[0].replace("Lisbon", "Porto")
    third = new.replace("on request", "as well")
    assert 1 not in chosen([old, new, third]).keep.tolist()


def test_an_order_of_words_is_a_difference() -> None:
    texts = [
        f"How to convert a file from {one} to {other}"
        for one, other in [("PDF", "Word"), ("Word", "PDF"), ("HTML", "EPUB")]
    ]
    assert chosen(texts).keep.tolist() == [0, 1, 2]


def test_a_copy_of_a_text_shows_no_template() -> None:
    """Invariant: another copy of a kept result changes no other result."""
    assert 1 not in chosen([JOBS[0], JOBS[1], JOBS[1]]).keep.tolist()


TICKETS = [
    f"The customer says that the {device} does not {verb} since the update"
    for device, verb in [("printer", "print"), ("router", "connect"), ("laptop", "boot"), ("tablet", "charge")]
]
OMELETTES = [
    f"Whisk three eggs with a pinch of salt, fold in {filling}, and bake them until golden."
    for filling in ("grated cheese", "smoked salmon", "sliced leek", "chopped ham")
]


def test_a_near_text_of_another_frame_does_not_hide_a_template(monkeypatch: pytest.MonkeyPatch) -> None:
    """The best-ranked partner of each candidate is of the other template. In a large pool partners alone must tell."""
    monkeypatch.setattr(templates, "MOST_DIRECT", 0)
    mixed = [text for both in zip(TICKETS, OMELETTES, strict=True) for text in both]
    pairs = np.triu_indices(len(mixed), 1)
    known = read(Metadata(texts=as_texts(mixed)), TEXT)
    finished(known.reading(range(len(mixed))))
    apart = {(int(pairs[0][pair]), int(pairs[1][pair])) for pair in finished(from_one_template(known, *pairs))}
    assert apart >= {
        (one, other) for one, other in zip(*map(np.ndarray.tolist, pairs), strict=True) if one % 2 == other % 2
    }


def test_two_without_a_common_partner_are_compared_by_themselves() -> None:
    jobs = [
        f"{level} Python developer in {place}"
        for level, place in (("Lead", "Paris"), ("Junior", "Paris"), ("Senior", "Bonn"), ("Lead", "Rome"))
    ]
    known = read(Metadata(texts=as_texts(jobs)), TEXT)
    finished(known.reading(range(len(jobs))))
    first, second = np.array([0, 0, 1, 2]), np.array([1, 3, 2, 3])  # the last two follow 1 and 0
    assert 3 in finished(from_one_template(known, first, second))


def test_gaps_with_one_word_between_them_are_two_gaps() -> None:
    shirts = [
        f"Cotton shirt with buttons, {colour}, size {size}"
        for colour in ("navy blue", "forest green", "red")
        for size in "SML"
    ]
    assert chosen(shirts).keep.tolist() == list(range(len(shirts)))


@pytest.mark.parametrize(
    "texts",
    [
        [f"从{place}到上海的高铁每天早上出发。" for place in ("北京", "广州", "天津")],
        [f"この{thing}は千円です。店で買えます。" for thing in ("本", "傘", "皿")],
        [f"การประชุม{day}เริ่มสิบโมงเช้า" for day in ("วันจันทร์", "วันพุธ", "วันเสาร์")],
    ],
    ids=["Chinese", "Japanese", "Thai"],
)
def test_templates_are_known_in_scripts_without_blanks(texts: list[str]) -> None:
    assert chosen(texts).keep.tolist() == list(range(len(texts)))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice lent Bob the car for a day", "Bob lent Alice the car for a day"),
        ("Trains from Lisbon to Oslo leave at noon", "Trains from Oslo to Lisbon leave at noon"),
        ("Fly from New York to San Jose today", "Fly from San Jose to New York today"),
        ("Convert the file (PDF) to Word.", "Convert the file (Word) to PDF."),
        ("从北京到上海的高铁", "从上海到北京的高铁"),
    ],
)
def test_two_texts_that_exchange_words_are_no_copies(one: str, other: str) -> None:
    assert are_exchanged(words_of(one), words_of(other))
    assert chosen([one, other]).keep.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Alice and Bob share a car", "Bob and Alice share a car"),
        ("peel apples, pears, plums today", "peel plums, pears, apples today"),
        ("please restart now", "please now restart"),
        ("on Monday we met her", "we met her on Monday"),
        ("the car is what we share", "the car is what we share"),
        ("we can do it if you do", "you can do it if we do"),
        ("we share a car", "we share one car"),
        ("", ""),
    ],
)
def test_another_order_of_words_alone_is_no_exchange(one: str, other: str) -> None:
    assert not are_exchanged(words_of(one), words_of(other))


def test_long_texts_are_not_looked_at_for_an_exchange() -> None:
    other = HOTELS[0].replace("breakfast", "x").replace("reception", "breakfast").replace("x", "reception")
    assert 1 not in chosen([HOTELS[0], other]).keep.tolist()


@given(st.lists(st.sampled_from("abcdef,&"), max_size=9).map(tuple), st.data())
def test_an_exchange_has_the_same_words_and_is_mutual(one: tuple[str, ...], data: st.DataObject) -> None:
    """Invariant: whatever two texts are, an exchange is one in both directions, and both have the same words."""
    other = data.draw(st.permutations(one))
    mine, theirs = words_of(" ".join(one)), words_of(" ".join(other))
    assert are_exchanged(mine, theirs) == are_exchanged(theirs, mine)
    assert not are_exchanged(mine, mine)
    if are_exchanged(mine, theirs):
        assert sorted(mine) == sorted(theirs)


@pytest.mark.parametrize("length", [24, 300], ids=["short", "long"])
def test_a_step_reads_a_bounded_number_of_pairs(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    frame = [f"w{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(length)]
    texts = []
    for _ in range(120):
        words = [*frame]
        for place in (3, 9, 15):
            words[place] = f"x{chr(97 + int(draw.integers(26)))}"
        texts.append(" ".join(words))
    known = read(Metadata(texts=as_texts(texts)), TEXT)
    finished(known.reading(range(len(texts))))
    templates._kept.clear()
    reads = [0]

    def counted(one: list[str], other: list[str]) -> templates.Gaps:
        reads[-1] += 1
        return gaps(one, other)

    monkeypatch.setattr(templates, "gaps", counted)
    for _ in from_one_template(known, *np.triu_indices(len(texts), 1)):
        reads.append(0)
    # A pair is read against at most all different texts of the first fifty.
    assert max(reads) <= STEP_WORK // READ + 50
    assert sum(reads) >= len(texts) - 1


@given(st.lists(st.sampled_from("abcdefgh"), max_size=40), st.lists(st.sampled_from("abcdefgh"), max_size=40))
def test_gaps_are_disjoint_ascending_and_of_the_second_text(one: list[str], other: list[str]) -> None:
    """Invariant: whatever two texts are, gaps lie inside the second, one after another, and equal texts have none."""
    found = gaps(words_of(" ".join(one)), words_of(" ".join(other)))
    ends = 0
    for gap in found:
        assert ends <= gap.start <= gap.end <= len(other)
        assert gap.theirs <= {*other[gap.start : gap.end]}
        assert gap.mine <= {*one}
        ends = gap.end
    assert gaps(words_of(" ".join(one)), words_of(" ".join(one))) == ()
    assert len(found) <= MOST_GAPS


@given(st.integers(40, 120), st.data())
def test_replaced_words_are_found_where_they_are(size: int, data: st.DataObject) -> None:
    """Invariant: of a long text of different words each replaced word, but for the last two, is a gap of its own."""
    words = [f"word{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(size)]
    places = sorted(data.draw(st.sets(st.integers(0, size // 4 - 1), max_size=MOST_GAPS)))
    places = [3 * place for place in places]
    other = [f"other{word}" if place in places else word for place, word in enumerate(words)]
    found = gaps(words_of(" ".join(words)), words_of(" ".join(other)))
    assert [(gap.start, gap.end) for gap in found] == [(place, place + 1) for place in places]


@pytest.mark.parametrize("count", [MOST_WORDS, MOST_WORDS + 1])
def test_very_long_texts_are_of_no_template(count: int) -> None:
    words = [f"w{number}x" for number in range(count)]
    other = [*words]
    other[5] = "replaced"
    words[5] = "word"
    found = gaps(words_of(" ".join(words)), words_of(" ".join(other)))
    assert bool(found) == (count <= MOST_WORDS)


def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(templates, "MOST_KEPT", 4)
    templates._kept.clear()
    for _ in range(3):
        assert chosen(HOTELS).keep.tolist() == [0, 1, 2, 3]
    assert len(templates._kept) <= 4


def test_the_setting_turns_it_off() -> None:
    settings = Settings.model_validate({"policy": {"guards": {"templates": False}}})
    off = Policies(settings).resolve("qdrant", "c").selection
    assert POLICY.guards.templates
    assert not off.guards.templates


@pytest.mark.parametrize(
    ("one", "other", "wanted"),
    [
        ("a red car", "a blue car", [(1, 2, {"red"}, {"blue"})]),
        ("how do I pay", "how can I pay", []),
        ("the inverse sine of x", "the sine of x", [(1, 1, {"inverse"}, set())]),
        ("the sine of x", "the inverse sine of x", [(1, 2, set(), {"inverse"})]),
        (
            "how to convert this from PDF to Word",
            "how to convert this from Word to PDF",
            [(5, 8, {"pdf", "word"}, {"word", "pdf"})],
        ),
        (
            "pay the red bill in cash now",
            "pay the blue bill in cash later",
            [(2, 3, {"red"}, {"blue"}), (6, 7, {"now"}, {"later"})],
        ),
        ("pay by card", "pay by card!", []),
        ("bees make honey", "taxes are due", []),
        ("", "", []),
        ("", "a b c", []),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_fills_a_gap(one: str, other: str, wanted: list[tuple[int, int, set[str], set[str]]]) -> None:
    assert [tuple(gap) for gap in gaps(words_of(one), words_of(other))] == wanted


def test_an_edited_copy_of_one_of_a_template_follows_it_and_no_other() -> None:
    edited = HOTELS[1].replace("generous", "rich")
    found = chosen([*HOTELS, edited])
    assert found.representative.tolist()[:5] == [0, 1, 2, 3, 1]


def test_who_are_kept_apart_from_the_first_by_the_same_words_are_copies_of_one_another() -> None:
    """Both lack the first one's words, and none of the gaps tells them apart."""
    again = HOTELS[2].replace("every morning", "each morning")
    found = chosen([HOTELS[0], HOTELS[1], HOTELS[2], again])
    assert found.representative.tolist()[:4] == [0, 1, 2, 2]


@given(st.permutations(JOBS), st.booleans())
def test_what_is_remembered_changes_nothing(texts: list[str], is_known: bool) -> None:
    """Invariant: a selection is the same whether the gaps of its pairs are known already, and every job stays."""
    if not is_known:
        templates._kept.clear()
    assert chosen(texts).keep.tolist() == list(range(len(texts)))


@pytest.mark.parametrize("letters", [6, 60, 300])
def test_a_step_reads_a_bounded_number_of_characters(letters: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Words of 300 letters in eight gaps cost fifty times as much as those of six."""
    draw = np.random.default_rng(0)
    frame = [f"w{chr(97 + number // 26)}{chr(97 + number % 26)}" for number in range(300)]
    texts = []
    for _ in range(60):
        words = [*frame]
        for place in range(5, 290, 40):
            words[place] = "".join(chr(97 + each) for each in draw.integers(26, size=letters))
        texts.append(" ".join(words))
    known = read(Metadata(texts=as_texts(texts)), TEXT)
    finished(known.reading(range(len(texts))))
    templates._kept.clear()
    read_characters = [0]

    def counted(one: list[str], other: list[str]) -> templates.Gaps:
        read_characters[-1] += sum(map(len, (*one, *other)))
        return gaps(one, other)

    monkeypatch.setattr(templates, "gaps", counted)
    for _ in from_one_template(known, *np.triu_indices(len(texts), 1)):
        read_characters.append(0)
    # Behind the last pair of a step third texts are read.
    thirds = 1 + templates.MOST_THIRDS
    assert max(read_characters) <= STEP_WORK * templates.CHARACTERS + thirds * 2 * max(map(len, texts))
    assert sum(read_characters) > 59 * min(map(len, texts))


@pytest.mark.parametrize(("letters", "pairs"), [(60, [0, 1, 2]), (70, [])])
def test_a_text_with_more_characters_than_sentences_have_is_of_no_template(letters: int, pairs: list[int]) -> None:
    frame = [chr(97 + number) * letters for number in range(20)]
    texts = [" ".join([*frame[:9], word, *frame[9:]]) for word in ("amber", "coral", "ivory")]
    known = read(Metadata(texts=as_texts(texts)), TEXT)
    finished(known.reading(range(3)))
    assert finished(from_one_template(known, *np.triu_indices(3, 1))) == pairs


@pytest.mark.parametrize(
    "text",
    [
        "x" * 1_000_000,
        "\n" * 100_000,
        "a\u0301" * 5_000,
        "\U0001f469\u200d\U0001f680 " * 2_000,
        "\u202eabc\u202c " * 500,
        "a " * 5_000,
    ],
    ids=["a long word", "lines", "marks", "emoji", "directions", "many words"],
)
def test_hostile_texts_beside_a_template_are_chosen_without_harm(text: str) -> None:
    found = chosen([*HOTELS, text, f"{text}b"])
    assert found.keep.tolist()[:4] == [0, 1, 2, 3]


def test_texts_of_one_set_of_words_are_compared_in_steps_and_not_without_end(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    words = [f"w{number}" for number in range(24)]
    texts = read(Metadata(texts=as_texts([" ".join(draw.permutation(words)) for _ in range(150)])), TEXT)
    finished(texts.reading(range(150)))
    compared = [0]

    def counted(one: list[str], other: list[str]) -> bool:
        compared[-1] += 1
        return are_exchanged(one, other)

    monkeypatch.setattr(templates, "are_exchanged", counted)
    for _ in from_one_template(texts, *np.triu_indices(150, 1)):
        compared.append(0)
    assert max(compared) <= STEP_WORK // READ + 1
    assert sum(compared) == MOST_DIRECT < 150 * 149 // 2


def test_a_large_pool_is_read_in_steps() -> None:
    texts = [
        f"{level} {craft} in {place}"
        for level in ("Junior", "Senior")
        for craft in "abcdefgh"
        for place in ("Rome", "Bonn", "Oslo", "Kiel")
    ]
    read_texts = read(Metadata(texts=as_texts(texts)), TEXT)
    finished(read_texts.reading(range(len(texts))))
    pairs = np.triu_indices(len(texts), 1)
    assert sum(1 for _ in from_one_template(read_texts, *pairs)) >= len(pairs[0]) // STEP_WORK >= 3
    assert len(finished(from_one_template(read_texts, *pairs))) > len(pairs[0]) / 4
