"""The text budget of an answer, for every database, by its own client: results stop where it is spent, never before the first."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from support.backends.surrounded import DATABASES, PARAMETERS, Ask
from vecsieve.proxy.search.context.tokens import estimated

LIMIT = 6


@pytest.fixture(scope="module", params=PARAMETERS)
def searches(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Ask, Ask]]:
    """The proxy and the database, each as its client sees it."""
    file: Path = tmp_path_factory.mktemp("settings") / "vecsieve.yaml"
    file.write_text("mode: on\n")
    with DATABASES[request.param](file) as both:
        yield both


@pytest.mark.parametrize("tokens", [1, 20, 60, 100, 10_000])
def test_results_stop_where_the_budget_is_spent(searches: tuple[Ask, Ask], tokens: int) -> None:
    whole = searches[0]([1], LIMIT, {})[0]
    assert len(whole) == LIMIT
    costs = [estimated(text) for _, text in whole]
    fitting = max([1, *(count for count in range(1, LIMIT + 1) if sum(costs[:count]) <= tokens)])
    assert searches[0]([1], LIMIT, {"x-vecsieve-token-budget": str(tokens)})[0] == whole[:fitting]


@pytest.mark.parametrize("value", ["many", "0", "1e3"])
def test_a_budget_that_is_no_number_is_refused(searches: tuple[Ask, Ask], value: str) -> None:
    refusal = r"x-vecsieve-token-budget: wanted a whole number from 1 to 999999999"
    with pytest.raises(Exception, match=refusal):
        searches[0]([1], LIMIT, {"x-vecsieve-token-budget": value})


def test_the_texts_need_not_be_asked_for(searches: tuple[Ask, Ask]) -> None:
    """The database itself, asked with the header, answers as without: it is the proxy alone that reads it."""
    header = {"x-vecsieve-token-budget": "1"}
    assert searches[1]([1], LIMIT, header) == searches[1]([1], LIMIT, {})
