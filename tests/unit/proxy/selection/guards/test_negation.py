"""Which way a text points: denials, what is taken back, opposites, in several languages; and paraphrases that survive."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.guards import negation
from vecsieve.proxy.selection.guards import negation as guards_negation
from vecsieve.proxy.selection.guards.negation import contradict, polarity
from vecsieve.proxy.selection.guards.numerals import spelled

CUES = "it is not no never lifts ban on off rise fall more than less turn 不 ない"


def opposed(one: str, other: str) -> bool:
    first, second = polarity(one), polarity(other)
    assert contradict(first, second) is contradict(second, first)
    return contradict(first, second)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("EU bans diesel cars", "EU lifts ban on diesel cars"),
        ("FAA continues ban on US flights to Tel Aviv", "FAA lifts ban on US flights to Tel Aviv"),
        ("Remove leading blanks with lstrip.", "Remove trailing blanks with rstrip."),
        ("The option is enabled by default", "The option is disabled by default"),
        ("The option is enabled by default", "The option is not enabled by default"),
        ("It works", "It doesn't work"),
        ("It works", "it doesnt work"),
        ("Prices rose in May", "Prices fell in May"),
        ("Shares open higher", "Shares open lower"),
        ("The first argument", "The last argument"),
        ("turn the light on", "turn the light off"),
        ("More than ten users", "Less than ten users"),
        ("The minimum size of a batch", "The maximum size of a batch"),
        ("Council approves the plan", "Council never approves the plan"),
        ("Court accepts the appeal", "Court rejects the appeal"),
        ("UN mission in Mali", "UN suspends mission in Mali"),
        ("This is safe to eat", "This is unsafe to eat"),
        ("coffee with sugar", "coffee without sugar"),
        ("You must sign the form", "You must not sign the form"),
        ("buy shares now", "sell shares now"),
        ("Sign in", "Sign out"),
        (
            "The tenant must repair the roof within thirty days.",
            "The landlord must repair the roof within thirty days.",
        ),
        ("The supplier shall deliver the goods to the site.", "The supplier may deliver the goods to the site."),
        ("The client closes the connection after the timeout.", "The server closes the connection after the timeout."),
        ("Gets the value of the field.", "Sets the value of the field."),
        ("Returns the width of the image in pixels.", "Returns the height of the image in pixels."),
        ("Patients with hypotension should avoid this drug.", "Patients with hypertension should avoid this drug."),
        ("The buyer bears the cost of transport.", "The seller bears the cost of transport."),
        ("Net income rose by 4 percent", "Gross income rose by 4 percent"),
    ],
)
def test_almost_the_same_words_pointing_opposite_ways(one: str, other: str) -> None:
    assert opposed(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("What's my balance?", "How can I check my balance?"),
        ("It's not a good idea.", "I do not think it's a good idea."),
        ("Smoking is not allowed here", "Smoking is forbidden here"),
        ("It is not legal to park here", "It is illegal to park here"),
        ("It is not safe to swim", "It is dangerous to swim"),
        ("It is unsafe to swim", "It is dangerous to swim"),
        ("The plan was rejected", "The plan was not accepted"),
        ("The test has failed", "The test did not pass"),
        ("16 year olds aren't mature enough to vote", "16 is too immature an age to vote"),
        ("Court rejects appeal", "Court denies appeal"),
        ("He cannot swim", "He is unable to swim"),
        ("no doubt it works", "it works"),
        ("Not only dogs bark", "Dogs bark"),
        ("No. 5 wins the race", "Number 5 wins the race"),
        ("Whether or not it rains", "Whether it rains"),
        ("Open and close the door", "Open the door and close it"),
        ("He lifts the box", "He takes the box"),
        ("United nations under one roof", "Nations with one roof"),
        ("Tablets are more likely to be stolen", "Books are less likely to be stolen"),
        ("The landlord pays the tenant back", "The tenant is paid back by the landlord"),
        ("The supplier shall deliver in May", "The supplier shall deliver in the month of May"),
        ("Get the size of the set", "Get how large the set is"),
        ("", ""),
    ],
)
def test_paraphrases_do_not_contradict(one: str, other: str) -> None:
    assert not opposed(one, other)


def test_a_not_in_other_words_says_nothing() -> None:
    one = "It would be highly impractical to prohibit violent songs"
    other = "Nobody could stop people from listening to what they want"
    assert not opposed(one, f"{other}, and that is not all")
    assert not opposed("How do I change my card pin?", "My new card has not come, where is it?")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Das Gerät ist wasserdicht", "Das Gerät ist nicht wasserdicht"),
        ("Le service est disponible", "Le service n'est pas disponible"),
        ("El servicio funciona hoy", "El servicio nunca funciona hoy"),
        ("O serviço está disponível", "O serviço não está disponível"),
        ("Il servizio è attivo", "Il servizio non è attivo"),
        ("De dienst is beschikbaar", "De dienst is niet beschikbaar"),
        ("Tjänsten är tillgänglig", "Tjänsten är inte tillgänglig"),
        ("Usługa jest dostępna", "Usługa nie jest dostępna"),
        ("Сервис доступен сегодня", "Сервис не доступен сегодня"),
        ("Сервіс доступний", "Сервіс не доступний"),
        ("Η υπηρεσία είναι διαθέσιμη", "Η υπηρεσία δεν είναι διαθέσιμη"),
        ("الخدمة متاحة اليوم", "الخدمة غير متاحة اليوم"),
        ("השירות זמין היום", "השירות לא זמין היום"),
        ("यह सेवा उपलब्ध है", "यह सेवा उपलब्ध नहीं है"),
        ("Layanan ini tersedia", "Layanan ini tidak tersedia"),
        ("Dịch vụ này có sẵn", "Dịch vụ này không có sẵn"),
        ("该功能已启用", "该功能未启用"),
        ("他会来", "他不会来"),
        ("この機能は使えます", "この機能は使えません"),
        ("บริการนี้ใช้ได้", "บริการนี้ใช้ไม่ได้"),
        ("이 기능을 사용할 수 있습니다", "이 기능을 사용할 수 없습니다"),
        ("Bu hizmet mevcut", "Bu hizmet mevcut değil"),
    ],
)
def test_a_denial_in_many_languages(one: str, other: str) -> None:
    assert opposed(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("O jogo é no Brasil", "O jogo é em Brasil"),
        ("这个不错", "这个很好"),
        ("未来的计划", "将来的计划"),
        ("人が少ない町", "人が少し住む町"),
        ("le 5 mai à Paris", "le 5 de mai à Paris"),
    ],
)
def test_words_that_only_look_like_a_denial(one: str, other: str) -> None:
    assert not opposed(one, other)


@given(st.text(max_size=200), st.text(max_size=200))
def test_any_two_texts_are_compared_both_ways_alike(one: str, other: str) -> None:
    # Invariant: no exception, symmetric, and no text contradicts itself.
    assert opposed(one, other) in {True, False}
    assert not opposed(one, one)


@given(st.lists(st.sampled_from(CUES.split()), max_size=12))
def test_any_mixture_of_cues_is_compared_both_ways_alike(words: list[str]) -> None:
    # Invariant: the order of a text's words may change its reading, but never its being its own copy.
    assert not opposed(" ".join(words), " ".join(words))
    opposed(" ".join(words), "".join(words))


def test_the_word_lists_are_spelled_as_texts_are() -> None:
    for word in negation.NEGATIONS:
        assert spelled(word) == word
    assert spelled(guards_negation.PAIRS).split() == guards_negation.PAIRS.split()


def test_every_pair_has_two_sides_and_no_word_on_both() -> None:
    for line in guards_negation.PAIRS.strip().splitlines():
        left, right = ({word.strip() for word in side.split(",")} for side in line.split("|"))
        assert all(left)
        assert all(right)
        assert not left & right, line


def test_both_sides_of_an_opposite_are_not_one_of_them() -> None:
    both = polarity("Return a copy of the bytes with leading and trailing whitespace removed")
    one = polarity("Return a copy of the bytes with trailing whitespace removed")
    assert contradict(both, one)
    assert contradict(one, both)
    assert not contradict(both, both)


def test_what_one_denies_in_the_words_of_the_other_is_opposite_however_they_go_on() -> None:
    for_it = "we should close the camp because the people there belong before courts of their own countries"
    against_it = "we should not close the camp because it holds a lot of bad men"
    assert opposed(for_it, against_it)
    assert not opposed(against_it, "it is not the time: we should not close the camp while bad men are held there")
    assert not opposed(for_it, "bad men are held there, so do not open any camp like it")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("这个功能支持中文", "这个功能不支持中文"),  # Chinese
        ("यह दवा बच्चों के लिए सुरक्षित है", "यह दवा बच्चों के लिए सुरक्षित नहीं है"),  # Hindi
        ("La tarjeta funciona en el extranjero", "La tarjeta nunca funciona en el extranjero"),  # Spanish
        ("La opción está activada", "La opción está desactivada"),
        ("El límite mínimo de la cuenta", "El límite máximo de la cuenta"),
        ("Le paiement est accepté", "Le paiement n'est pas accepté"),  # French
        ("Le magasin est ouvert", "Le magasin est fermé"),
        ("يعمل التطبيق على الهاتف", "لا يعمل التطبيق على الهاتف"),  # Arabic
        ("أرسل الطلب قبل الدفع", "أرسل الطلب بعد الدفع"),
        ("এই কার্ড বিদেশে কাজ করে", "এই কার্ড বিদেশে কাজ করে না"),  # Bengali
        ("এটা আমার বই", "এটা আমার বই নয়"),
        ("সেবাটি এখন চালু", "সেবাটি এখন বন্ধ"),
        ("O pagamento foi aceito", "O pagamento não foi aceito"),  # Portuguese
        ("O preço subiu em maio", "O preço caiu em maio"),
        ("Карта работает за границей", "Карта не работает за границей"),  # Russian
        ("Функция включена по умолчанию", "Функция выключена по умолчанию"),
        ("یہ کارڈ بیرون ملک چلتا ہے", "یہ کارڈ بیرون ملک نہیں چلتا ہے"),  # Urdu
        ("دفتر پہلے کھلتا ہے", "دفتر بعد کھلتا ہے"),
        ("Die Funktion ist aktiviert", "Die Funktion ist deaktiviert"),  # German
        ("Die Karte ist gültig", "Die Karte ist nicht gültig"),
    ],
)
def test_the_largest_languages_have_negations_and_opposites(one: str, other: str) -> None:
    assert opposed(one, other)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("La opción está activada", "La opción está habilitada"),
        ("La opción nunca se activa", "La opción no se activa"),
        ("Le magasin ouvre avant midi et ferme après", "Le magasin ferme après midi et ouvre avant"),
        ("Функция включена", "Функция включена по умолчанию"),
        ("यह दुकान चालू है", "दुकान चालू है"),
        ("এই কার্ড কাজ করে না", "এই কার্ডটি কাজ করে না"),
        ("Die Karte ist nicht gültig", "Nicht gültig ist die Karte"),
    ],
)
def test_paraphrases_in_other_languages_do_not_contradict(one: str, other: str) -> None:
    assert not opposed(one, other)
