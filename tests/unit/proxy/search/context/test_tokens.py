"""A budget of tokens pays for the first texts, never for none."""

from __future__ import annotations

import sys

import pytest
import tiktoken
from hypothesis import given
from hypothesis import strategies as st

from support.network.api import served
from vecsieve.config.contradictions import of_settings
from vecsieve.config.problems import SettingsError
from vecsieve.config.schema import Settings
from vecsieve.proxy.search.context.tokens import affordable, estimated, of_bytes, tokenizer


@given(st.integers(0, 10**9))
def test_the_estimate_of_bytes_never_pays_too_little(size: int) -> None:
    """Four bytes are paid by each token, and no token is for nothing."""
    assert 4 * of_bytes(size) - 4 < size <= 4 * of_bytes(size)


@given(st.lists(st.integers(0, 50), max_size=30), st.integers(1, 500))
def test_what_a_budget_pays_for_fits_and_one_more_would_not(costs: list[int], tokens: int) -> None:
    """The longest prefix within the budget, or the first alone."""
    count = affordable(costs, tokens)
    assert count >= min(1, len(costs))
    assert count <= 1 or sum(costs[:count]) <= tokens
    assert count == len(costs) or sum(costs[: count + 1]) > tokens


def test_texts_behind_a_spent_budget_are_not_counted() -> None:
    counted: list[int] = []

    def costs() -> object:
        for place in range(100):
            counted.append(place)
            yield 10

    assert affordable(costs(), 25) == 2  # type: ignore[arg-type]  # - a generator of numbers
    assert counted == [0, 1, 2]


def test_free_texts_fit_any_budget() -> None:
    assert affordable([0, 0, 0], 1) == 3
    assert affordable([5, 0, 0], 1) == 1
    assert affordable([], 1) == 0


NAME = "letters_for_tests"


@pytest.fixture
def letters(monkeypatch: pytest.MonkeyPatch) -> str:
    """An encoding of tiktoken's without a download: bytes, and one token for `th`."""
    ranks = {bytes([byte]): byte for byte in range(256)} | {b"th": 256}
    made = tiktoken.Encoding(NAME, pat_str=r"\S+|\s+(?!\S)|\s+", mergeable_ranks=ranks, special_tokens={"<|end|>": 257})
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, NAME, made)
    return NAME


@pytest.mark.parametrize(
    ("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("é" * 2, 1), ("退" * 4, 3)]
)
def test_the_estimate_is_a_fourth_of_the_bytes_rounded_up(text: str, tokens: int) -> None:
    assert estimated(text) == tokens


@given(st.text(alphabet=st.characters()), st.text())
def test_the_estimate_of_a_whole_is_at_most_that_of_its_parts(one: str, other: str) -> None:
    """For any two texts: together they are estimated at no more than apart."""
    assert estimated(one + other) <= estimated(one) + estimated(other)


def test_an_encoding_by_name_counts_its_tokens(letters: str) -> None:
    assert tokenizer(letters, setting="api.tokenizer")("the moth") == 6
    assert tokenizer(None, setting="api.tokenizer") is estimated


def test_a_text_that_looks_like_a_special_token_is_plain_text(letters: str) -> None:
    assert tokenizer(letters, setting="api.tokenizer")("<|end|>") == 7


@pytest.mark.parametrize("character", [" ", "a", "\n", "退"])
def test_a_text_of_one_character_is_counted_however_long_it_is(letters: str, character: str) -> None:
    """tiktoken 0.14 panics at a million blanks."""
    count = tokenizer(letters, setting="api.tokenizer")
    assert count(character * 1_000_000) == 1_000_000 * count(character)


def test_an_encoding_that_does_not_exist_is_refused_with_those_that_do() -> None:
    with pytest.raises(SettingsError, match=r"api\.tokenizer.*o200k_base"):
        tokenizer("nothing_base", setting="api.tokenizer")


def test_a_vocabulary_that_cannot_be_loaded_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_name: str) -> None:
        raise ConnectionError

    monkeypatch.setattr(tiktoken, "get_encoding", fail)
    with pytest.raises(SettingsError, match="TIKTOKEN_CACHE_DIR"):
        tokenizer("o200k_base", setting="api.tokenizer")


def test_a_tokenizer_without_its_library_is_a_contradiction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vecsieve.config.contradictions.find_spec", lambda _name: None)
    contradictions = list(of_settings(Settings.model_validate({"api": {"tokenizer": "o200k_base"}})))
    assert [contradiction.finding.expected for contradiction in contradictions] == [
        "none: tiktoken is not installed; it comes with the extra tokens: in a checkout, pip install -e '.[tokens]'"
    ]


async def test_the_api_counts_by_the_tokenizer_of_the_settings(letters: str) -> None:
    async with served(tokenizer=letters) as api:
        answer = await api.client.post("/v1/optimize", json={"chunks": [{"id": "1", "text": "the moth"}]})
        assert answer.json()["stats"]["input_tokens"] == 6


def test_without_a_tokenizer_its_library_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    assert tokenizer(None, setting="api.tokenizer")("abcd") == 1
