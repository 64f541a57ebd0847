"""What kept texts say of a candidate: runs, and how they join; ends of short and of long texts."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.selection.judgements import leaves, plain, verdict
from vecsieve.proxy.selection.judging.covering import MOST_RUNS, RUN, Index, short_sentences
from vecsieve.proxy.selection.policy import Tier
from vecsieve.proxy.selection.values import Link

# Sentences of one document, 17 to 25 tokens each.
A = "The mill by the upper lake was built of grey stone in the year when the road to the valley was opened."
B = "Its wheel turned for ninety winters before the miller's daughter sold the water rights to a paper company."
C = "The company never used them, because the spring dried up after the tunnel was driven through the ridge."
D = "Today a small museum shows the gears, the sacks with their old stamps and a model of the first dam."
E = "Visitors reach it on foot from the bus stop at the chapel, along a path that is closed after heavy snow."
F = "Those who come in spring see the last of the sluices raised by hand, once a day, for as long as the water lasts."


def chunk(*sentences: str) -> str:
    return " ".join(sentences)


def test_a_text_within_another_leaves() -> None:
    assert verdict(chunk(A, B, C), B).link is Link.CONTAINED
    assert verdict(chunk(A, B, C), chunk(B, C)).link is Link.CONTAINED


def test_an_equal_text_is_equal() -> None:
    assert verdict(chunk(A, B), chunk(A, B)).link is Link.EQUAL
    assert verdict(chunk(A, B), chunk(A, B).replace(". ", ".\n\n")).link is Link.EQUAL


@pytest.mark.parametrize(
    ("kept", "candidate"),
    [
        pytest.param(B, chunk(A, B, C), id="the longer of two texts"),
        pytest.param(A, chunk(A, "It is open."), id="a text with a sentence more"),
        pytest.param(chunk(A, B, C, D, E), chunk(A, B, C, D, E, "Dogs stay out."), id="a sentence at the end"),
        pytest.param(chunk(A, B, C, D, E), chunk("Closed.", A, B, C, D, E), id="a sentence at the beginning"),
        pytest.param(chunk(A, B, C, D, E), chunk(A, B, "Nobody knows why.", C, D, E), id="a sentence in the middle"),
        # what a colon introduces does not stand alone
        ("Superseded in May:\nThe fee is five euros.", "The fee is five euros."),
        ("What nobody may do:\n- store keys in git\n- share a key", "- store keys in git\n- share a key"),
        pytest.param(chunk(A, B), chunk(A, B.replace("ninety ", "")), id="a word left out"),
        pytest.param(chunk(A, B, C), chunk(A, "Its wheel turned for ninety winters", C), id="a first word left out"),
        pytest.param(chunk(A, B, C), chunk(C, A), id="another order of sentences"),
    ],
)
def test_a_result_stays(kept: str, candidate: str) -> None:
    assert not leaves(kept, candidate)


@pytest.mark.parametrize("padding", ["", chunk(A, B, C, D)])
@pytest.mark.parametrize(
    ("kept", "candidate"),
    [
        ("Is parking free? No. Is the Wi-Fi free? Yes.", "Is parking free? Yes."),
        (
            "Karl leads the sales team. Bo leads the service team. He joined the company in March.",
            "Karl leads the sales team. He joined the company in March.",
        ),
        ("Name: Ada Berg\nCity: Rome\nName: Bo Cole\nCity: Oslo", "Name: Ada Berg\nCity: Oslo"),
        ("User: Is it open?\nAgent: No.\nUser: Is it safe?\nAgent: Yes.", "User: Is it open?\nAgent: Yes."),
        ("停车免费吗？不免费。无线网络免费吗？免费。", "停车免费吗？免费。"),
    ],
)
def test_sentences_of_one_text_do_not_make_another_statement(kept: str, candidate: str, padding: str) -> None:
    assert not leaves(f"{padding}\n{kept}", f"{padding}\n{candidate}")


def overlapping(size: int, *parts: int) -> list[str]:
    """Windows of a document, by their first words; each of ``size`` words."""
    words = chunk(A, B, C, D, E, F).split()
    return [" ".join(words[part : part + size]) for part in parts]


def test_a_chunk_that_its_two_neighbours_say_together_leaves() -> None:
    first, third, second = overlapping(80, 0, 40, 20)
    ruling = verdict(first, third, second)
    assert ruling.link is Link.JOINED
    assert set(ruling.holders) == {0, 1}


def test_an_overlap_of_a_few_words_does_not_join() -> None:
    words = chunk(A, B, C, D, E, F).split()
    first, third = " ".join(words[:50]), " ".join(words[46:])
    assert not leaves(first, third, " ".join(words[10:90]))


def test_chunks_that_follow_without_overlap_join() -> None:
    words = chunk(A, B, C, D, E, F).split()
    assert leaves(" ".join(words[:60]), " ".join(words[60:]), " ".join(words[15:105]))


RECORDS = (
    "Name of the customer: Ada Berg. Plan of the contract: Basic, paid by the year. Next review of the account: in the spring.",
    "Name of the customer: Bo Cole. Plan of the contract: Premium, paid by the month. Next review of the account: in the summer.",
    "Name of the customer: Cy Dahl. Plan of the contract: Trial, paid by nobody yet. Next review of the account: in the autumn.",
)


def test_pieces_of_three_records_do_not_make_a_fourth() -> None:
    sentences = [record.split(". ") for record in RECORDS]
    fourth = f"{sentences[0][0]}. {sentences[1][1]}. {sentences[2][2]}"
    assert not leaves(*RECORDS, fourth)
    long = [f"{A} {record} {C} {E}" for record in RECORDS]
    assert not leaves(*long, f"{A} {fourth} {C} {E}")


@pytest.mark.parametrize(
    ("kept", "candidate"),
    [
        ("Returns are accepted within 30 days, unless the seal is broken.", "Returns are accepted within 30 days."),
        ("Members pay nine euros a month plus VAT.", "Members pay nine euros a month."),
        ("Nobody said that the lift is safe to use again.", "The lift is safe to use again."),
        ("If the valve is closed, the pump may be started by hand.", "The pump may be started by hand."),
        ("Der Zugang ist f\u00fcr Mieter frei, au\u00dfer an Feiertagen.", "Der Zugang ist f\u00fcr Mieter frei."),
        ("L'entr\u00e9e est libre pour les enfants, sauf le lundi.", "L'entr\u00e9e est libre pour les enfants."),
        ("\u4f1a\u5458\u6bcf\u6708\u4ed8\u8d39\u4e5d\u6b27\u5143\uff0c\u4e0d\u542b\u7a0e\u3002", "\u4f1a\u5458\u6bcf\u6708\u4ed8\u8d39\u4e5d\u6b27\u5143\u3002"),
        ("\u0412\u0445\u043e\u0434 \u0434\u043b\u044f \u0434\u0435\u0442\u0435\u0439 \u0441\u0432\u043e\u0431\u043e\u0434\u043d\u044b\u0439, \u043a\u0440\u043e\u043c\u0435 \u0441\u0443\u0431\u0431\u043e\u0442\u044b.", "\u0412\u0445\u043e\u0434 \u0434\u043b\u044f \u0434\u0435\u0442\u0435\u0439 \u0441\u0432\u043e\u0431\u043e\u0434\u043d\u044b\u0439."),
    ],
)  # fmt: skip
@pytest.mark.parametrize("tier", list(Tier))
def test_of_a_short_text_a_kept_sentence_that_goes_on_keeps_the_result(kept: str, candidate: str, tier: Tier) -> None:
    assert not leaves(kept, candidate, tier=tier)


def test_of_a_long_text_an_end_may_be_a_windows_cut() -> None:
    words = chunk(A, B, C, D, E, F).split()
    assert leaves(" ".join(words), " ".join(words[5:85]))
    assert not leaves(" ".join(words), " ".join(words[5:40]))


def test_a_long_text_that_ends_its_sentence_is_not_cut() -> None:
    whole = chunk(A, B, C, D, E)
    ended = whole[: whole.index(", along a path")] + "."
    assert not leaves(whole, ended)


def test_what_somebody_else_said_does_not_hold_what_the_result_says_itself() -> None:
    sentence = "The invoice of the second quarter was paid in full on the first day of the month."
    mail = f"I see it differently, and so does my lawyer.\n\nOn Monday Bo Cole wrote:\n> {sentence}"
    assert not leaves(mail, sentence)


def test_a_run_is_evidence_from_six_tokens_on_or_as_a_whole_sentence() -> None:
    assert leaves("Stop now. Read the manual first.", "Stop now.")
    assert not leaves("Please stop now and read it.", "stop now")
    assert leaves("It is here: stop now and read every page of it.", "It is here: stop now and read every page of it")


TOKENS = st.lists(st.sampled_from(["a", "b", "c", "d", "e", "f"]), max_size=40)


@given(st.lists(TOKENS, max_size=5), TOKENS)
def test_every_run_is_equal_on_both_sides_and_cannot_be_longer(kept: list[list[str]], candidate: list[str]) -> None:
    """The tokens of a run stand in the kept text as they are, and the next ones differ."""
    index = Index()
    for number, words in enumerate(kept):
        index.add(number, plain(" ".join(words)))
    passage = plain(" ".join(candidate))
    runs = index.runs(passage)
    assert runs is not None
    assert len(runs) <= MOST_RUNS
    for run in runs:
        theirs = index.texts[run.text].tokens
        assert passage.tokens[run.start : run.end] == theirs[run.at : run.until]
        if run.end - run.start >= RUN and run.end < len(passage.tokens) and run.until < len(theirs):
            assert passage.tokens[run.end] != theirs[run.until]


SENTENCES = (A, B, C, D, E, "It is closed.", "Bring 12 coins.", "Never alone.", "See page 4.")


@given(st.lists(st.lists(st.sampled_from(SENTENCES), min_size=1, max_size=6), min_size=1, max_size=5), st.data())
def test_what_leaves_is_said(texts: list[list[str]], data: st.DataObject) -> None:
    """Every token of a text that leaves is within a run of at least six tokens, or a whole sentence, of the kept texts."""
    tier = data.draw(st.sampled_from([Tier.EXACT, Tier.SAID]))
    drawn = [chunk(*sentences).split() for sentences in texts]
    cuts = [data.draw(st.integers(0, max(len(words) - 3, 0))) for words in drawn]
    known = [
        " ".join(words[cut:] if data.draw(st.booleans()) else words[: len(words) - cut])
        for words, cut in zip(drawn, cuts, strict=True)
    ]
    ruling = verdict(*known, tier=tier)
    if not ruling.holders:
        return
    candidate = plain(known[-1], exact=tier is Tier.EXACT)
    kept = [plain(text, exact=tier is Tier.EXACT).tokens for text in known[:-1]]
    covered = [False] * len(candidate.tokens)
    spans = [(start, start + RUN) for start in range(len(covered) - RUN + 1)] + short_sentences(candidate)
    for start, end in spans:
        if any(stands_in(candidate.tokens[start:end], tokens) for tokens in kept):
            covered[start:end] = [True] * (end - start)
    assert all(covered) or candidate.tokens in kept
    if tier is Tier.EXACT:
        assert any(stands_in(candidate.tokens, tokens) for tokens in kept)


def stands_in(needle: tuple[str, ...], tokens: tuple[str, ...]) -> bool:
    return any(tokens[at : at + len(needle)] == needle for at in range(len(tokens) - len(needle) + 1))


@pytest.mark.parametrize(
    "text",
    [
        "word " * 3_000,
        "a b " * 1_500,
        "Go on. " * 1_000,
        " ".join(f"one two three four five six {n}" for n in range(400)),
    ],
)
def test_a_gram_that_stands_everywhere_is_followed_a_bounded_number_of_times(text: str) -> None:
    index = Index()
    for number in range(50):
        index.add(number, plain(f"{text} {number}"))
    runs = index.runs(plain(f"{text} and no more"))
    assert runs is None or len(runs) <= MOST_RUNS


HINDI = (
    "पुस्तकालय सोमवार को छोड़कर हर दिन सुबह नौ बजे से शाम सात बजे तक खुला रहता है और सदस्य एक बार में पाँच किताबें तीन सप्ताह के लिए ले जा सकते हैं। "
    "देर से लौटाने पर हर दिन दो रुपये का शुल्क लगता है और खोई हुई किताब का पूरा मूल्य देना पड़ता है। "
    "शब्दकोश और नक्शे बाहर नहीं ले जाए जा सकते और वाचनालय में खाना पीना मना है। "
    "बच्चों का कमरा शाम छह बजे बंद होता है और समूह एक सप्ताह पहले फोन करके समय लेते हैं।"
)


def test_a_window_of_a_script_without_case_may_begin_inside_a_sentence() -> None:
    words = HINDI.split()
    assert len(words) > 75
    assert leaves(HINDI, " ".join(words[4:-3]))


@pytest.mark.parametrize("head", ["Nur", "Keine", "Ehemalige"])
def test_of_two_texts_that_end_alike_neither_is_a_window_that_begins_in_the_first_sentence_of_the_other(
    head: str,
) -> None:
    rules = chunk("Mitglieder dürfen die Halle am Sonntag nutzen.", A, B, C, D)
    assert not leaves(f"{head} {rules}", rules)
    assert not leaves(f"not {rules.lower()}", rules.lower())
    assert not leaves(f"न {HINDI}", HINDI)
    assert leaves(f"{head} {rules} {E}", rules)


@pytest.mark.parametrize(
    ("text", "last"), [("Die Mitglieder dürfen sie nutzen", "nicht"), ("Üyeler onu kullanabilir", "değil")]
)
def test_a_last_word_is_no_windows_cut(text: str, last: str) -> None:
    whole = chunk(A, B, C, D, text)
    assert not leaves(f"{whole} {last}", whole)
    assert leaves(f"{whole} {last} as the board of the mill has said before", whole)


def test_a_text_under_a_title_is_no_window() -> None:
    rules = " ".join((A, B, C, D))
    assert leaves(f"the rules of the mill\n\n{rules}", f"the rules of the mill\n\n{rules}")
    assert not leaves(f"not the rules of the mill\n\n{rules}", f"the rules of the mill\n\n{rules}")
