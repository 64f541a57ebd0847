from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from support.jobs.chunks import DEFAULT, STABLE, chunks, of, wishes
from vecsieve.proxy.api import walk
from vecsieve.proxy.api.optimize import Chunks, Kept, Removed, Wishes, optimize
from vecsieve.proxy.api.stream import Stream, is_stable
from vecsieve.proxy.api.walk import Stage, text_of
from vecsieve.proxy.search.context.tokens import estimated
from vecsieve.proxy.selection.policy import Linkage, Strategy, Tier
from vecsieve.proxy.selection.values import Link

HALVES = ("Orders may be returned within thirty days of delivery.", "Refunds are paid to the card that was charged.")
SENTENCES = [
    f"The depot in the {place} sends parcels by {way} and closes at {hour} on working days."
    for place, way, hour in zip(
        ("north", "south", "east", "west", "centre", "harbour", "hills", "suburbs", "valley", "airport"),
        ("train", "lorry", "van", "bicycle", "tram", "ferry", "mule", "bus", "barge", "plane"),
        range(4, 14),
        strict=True,
    )
]
LONG = " ".join(SENTENCES)


def ranked(pool: Chunks) -> Chunks:
    order = sorted(range(len(pool.texts)), key=lambda number: -pool.scores[number])
    return Chunks([pool.texts[i] for i in order], [pool.scores[i] for i in order], [pool.vectors[i] for i in order])


def streamed(pool: Chunks, requested: Wishes) -> tuple[Stream, list[Kept | None]]:
    stream = Stream(requested, estimated)
    return stream, [stream.add(text, vector) for text, vector in zip(pool.texts, pool.vectors, strict=True)]


@given(chunks(), wishes(stable=True))
def test_a_stream_ends_in_what_the_whole_list_gives(pool: Chunks, requested: Wishes) -> None:
    """For any chunks in falling order of score and any stable options: the outcome of the stream is that of the list, and what was
    sent on the way is what is kept.
    """
    stream, sent = streamed(ranked(pool), requested)
    whole = optimize(ranked(pool), requested, estimated)
    outcome = stream.outcome()
    assert outcome.kept == whole.kept == tuple(chunk for chunk in sent if chunk is not None)
    assert outcome.removed == whole.removed
    assert outcome == whole


@given(chunks(), chunks(), wishes(stable=True))
def test_what_comes_later_changes_nothing_of_what_was_sent(pool: Chunks, more: Chunks, requested: Wishes) -> None:
    """For any chunks with others behind them: the same of them are sent."""
    _, alone = streamed(pool, requested)
    both = Chunks([*pool.texts, *more.texts], [0.0] * 0, [*pool.vectors, *more.vectors])
    _, among = streamed(both, requested)
    assert among[: len(alone)] == alone


@pytest.mark.parametrize(
    ("changed", "stable"),
    [
        ({}, True),
        ({"max_per_cluster": 3, "token_budget": 7, "target_k": 1}, True),
        ({"linkage": Linkage.SINGLE}, False),
        ({"representative": Strategy.AUTO}, False),
        ({"mmr_lambda": 1.0}, False),
    ],
)
def test_only_options_that_need_nothing_later_are_stable(changed: dict[str, object], stable: bool) -> None:
    assert is_stable(replace(STABLE, **changed)) is stable  # type: ignore[arg-type]  # - fields by name
    assert not is_stable(DEFAULT)


def test_a_chunk_behind_target_k_is_told_as_such_and_a_copy_as_a_copy() -> None:
    pool = of("alpha one", "beta two", "gamma three", "Alpha one.")
    stream, sent = streamed(pool, replace(STABLE, target_k=2))
    assert [kept is not None for kept in sent] == [True, True, False, False]
    target, copy = stream.outcome().removed
    assert (target.stage, target.repeat) == (Stage.TARGET, None)
    assert (copy.stage, copy.repeat and copy.repeat.of) == (Stage.EQUAL_TEXT, (0,))


def test_two_chunks_that_say_all_of_a_third_cover_it_and_differences_are_named() -> None:
    """A stream has the holders and the differences at hand; a whole list must find the same."""
    windows = [" ".join(SENTENCES[first : first + 6]) for first in (0, 4)]
    pool = of(*windows, LONG, windows[0].replace("van and", "van &"))
    stream, _ = streamed(pool, STABLE)
    joined, edited = stream.outcome().removed
    assert (joined.stage, joined.repeat and set(joined.repeat.of)) == (Stage.JOINED, {0, 1})
    assert (edited.stage, edited.repeat and edited.repeat.but) == (Stage.EDITED, "'&' for 'and'")
    assert stream.outcome() == optimize(pool, STABLE, estimated)


def test_a_chunk_larger_than_the_whole_budget_covers_no_other() -> None:
    """It is not in the answer, so it says nothing there."""
    pool = of(f"{HALVES[0]} {HALVES[1]}", HALVES[0])
    requested = replace(STABLE, token_budget=estimated(HALVES[0]))
    stream, sent = streamed(pool, requested)
    assert [kept is not None for kept in sent] == [False, True]
    assert stream.outcome().removed == (Removed(0, Stage.BUDGET),)
    assert stream.outcome() == optimize(pool, requested, estimated)


def test_what_stands_for_a_chunk_without_a_text_stands_for_what_it_says() -> None:
    near = [1.0, 0.0]
    pool = of("", HALVES[0], HALVES[0].upper(), vectors=[near, near, None])
    stream, _ = streamed(pool, STABLE)
    assert [(removal.stage, removal.repeat and removal.repeat.of) for removal in stream.outcome().removed] == [
        (Stage.VECTORS, (0,)),
        (Stage.EQUAL_TEXT, (0,)),
    ]
    assert stream.outcome().removed == optimize(pool, STABLE, estimated).removed


def test_texts_beyond_what_is_read_of_a_list_leave_only_for_equal_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = [
        "The valve is closed. Open it slowly before the pump starts.",
        "Another thing in other words.",
        "The valve is closed.",
    ]
    read = [text_of(text) for text in (*texts, texts[1])]
    monkeypatch.setattr(walk, "POOL_COST", read[0].cost() if read[0] is not None else 0)
    judged = walk.Walk(walk.Rules(tier=Tier.EDITED, cut=0.0), dimension=None)
    *first, last = [judged.step(text, None) for text in read]
    assert first == [None, None, None]
    assert last is not None
    assert (last.link, last.of) == (Link.EQUAL, (1,))
