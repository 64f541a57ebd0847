"""Amounts: the currency or unit in one spelling, wherever it stands, and nothing taken for one that is a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.guards.figures import NONE, amounts, differ, figures
from vecsieve.proxy.selection.guards.numerals import spelled


@pytest.mark.parametrize(
    ("texts", "amount"),
    [
        (["0.28%", "0.28 %", "0.28 percent", "0.28 per cent", "０.28％", "0.280 pct"], "0.28 %"),
        (["$5", "US$5", "5 dollars", "5 USD", "$ 5.00", "USD 5"], "5 $"),
        (["€3,50", "3.50 euros", "EUR 3.5", "3,5€"], "3.5 €"),
        (["$1.5 billion", "$1.5bn", "1.5 billion dollars", "$1,500 million", "$1500m"], "1500000000 $"),
        (["£10k", "10,000 pounds", "GBP 10000"], "10000 £"),
        (["10 ms", "10ms", "10 milliseconds", "10 msec"], "10 ms"),
        (["20 kB", "20kb", "20 kilobytes"], "20 kb"),
        (["3 days", "3-day", "3 day"], "3 day"),
        (["5kg", "5 kg", "5 kilograms", "5 kilos"], "5 kg"),
        (["-5 degrees", "\u22125 °C", "-5°"], "-5 °"),
        (["-$5", "$-5"], "-5 $"),
        (["5g", "5 grams"], "5 g"),
        (["2 million tonnes", "2,000,000 tons"], "2000000 t"),
    ],
)
def test_one_amount_in_many_spellings(texts: list[str], amount: str) -> None:
    assert [amounts(spelled(text))[0] for text in texts] == [[amount]] * len(texts)


@pytest.mark.parametrize(
    ("one", "other"),
    [("0.28 %", "0.19 %"), ("$5", "€5"), ("5 ms", "5 s"), ("2 days", "2 weeks"), ("5 %", "-5 %"), ("1 mb", "1 gb")],
)
def test_another_number_or_another_unit_is_another_amount(one: str, other: str) -> None:
    assert amounts(one)[0] != amounts(other)[0]


@pytest.mark.parametrize(
    "text", ["5 a day", "type 5 m", "room 5b2", "1.0", "covid-19", "3 people", "5 percentiles", "x5mm3"]
)
def test_letters_that_are_no_unit_stay(text: str) -> None:
    assert amounts(text) == ([], text)


def test_what_was_read_is_gone_and_the_rest_stays() -> None:
    found, rest = amounts("open 0.28% lower, 3 of 5 fell")
    assert found == ["0.28 %"]
    assert rest.split() == ["open", ";", "lower,", "3", "of", "5", "fell"]


@given(st.text(alphabet="0123456789.,'-+$€£ %kmbgslhour°", max_size=60))
def test_any_text_is_read_without_an_error(text: str) -> None:
    # Invariant: each amount found is a number without zeros that carry nothing, and a unit.
    for amount in amounts(spelled(text))[0]:
        number, unit = amount.split(" ")
        assert number.lstrip("-").replace(".", "").isdigit()
        assert unit


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("espera 5 horas", "espera 5 días"),
        ("attendre 5 heures", "attendre 5 semaines"),
        ("esperar 3 minutos", "esperar 3 meses"),
        ("warte 3 Stunden", "warte 3 Wochen"),
        ("ждать 3 часа", "ждать 3 дня"),
        ("3 घंटे रुकें", "3 दिन रुकें"),
        ("৩ ঘণ্টা অপেক্ষা", "৩ দিন অপেক্ষা"),
        ("انتظر 3 ساعات", "انتظر 3 أيام"),
        ("3 گھنٹے انتظار", "3 دن انتظار"),
        ("等待3小时后重试", "等待3天后重试"),
        ("体重5公斤", "距离5公里"),
    ],
)
def test_the_same_number_of_another_unit_is_another_amount_in_the_largest_languages(one: str, other: str) -> None:
    assert differ(figures(one).amounts, figures(other).amounts)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("tres horas", "3h"),
        ("trois heures", "3 hours"),
        ("três horas", "3h"),
        ("drei Stunden", "3h"),
        ("три часа", "3h"),
        ("तीन घंटे", "3 hours"),
        ("তিন ঘণ্টা", "৩ ঘণ্টা"),
        ("ثلاث ساعات", "٣ ساعات"),
        ("تین گھنٹے", "3 hours"),
        ("3小时", "3 小時"),
        ("5 долларов", "$5"),
    ],
)
def test_spellings_of_one_amount_are_one_in_the_largest_languages(one: str, other: str) -> None:
    assert figures(one).amounts == figures(other).amounts != ()


@pytest.mark.parametrize("text", ["दस्त की दवा", "Tage", "час", "metro", "दोनों विकल्प", "vieracker"])
def test_a_word_that_only_begins_like_a_number_or_stands_without_one_counts_nothing(text: str) -> None:
    assert figures(text) == NONE
