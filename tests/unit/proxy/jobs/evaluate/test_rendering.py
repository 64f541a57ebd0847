"""The tables: every policy and every set, at any width, with whatever they are called."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import orjson
from rich.console import Console

from support.selection.outcomes import of, outcome
from vecsieve.config.policy import PolicySettings
from vecsieve.proxy.jobs.evaluate.judging import SetOutcome
from vecsieve.proxy.jobs.evaluate.reading import Repeats
from vecsieve.proxy.jobs.evaluate.rendering import Terms, as_json, report
from vecsieve.proxy.jobs.evaluate.searching import contenders
from vecsieve.proxy.jobs.evaluate.summary import summarised

NAN = float("nan")


def printed(*outcomes: SetOutcome, draws: int = 0, width: int = 120, pool: int | None = None) -> str:
    console = Console(file=StringIO(), width=width, highlight=False, color_system=None)
    terms = Terms(top_k=8, every=1, pool=pool, draws=draws, seed=5)
    console.print(report(summarised(outcomes, draws=draws, seed=5), terms))
    assert isinstance(console.file, StringIO)
    return console.file.getvalue()


def line(text: str, start: str) -> list[str]:
    return next(row for row in text.splitlines() if row.strip().startswith(start)).split()


HALF = outcome(
    "half",
    of(redundancy=[0.5, 0.5], recall=[0.5, 0.5]),
    own=of(redundancy=[0.0, 0.5], recall=[1.0, 0.5]),
)
CLEAN = outcome(
    "clean", of(redundancy=[0.0], recall=[0.75]), own=of(redundancy=[0.0], recall=[0.5], retained=[0.0])
)  # fmt: skip


def test_a_policy_s_line_has_its_figures_in_order() -> None:
    text = printed(HALF, CLEAN)
    assert line(text, "own") == ["own", "-", "0.500", "0.000", "+0.000", "-", "-", "-", "-", "8.00", "2.00"]
    assert line(text, "plain") == ["plain", *["-"] * 8, "8.00", "-"]
    assert text.startswith("2 sets whose repeats are copies, 3 queries, top 8 ")


def test_a_set_s_line_has_its_figures_in_order() -> None:
    text = printed(HALF, CLEAN).split("\nown ")[1]
    cells = ["2", "0", "-", "0.500", "1.000", "1.000", "0.750", "+0.250"]
    assert line(text, "half") == ["half", *cells, *["0", "0/0"] * 2, "0.500", "1.00", "8.00"]
    assert line(text, "clean")[4] == "-"  # nothing to reduce


DROPS = outcome(
    "drops",
    of(recall=[0.5, 0.5], strict=[30.0, 10.0]),
    own=of(
        strict=[10.0, 0.0],
        dropped=[90.0, 110.0],
        wrong_label=[10.0, 20.0],
        wrong_text=[0.0, 20.0],
        walked=[150.0, 250.0],
        walked_wrong_label=[40.0, 40.0],
        walked_wrong_text=[100.0, 20.0],
    ),
)
MEANING = outcome("meaning", of(recall=[0.5]), own=of(dropped=[9.0], wrong_text=[9.0]), repeats=Repeats.MEANINGS)


def test_wrong_drops_stand_beside_what_was_gained_with_their_counts() -> None:
    text = printed(DROPS, MEANING)
    assert line(text, "own")[1:9] == ["0.750", "-", "1.000", "+0.000", "0.150", "0.100", "0.200", "0.300"]
    assert all(count in text for count in ("30 of 200", "20 of 200", "80 of 400", "120 of 400", "9 of 9"))
    policy_rows = text.split("\nown ")[1]
    assert line(policy_rows, "drops")[8:13] == ["+0.000", "200", "30/20", "400", "80/120"]
    assert line(policy_rows, "drops")[2:4] == ["40", "0.750"]


def test_sets_of_copies_and_of_meanings_stand_in_tables_of_their_own() -> None:
    text = printed(MEANING, DROPS)
    copies, meanings = text.index("1 set whose repeats are copies"), text.index("1 set whose repeats have other words")
    assert copies < meanings
    assert "without repeats" not in text


def test_every_figure_is_whole_at_the_width_of_a_terminal() -> None:
    sets = [
        outcome("a-set-with-a-name", set_outcome.by_contender["plain"], own=set_outcome.by_contender["own"])
        for set_outcome in (HALF, DROPS)
    ]
    for width in (120, 200):
        text = printed(*sets, draws=50, width=width)
        assert "…" not in text.split("\nown ")[1]
        assert len(line(text.split("\nown ")[1], "a-set")) == 16


def test_in_a_narrow_terminal_a_table_goes_on_below_and_nothing_is_cut() -> None:
    """At 80 columns a figure was `0.9…`, and a heading `str…`."""
    for width in (60, 80, 100):
        text = printed(HALF, DROPS, draws=50, width=width)
        assert "…" not in text
        assert max(map(len, text.splitlines())) <= width
        assert set(text.split()) >= set(printed(HALF, DROPS, draws=50).replace("─", "").split())
    table = printed(HALF, width=80).split("\nown ", 1)[1].partition("Needs met")[0]
    assert [row.split()[0] for row in table.splitlines() if "half" in row] == ["half", "half"], (
        "the names, in each part"
    )


def test_every_policy_has_its_needs_met_beside_the_plain_page() -> None:
    policy_outcome = of(recall=[1.0, 0.5], perfect=[1.0, 0.0], group_ndcg=[0.9, 0.4])
    text = printed(outcome("half", of(recall=[0.5, 0.5]), own=policy_outcome)).split("RARE")[1]
    assert [row.split() for row in text.splitlines() if row.strip().startswith("half")] == [
        ["half", "plain", "0.500", "0.000", "0.500"],
        ["half", "own", "0.750", "0.500", "0.650"],
    ]


def test_no_word_of_a_heading_is_divided() -> None:
    """`que-ries` and `an-swer` stood over the columns, and narrow ones divided whole words."""
    heading = printed(HALF).split("\nown ")[1].partition("─")[0]
    words = "queries strict repeats cut redun. gone answer kept needs recall gained page: pool: drops wrong label/ text nDCG docs items"
    assert set(heading.split()) == {*words.split(), "set", "S-", "α-"}


def test_intervals_stand_beneath_with_how_they_were_drawn() -> None:
    text = printed(HALF, draws=200)
    assert "[.500,.500]" not in text.split("own")[0]
    assert "95 % of 200 draws of the queries, seed 5" in " ".join(text.split())
    assert "[.000,.500]" in text  # the recall gained by none, one or both of two queries
    assert "draws" not in printed(HALF)


def test_what_does_not_arise_is_a_dash() -> None:
    never = of(retained=[NAN], redundancy=[0.0], kept=[0.0], collapsed=[NAN])
    text = printed(outcome("never", never, own=never))
    assert line(text, "own")[:4] == ["own", "-", "-", "-"]
    assert "nan" not in text


def test_names_are_shown_as_they_are_and_never_obeyed() -> None:
    hostile: dict[str, Any] = {"[red]p\x1b[31m": of(recall=[0.5])}
    text = printed(outcome("[bold]x[/bold]", of(recall=[0.5]), **hostile))
    assert "[bold]x[/bold]" in text
    assert "[red]p\\u001b[31m" in text
    assert "\x1b" not in text


# What a program gets: everything that the tables say, and the policies whole.


TERMS = Terms(top_k=8, every=2, pool=None, draws=10, seed=3)


def test_everything_is_there_as_plain_json() -> None:
    never = of(retained=[float("nan")], redundancy=[0.5])
    summaries = summarised([outcome("one", never, own=never)], draws=10, seed=3)
    read = json.loads(orjson.dumps(as_json(summaries, contenders(given=["own={when: always}"]), TERMS)))
    assert {"top_k": 8, "every": 2, "pool": None, "draws": 10, "seed": 3}.items() <= read.items()
    policy_figures = read["results"]["own"]
    assert policy_figures["headlines"]["copies"]["reduction"] == {"value": 0.0, "low": 0.0, "high": 0.0}
    assert policy_figures["headlines"]["copies"]["retention_worst"] is None
    assert (policy_figures["sets"][0]["name"], policy_figures["sets"][0]["retention"]["value"]) == ("one", None)


def test_a_policy_comes_out_as_it_could_be_put_in_again() -> None:
    chosen = contenders(given=["own={threshold: {fixed: 0.07}, dpp: 0.3}"])
    read = json.loads(orjson.dumps(as_json({}, chosen, TERMS)))
    assert PolicySettings.model_validate_json(json.dumps(read["policies"]["own"])) == chosen[0].settings
