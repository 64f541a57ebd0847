"""Amounts: the currency or unit in one spelling, wherever it stands, and nothing taken for one that is a word."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.selection.guards.figures import amounts
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
