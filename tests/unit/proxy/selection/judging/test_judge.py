"""The verdict: the tiers, what is missing in words, and which texts hold a candidate."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.judgements import leaves, verdict
from support.selection.texts import ANY_TEXT, ODD_TEXT, passages
from vecsieve.proxy.selection.judging.judge import MOST_HOLDERS, Judge
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.reading.text import text_of
from vecsieve.proxy.selection.values import Link

DOSE = "Take one tablet in the morning of each day, of 20 mg, with a glass of water."


def missing(*texts: str) -> tuple[str, str, int]:
    ruling = verdict(*texts, explain=True)
    assert ruling.holders == ()
    assert ruling.link is Link.NONE
    assert ruling.missing is not None
    return ruling.missing.words, ruling.missing.instead, ruling.missing.text


def test_what_differs_is_named_with_what_stands_there_instead() -> None:
    words, instead, text = missing(DOSE, DOSE.replace("20 mg", "40 mg"))
    assert words.startswith("40")
    assert instead.startswith("20")
    assert text == 0


def test_what_is_added_is_named() -> None:
    words, instead, text = missing(DOSE, f"{DOSE} Never take two.")
    assert words.startswith("Never take two")
    assert (instead, text) == ("", 0)


def test_where_a_kept_sentence_goes_on_its_words_are_named() -> None:
    words, instead, text = missing("Returns are free within 30 days, unless worn.", "Returns are free within 30 days.")
    assert (words, text) == ("", 0)
    assert instead.startswith("unless")


def test_a_text_of_its_own_has_nothing_in_common() -> None:
    words, instead, text = missing(DOSE, "The bridge is closed.")
    assert words.startswith(("The bridge", "bridge"))
    assert (instead, text) == ("", -1)


@given(st.lists(passages(smallest=1), min_size=2, max_size=6), st.sampled_from(list(Tier)))
def test_a_verdict_in_words_is_the_same_verdict(texts: list[str], tier: Tier) -> None:
    """Naming what is missing changes no verdict, and a text stays exactly if something is named."""
    plain, explained = verdict(*texts, tier=tier), verdict(*texts, tier=tier, explain=True)
    assert (plain.link, plain.holders) == (explained.link, explained.holders)
    assert (explained.missing is None) == bool(explained.holders)


@given(st.lists(passages(smallest=1), min_size=2, max_size=8), st.sampled_from(list(Tier)))
def test_holders_are_kept_texts_and_few(texts: list[str], tier: Tier) -> None:
    """Holders are kept texts, each once; more than one only where pieces are joined; never one that was not kept."""
    ruling = verdict(*texts, tier=tier)
    assert len(set(ruling.holders)) == len(ruling.holders) <= MOST_HOLDERS
    assert all(0 <= holder < len(texts) - 1 for holder in ruling.holders)
    assert bool(ruling.holders) == (ruling.link is not Link.NONE)
    if tier is Tier.EXACT:
        assert len(ruling.holders) <= 1
    if ruling.link in {Link.EQUAL, Link.CONTAINED}:
        assert len(ruling.holders) == 1


@given(st.lists(passages(smallest=1), min_size=1, max_size=6), passages(smallest=1), st.sampled_from(list(Tier)))
def test_a_further_kept_text_lets_no_text_stay_that_left(texts: list[str], more: str, tier: Tier) -> None:
    """What is said by some kept texts is said by these and one more."""
    if leaves(*texts, tier=tier):
        assert leaves(*texts[:-1], more, texts[-1], tier=tier)


@given(ANY_TEXT | ODD_TEXT, ANY_TEXT | ODD_TEXT, st.sampled_from(list(Tier)))
def test_judging_never_raises(one: str, other: str, tier: Tier) -> None:
    """Whatever two texts are, there is a verdict, and a text is said by itself if it says anything."""
    verdict(one, other, tier=tier, explain=True)
    ruling = verdict(one, one, tier=tier)
    assert ruling.link is Link.EQUAL


@pytest.mark.parametrize("raw", ["", "   ", "\n\n", "...", "***"])
def test_a_text_that_says_nothing_is_held_by_its_equal_alone(raw: str) -> None:
    assert not leaves(DOSE, raw)
    assert not leaves("---", raw)
    assert leaves(raw, raw)


# Differences that are none for a reader of a page, and count in a final deletion.
LENIENT = {
    "articles": ("Open the valve at the end of the pipe.", "Open valve at end of the pipe."),
    "spelling": ("The colour of the centre is grey today.", "The color of the center is gray today."),
}


@pytest.mark.parametrize("name", LENIENT)
def test_a_final_deletion_passes_over_less(name: str) -> None:
    one, other = LENIENT[name]
    assert leaves(one, other, tier=Tier.SAID)
    assert leaves(one, other, tier=Tier.EDITED)
    assert not leaves(one, other, tier=Tier.EXACT)


def test_a_final_deletion_needs_one_text_that_says_all() -> None:
    words = [
        f"Line {n} of the log tells what the {w} did in that hour."
        for n, w in enumerate(["crane", "pump", "lift", "saw", "drill"])
    ]
    first, last, middle = " ".join(words[:4]), " ".join(words[2:]), " ".join(words[1:5])
    assert leaves(first, last, " ".join(words), middle, tier=Tier.EXACT)
    assert not leaves(first, last, middle, tier=Tier.EXACT)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Liability is limited to EUR 250,000 per claim under this clause.", "Liability is limited to EUR 2,000,000 per claim under this clause."),
        ("The service answers within 24 hours.", "The service answers within 15 minutes."),
        ("Article 5 applies to resellers.", "Article 5 does not apply to resellers."),
        ("Die Anlage l\u00e4uft mit 400 V.", "Die Anlage l\u00e4uft mit 230 V."),
        ("\u00d6\u011frenci gelir.", "\u00d6\u011frenci gelmez."),
        ("\u6cf5\u5728\u4e09\u70b9\u542f\u52a8", "\u6cf5\u5728\u4e94\u70b9\u542f\u52a8"),
        ("\u05d4\u05e9\u05e2\u05e8 \u05e4\u05ea\u05d5\u05d7 \u05d1\u05d9\u05d5\u05dd \u05e9\u05e0\u05d9", "\u05d4\u05e9\u05e2\u05e8 \u05e1\u05d2\u05d5\u05e8 \u05d1\u05d9\u05d5\u05dd \u05e9\u05e0\u05d9"),
        ("\u0e1b\u0e31\u0e4a\u0e21\u0e17\u0e33\u0e07\u0e32\u0e19", "\u0e1b\u0e31\u0e4a\u0e21\u0e44\u0e21\u0e48\u0e17\u0e33\u0e07\u0e32\u0e19"),
        ("\u0938\u092d\u093e \u0938\u094b\u092e\u0935\u093e\u0930 \u0915\u094b \u0939\u0948", "\u0938\u092d\u093e \u092e\u0902\u0917\u0932\u0935\u093e\u0930 \u0915\u094b \u0939\u0948"),
        ("\ud68c\uc758\ub294 \uc138 \uc2dc\uc5d0 \uc788\ub2e4", "\ud68c\uc758\ub294 \ub124 \uc2dc\uc5d0 \uc788\ub2e4"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("padding", ["", "long"])
@pytest.mark.parametrize("tier", list(Tier))
def test_a_fact_that_differs_keeps_a_result_in_any_language_and_length(
    one: str, other: str, padding: str, tier: Tier
) -> None:
    rest = " ".join(
        f"This is the text of paragraph {n}, which is the same in all of the documents that we have." for n in range(6)
    )
    if padding:
        one, other = f"{rest} {one} {rest[:-1]}", f"{rest} {other} {rest[:-1]}"
    assert not leaves(one, other, tier=tier)
    assert not leaves(other, one, tier=tier)


def test_a_blank_before_a_french_stop_is_formatting() -> None:
    assert leaves(
        "Le car part à huit heures ; il revient le soir : soyez là.",
        "Le car part à huit heures; il revient le soir: soyez là.",
    )


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("rm -rf ~/old", "rm -rf ~ /old"),
        ("cp notes.txt ..", "cp notes.txt ."),
        ('zip: "01234"', "zip: 01234"),
        ('rm "my file"', "rm my file"),
        ("run 2>log", "run 2 >log"),
        ("Use `pay(...all)` in the script.", "Use `pay(all)` in the script."),
        ('Use `{"n": "5"}` in the body.', 'Use `{"n": 5}` in the body.'),
    ],
)
def test_every_blank_and_mark_of_a_command_counts(one: str, other: str) -> None:
    before = "The store room is cleaned like this, by those who have the key of the cellar and know the way.\n\n"
    for first, second in ((one, other), (other, one)):
        assert not leaves(first, second)
        assert not leaves(before + first, before + second)


def test_a_kept_text_is_known_by_its_number() -> None:
    judge = Judge(Tier.EDITED)
    judge.keep(3, text_of("The red door is open."))
    judge.keep(7, text_of("The blue door is shut."))
    assert judge.verdict(text_of("Blue door is shut")).holders == (7,)
    assert judge.verdict(text_of("The red door is open.")).holders == (3,)


HARBOUR = (
    "The crane on the east quay lifts twelve tonnes and is checked each spring.\nIts driver needs a permit of the harbour office, "
    "which is given for one year."
)
TITLE = "Northern harbour                 Page {} of 9"


def test_a_running_title_is_set_aside_unless_the_other_text_has_another_one() -> None:
    one, other = f"{TITLE.format(3)}\n{HARBOUR}", f"{HARBOUR}\nThe northern harbour is closed in winter."
    assert verdict(other, one).link is Link.CONTAINED
    assert leaves(one, f"{HARBOUR}\nNORTHERN HARBOUR                 Page 7 of 9")
    assert leaves(HARBOUR, one), "as the title of a payload it tells where a text stands"
    assert not leaves(f"Southern harbour                 Page 3 of 9\n{HARBOUR}", one)
    assert not leaves(f"Home > Harbours > Southern harbour | Sign in\n{HARBOUR}", one)
    assert not leaves(f"Southern harbour\n{HARBOUR}", f"Northern harbour\n{HARBOUR}"), (
        "lines without a page number say something"
    )
    assert not leaves(other, one, tier=Tier.EXACT)


def test_metadata_of_the_document_before_a_chunk_tell_where_it_stands() -> None:
    def chunk(source: str, more: str = "") -> str:
        head = f"sourceDocument: {source}\npublished: 2025-02-03\n{more}"
        return f"<document_metadata>\n{head}</document_metadata>\n\n{HARBOUR}"

    assert leaves(chunk("a.pdf"), chunk("b (copy).pdf"))
    assert not leaves(chunk("a.pdf"), chunk("a.pdf", "scope: ships of the navy\n"))


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize(
    "head",
    ["Patient: Agnes", "# Withdrawn guidance", "DRAFT, NOT IN FORCE", "Horses only", "Never mix these", "Until 2018:", "#if 0", "- what not to do"],
)  # fmt: skip
def test_what_stands_below_a_line_that_is_no_sentence_is_said_under_it(head: str, length: int) -> None:
    body = " ".join(
        [f"{HARBOUR} Boats wait outside until a pilot has come aboard, and nobody lands before that."] * length
    )
    assert not leaves(f"{head}\n{body}", body)
    assert leaves(f"All that follows is the rule of the port.\n{body}", body)
    for other in ("Patient: Karl", "# Current guidance", "Cats only"):
        assert not leaves(f"{head}\n{body}", f"{other}\n{body}")


@pytest.mark.parametrize("length", [1, 3])
@pytest.mark.parametrize(
    "more",
    ["Unless the office forbids it.", "Except those in training.", "Only if line two is free.", "That was a lie.", "Exceptions: 12 and 14.", "Sauf le dimanche.", "Außer am Sonntag.", "Salvo los domingos.", "Кроме воскресенья."],
)  # fmt: skip
def test_a_sentence_about_the_one_before_it_keeps_the_result(more: str, length: int) -> None:
    body = " ".join([HARBOUR.replace("\n", " ")] * length)
    assert not leaves(f"{body} {more}", body)
    assert leaves(f"{body} The office is open on Mondays.", body)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("The motion obeys y' = 0 here.", "The motion obeys y'' = 0 here."),
        (";extension=ldap", "extension=ldap"),
        ("/build\n!/build/keep", "/build\n/build/keep"),
    ],
)
def test_marks_that_look_like_formatting_count_where_they_say_something(one: str, other: str) -> None:
    for before in ("", "Lines of the file that the service reads at each start.\n"):
        assert not leaves(before + one, before + other)
        assert not leaves(before + other, before + one)


def test_a_line_of_code_ends_where_its_statement_does() -> None:
    lines = [f"    total_{n} = read(source_{n}, limit={n})" for n in range(12)]
    text = "\n".join(["def summed(source):", *lines, "    return total"])
    assert not leaves(f"{text} * 0.8", text)
    assert leaves(f"{text}\n    # not reached", text)
