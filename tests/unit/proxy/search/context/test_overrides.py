"""Override headers are obeyed, or refused by a message that repeats nothing of the request."""

from __future__ import annotations

import dataclasses
from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vecsieve.config.policy import MmrSettings
from vecsieve.config.schema import Settings
from vecsieve.config.values import Override
from vecsieve.proxy.search.context.overrides import HEADERS, OverrideError, parse
from vecsieve.proxy.search.policy import Policies, ResolvedPolicy, is_override, mmr_of
from vecsieve.proxy.selection.diversifiers.dpp import Dpp
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import Certain, Fixed, Linkage, Order, Relative, Strategy
from vecsieve.proxy.telemetry.labels import OverrideName


def policy(**members: object) -> ResolvedPolicy:
    return Policies(Settings.model_validate({"policy": members})).resolve("qdrant", "c")


def given_headers(*headers: tuple[str, str], **members: object) -> ResolvedPolicy:
    return parse(headers, (), policy(**members))


def refusal(*headers: tuple[str, str], forbidden: tuple[str, ...] = (), **members: object) -> str:
    with pytest.raises(OverrideError) as caught:
        parse(headers, forbidden, policy(**members))
    return str(caught.value)


def test_there_is_a_header_and_a_setting_for_each_override() -> None:
    assert set(HEADERS) == {
        "x-vecsieve-mode",
        "x-vecsieve-certainty",
        "x-vecsieve-distance-threshold",
        "x-vecsieve-relative-threshold",
        "x-vecsieve-linkage",
        "x-vecsieve-mmr-lambda",
        "x-vecsieve-representative",
        "x-vecsieve-order",
        "x-vecsieve-fetch-k",
        "x-vecsieve-collapsed",
        "x-vecsieve-per-retriever",
        "x-vecsieve-token-budget",
        "x-vecsieve-across",
        "x-vecsieve-session",
    }
    assert list(HEADERS.values()) == list(get_args(Override))


def test_without_an_override_the_policy_itself_comes_back() -> None:
    chosen = policy()
    assert parse([("api-key", "x"), ("x-vecsiev-mode", "off"), ("vecsieve-mode", "off")], (), chosen) is chosen
    assert parse([], (), chosen) is chosen


def test_the_policy_that_was_given_is_not_changed() -> None:
    chosen = policy()
    before = dataclasses.replace(chosen)
    changed = parse([("x-vecsieve-mode", "off"), ("x-vecsieve-fetch-k", "30")], (), chosen)
    assert chosen == before
    assert changed != before


@pytest.mark.parametrize("mode", ["on", "shadow", "off"])
def test_mode(mode: str) -> None:
    assert given_headers(("x-vecsieve-mode", mode), mode="shadow").mode == mode


@pytest.mark.parametrize(("word", "value"), [("on", True), ("off", False)])
def test_per_retriever(word: str, value: bool) -> None:
    assert given_headers(("x-vecsieve-per-retriever", word), per_retriever=not value).per_retriever is value


def test_per_retriever_is_on_or_off() -> None:
    assert refusal(("x-vecsieve-per-retriever", "true")) == "x-vecsieve-per-retriever: wanted one of on, off"


@pytest.mark.parametrize(("text", "value"), [("0", 0.0), ("0.15", 0.15), (".5", 0.5), ("2", 2.0), ("1e-1", 0.1)])
def test_a_distance_threshold_is_a_fixed_one(text: str, value: float) -> None:
    assert given_headers(("x-vecsieve-distance-threshold", text)).selection.threshold == Fixed(value=value)


def test_a_relative_threshold_keeps_the_bounds_of_the_policy() -> None:
    kept = given_headers(("x-vecsieve-relative-threshold", "0.5"), threshold={"min": 0.1, "max": 0.4})
    assert kept.selection.threshold == Relative(factor=0.5, minimum=0.1, maximum=0.4)


def test_a_relative_threshold_over_a_fixed_one_has_the_default_bounds() -> None:
    made = given_headers(("x-vecsieve-relative-threshold", "0"), threshold={"fixed": 0.4})
    assert made.selection.threshold == Relative(factor=0.0, minimum=0.0, maximum=0.30)


@pytest.mark.parametrize("linkage", list(Linkage))
def test_linkage(linkage: Linkage) -> None:
    assert given_headers(("x-vecsieve-linkage", linkage.value)).selection.linkage is linkage


@pytest.mark.parametrize("strategy", list(Strategy))
def test_representative(strategy: Strategy) -> None:
    made = given_headers(("x-vecsieve-representative", strategy.value))
    assert made.selection.representative is strategy
    without_text = replace(made, selection=replace(made.selection, texts=None))
    assert bool(without_text.fields.guesses) is (strategy in {Strategy.LONGEST, Strategy.CHAIN})


@pytest.mark.parametrize("order", list(Order))
def test_order(order: Order) -> None:
    assert given_headers(("x-vecsieve-order", order.value)).selection.order is order


def test_mmr_lambda_keeps_the_scaling_of_the_policy() -> None:
    made = given_headers(("x-vecsieve-mmr-lambda", "0"), mmr={"scaled": False})
    assert made.selection.diversifier == Mmr(weight=0.0, is_scaled=False)


def test_mmr_lambda_switches_mmr_on_with_the_default_scaling() -> None:
    made = given_headers(("x-vecsieve-mmr-lambda", "1"), mmr=None)
    assert made.selection.diversifier == Mmr(weight=1.0, is_scaled=True)


def test_fetch_k_is_bounded_by_the_cap() -> None:
    assert given_headers(("x-vecsieve-fetch-k", "40"), fetch={"cap": 40}).exact_fetch == 40
    assert refusal(("x-vecsieve-fetch-k", "41"), fetch={"cap": 40}) == (
        "x-vecsieve-fetch-k: wanted a whole number from 1 to 40"
    )


@pytest.mark.parametrize("name", ["X-VecSieve-Mode", "X-VECSIEVE-MODE", "x-vecsieve-mode"])
def test_names_are_read_in_any_case_and_blanks_around_values_do_not_count(name: str) -> None:
    assert is_override(name)
    assert given_headers((name, " \toff ")).mode == "off"


@pytest.mark.parametrize("name", ["x-vecsieve-", "X-Vecsieve-Anything", "x-vecsieve-mode"])
def test_every_header_of_the_prefix_is_ours_to_strip(name: str) -> None:
    assert is_override(name)


@pytest.mark.parametrize("name", ["x-vecsieve", "vecsieve-mode", "api-key", "", " x-vecsieve-mode"])
def test_no_other_header_is(name: str) -> None:
    assert not is_override(name)


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        ("mode", "one of on, shadow, off"),
        ("distance-threshold", "a number from 0 to 2"),
        ("relative-threshold", "a number from 0 to 1"),
        ("linkage", "one of single, complete, average, leader"),
        ("mmr-lambda", "a number from 0 to 1"),
        ("representative", "one of rank, centroid, hybrid, query_closest, longest, auto, newest, chain"),
        ("order", "one of backend, mmr"),
        ("fetch-k", "a whole number from 1 to 256"),
        ("collapsed", "one of off, header, payload"),
        ("across", "one of off, batch"),
        ("token-budget", "a whole number from 1 to 999999999"),
    ],
)
@pytest.mark.parametrize(
    "value",
    [
        "",
        "ON",
        "nan",
        "inf",
        "-inf",
        "-1",
        "2.01",
        "1_0",
        "\u0661",
        "1e99",
        "0x1",
        "1 1",
        "hunter2",
        "\udcff",
        "9" * 5000,
    ],
)
def test_a_bad_value_is_refused_and_not_repeated(header: str, expected: str, value: str) -> None:
    assert refusal((f"x-vecsieve-{header}", value)) == f"x-vecsieve-{header}: wanted {expected}"


@pytest.mark.parametrize("value", ["0", "1.0", "+1", "1e1"])
def test_fetch_k_is_a_plain_count(value: str) -> None:
    assert refusal(("x-vecsieve-fetch-k", value)).startswith("x-vecsieve-fetch-k: wanted a whole number")


def test_a_header_given_twice_is_refused() -> None:
    message = refusal(("x-vecsieve-mode", "off"), ("api-key", "x"), ("X-Vecsieve-Mode", "off"))
    assert message == "x-vecsieve-mode: wanted the header once"


def test_an_unknown_header_of_the_prefix_is_refused_without_repeating_its_name() -> None:
    message = refusal(("x-vecsieve-hunter2", "off"))
    assert message == f"a header that starts with x-vecsieve-: wanted one of {', '.join(HEADERS)}"


@pytest.mark.parametrize("name", list(OverrideName))
def test_a_forbidden_header_is_refused_whatever_it_says(name: OverrideName) -> None:
    header = next(header for header, override in HEADERS.items() if override is name)
    assert refusal((header, "hunter2"), forbidden=(name.value,)) == f"{header}: not allowed by the settings"


def test_two_thresholds_at_once_are_refused() -> None:
    message = refusal(("x-vecsieve-relative-threshold", "0.1"), ("x-vecsieve-distance-threshold", "0.1"))
    assert message == "x-vecsieve-distance-threshold and x-vecsieve-relative-threshold: wanted one of them"
    message = refusal(("x-vecsieve-certainty", "0.9"), ("x-vecsieve-distance-threshold", "0.1"))
    assert message == "x-vecsieve-certainty and x-vecsieve-distance-threshold: wanted one of them"


def test_a_certainty_goes_for_every_place_whatever_the_policy_cuts_by() -> None:
    for settings in ({}, {"threshold": {"fixed": 0.1}, "linkage": "average"}):
        selection = given_headers(("x-vecsieve-certainty", "0.9"), **settings).selection
        assert selection.threshold == Certain(first=0.9, last=0.9)
        assert selection.linkage is Linkage.LEADER


def test_who_asks_for_the_order_of_mmr_gets_mmr() -> None:
    order_header, default = ("x-vecsieve-order", "mmr"), mmr_of(MmrSettings())
    assert given_headers(order_header).selection.diversifier == default
    assert given_headers(order_header, dpp=0.4).selection.diversifier == Dpp(diversity=0.4)
    made = given_headers(order_header, ("x-vecsieve-mmr-lambda", "0.5")).selection
    assert (made.order, made.diversifier) == (Order.MMR, replace(default, weight=0.5))
    assert given_headers(("x-vecsieve-order", "backend")).selection.diversifier is None


def test_the_longest_needs_text_fields() -> None:
    message = refusal(("x-vecsieve-representative", "longest"), text_fields=())
    assert message == "x-vecsieve-representative: wanted no longest, the policy names no text fields"


def test_several_headers_work_together_in_any_order() -> None:
    headers = [("x-vecsieve-order", "mmr"), ("x-vecsieve-linkage", "single"), ("x-vecsieve-fetch-k", "30")]
    made = given_headers(*headers)
    assert made == given_headers(*reversed(headers))
    assert (made.selection.order, made.selection.linkage, made.exact_fetch) == (Order.MMR, Linkage.SINGLE, 30)


def test_the_value_travels_in_no_chained_exception() -> None:
    with pytest.raises(OverrideError) as caught:
        parse([("x-vecsieve-linkage", "hunter2")], (), policy())
    assert caught.value.__suppress_context__
    assert caught.value.__cause__ is None


names = st.sampled_from([*HEADERS, "x-vecsieve-", "x-vecsieve-other", "X-VECSIEVE-FETCH-K", "api-key"]) | st.text(
    max_size=9
)
raw = st.binary(max_size=12).map(lambda content: content.decode("utf-8", "surrogateescape"))
texts = raw | st.sampled_from(["on", "mmr", "0.5", "1", "100", "single", "longest", "nan", "1e308", "-0", "0" * 30])


@given(headers=st.lists(st.tuples(names, texts), max_size=4), mmr=st.booleans())
def test_any_headers_make_a_policy_or_a_bad_override(headers: list[tuple[str, str]], mmr: bool) -> None:
    """Invariant: parse returns a ResolvedPolicy within the policy's bounds or raises OverrideError, nothing else."""
    chosen = policy() if mmr else policy(mmr=None)
    try:
        made = parse(headers, (), chosen)
    except OverrideError:
        assert any(is_override(name) for name, _ in headers)
        return
    assert made.exact_fetch is None or 1 <= made.exact_fetch <= made.fetch.cap
    assert not isinstance(made.selection.diversifier, Mmr) or 0.0 <= made.selection.diversifier.weight <= 1.0
    assert made.selection.order is Order.BACKEND or made.selection.diversifier is not None
    assert (made is chosen) is not any(is_override(name) for name, _ in headers)


@given(header=st.sampled_from(list(HEADERS)), value=raw.filter(lambda text: len(text) > 0))
def test_a_refusal_is_one_sentence_per_header_whatever_the_value(header: str, value: str) -> None:
    """Invariant: the message is a function of the header alone, so nothing of the value can be in it."""
    try:
        parse([(header, value)], (), policy())
    except OverrideError as error:
        message = str(error)
    else:
        return
    assert message == refusal((header, "!"))


@pytest.mark.parametrize("value", ["", "two words", "é", "x" * 129, "a\tb", "\x7f", "\udcff"])
def test_a_session_is_a_short_word_of_ascii(value: str) -> None:
    assert refusal(("x-vecsieve-session", value)) == (
        "x-vecsieve-session: wanted 1 to 128 printable characters of ASCII, no blanks"
    )
    one, other = (given_headers(("x-vecsieve-session", name)).session_key for name in ("a", "!" * 128))
    assert one is not None
    assert one != other
    assert given_headers().session_key is None
