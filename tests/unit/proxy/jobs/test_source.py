"""The text of a payload: the first named field that holds one. And the pace of requests."""

from __future__ import annotations

import itertools
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.proxy.jobs.source import TEXT_CHARACTERS, Pace, shortened, text_of, value_at

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def test_a_file_name_under_a_usual_name_is_no_text_unless_the_user_names_it() -> None:
    payload = {"document": "pump.pdf", "body": "The valve is closed."}
    assert text_of(payload) == "The valve is closed."
    assert text_of({"document": "pump.pdf"}) is None
    assert text_of(payload, ("document",)) == "pump.pdf"


def test_a_path_leads_into_an_object_that_is_spelled_as_a_string() -> None:
    assert text_of({"_node_content": '{"text": "The valve is closed."}'}) == "The valve is closed."
    assert text_of({"_node_content": '{"text":'}) is None


def test_the_first_field_in_the_callers_order_wins() -> None:
    payload = {"body": "b", "title": "t"}
    assert text_of(payload, ("title", "body")) == "t"
    assert text_of(payload, ("body", "title")) == "b"


@pytest.mark.parametrize("value", [None, 3, "", "  \n", ["text"], {"text": "x"}])
def test_what_is_no_text_is_passed_over(value: object) -> None:
    assert text_of({"text": value}) is None
    assert text_of({"text": value, "content": "c"}) == "c"


def test_dots_lead_inwards_and_a_key_with_dots_goes_first() -> None:
    assert text_of({"metadata": {"page": {"text": "deep"}}}, ("metadata.page.text",)) == "deep"
    assert text_of({"metadata.source": "flat", "metadata": {"source": "deep"}}, ("metadata.source",)) == "flat"
    assert text_of({"metadata": {"page.text": "half"}}, ("metadata.page.text",)) == "half"


@pytest.mark.parametrize("field", ["a.b.c", "a.", ".", ".a", "", "a.b.c.d"])
def test_a_way_that_leads_nowhere_holds_nothing(field: str) -> None:
    assert value_at({"a": {"b": 3}}, field) is None


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.lists(st.text(max_size=8), max_size=4))
def test_any_payload_has_a_text_or_none(payload: Mapping[str, object], fields: list[str]) -> None:
    """Whatever the payload and the fields, what comes back is a string with something in it, or None."""
    text = text_of(payload, fields)
    assert text is None or text.strip()


# Requests go out evenly spread, never faster than asked, and without waiting where there is no limit.


class Clock:
    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []

    def sleep(self, seconds: float) -> None:
        assert seconds > 0
        self.slept.append(seconds)
        self.now += seconds


def pace(clock: Clock, rate: float | None) -> Pace:
    return Pace(rate, clock=lambda: clock.now, sleep=clock.sleep)


def test_the_first_request_goes_at_once_and_the_next_wait_their_turn() -> None:
    clock = Clock()
    paced = pace(clock, 4.0)
    for _ in range(5):
        paced.wait()
    assert clock.slept == pytest.approx([0.25] * 4)


def test_time_spent_on_the_answer_counts() -> None:
    clock = Clock()
    paced = pace(clock, 4.0)
    paced.wait()
    clock.now += 0.2
    paced.wait()
    assert clock.slept == pytest.approx([0.05])


def test_time_not_used_is_not_saved_up() -> None:
    clock = Clock()
    paced = pace(clock, 4.0)
    paced.wait()
    clock.now += 60.0
    for _ in range(3):
        paced.wait()
    assert clock.slept == pytest.approx([0.25, 0.25])


def test_without_a_limit_nothing_waits() -> None:
    clock = Clock()
    paced = pace(clock, None)
    for _ in range(100):
        paced.wait()
    assert clock.slept == []


@given(st.floats(0.1, 1000.0), st.lists(st.floats(0.0, 3.0), min_size=2, max_size=30))
def test_two_requests_are_never_nearer_than_the_rate_allows(rate: float, answers: list[float]) -> None:
    """Whatever the answers take, at least 1 / rate seconds lie between two requests."""
    clock = Clock()
    paced = pace(clock, rate)
    sent: list[float] = []
    for seconds in answers:
        paced.wait()
        sent.append(clock.now)
        clock.now += seconds
    assert all(later - earlier >= 1 / rate - 1e-9 for earlier, later in itertools.pairwise(sent))


# Whatever a collection holds, what is shown of it is one line of visible signs.


@given(st.text())
def test_a_shortened_text_is_one_line_of_visible_signs(text: str) -> None:
    """Whatever goes in: no control sign, no line break, no double blank, bounded, and encodable."""
    line = shortened(text)
    assert line.isprintable()
    assert len(line) <= TEXT_CHARACTERS
    assert "  " not in line
    line.encode()
    assert shortened(line) == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("one\n two\t three", "one two three"),
        ("soft\u00adhyphen and \u202eturned", "softhyphen and turned"),
        ("\x1b[31mred\x07", "[31mred"),
        ("half \ud800 a pair", "half a pair"),
        ("漢字 и текст", "漢字 и текст"),
    ],
)
def test_what_a_terminal_would_act_on_is_gone(text: str, line: str) -> None:
    assert shortened(text) == line


def test_a_long_text_ends_in_an_ellipsis() -> None:
    line = shortened("word " * 100)
    assert line.endswith("…")
    assert TEXT_CHARACTERS - 5 < len(line) <= TEXT_CHARACTERS
