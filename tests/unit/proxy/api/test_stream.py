from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given

from support.chunks import DEFAULT, STABLE, chunks, of, wishes
from vecsieve.proxy.api.optimize import Chunks, Kept, Wishes, optimize
from vecsieve.proxy.api.stream import Stream, is_stable
from vecsieve.proxy.search.context.tokens import estimated
from vecsieve.proxy.selection.policy import Linkage, Strategy


def ranked(pool: Chunks) -> Chunks:
    order = sorted(range(len(pool.texts)), key=lambda number: -pool.scores[number])
    return Chunks([pool.texts[i] for i in order], [pool.scores[i] for i in order], [pool.vectors[i] for i in order])


def streamed(pool: Chunks, asked: Wishes) -> tuple[Stream, list[Kept | None]]:
    stream = Stream(asked, estimated)
    return stream, [stream.add(text, vector) for text, vector in zip(pool.texts, pool.vectors, strict=True)]


@given(chunks(), wishes(stable=True))
def test_a_stream_ends_in_what_the_whole_list_gives(pool: Chunks, asked: Wishes) -> None:
    """For any chunks in falling order of score and any stable options: the outcome of the stream is that of the list, and what was
    sent on the way is what is kept.
    """
    stream, sent = streamed(ranked(pool), asked)
    whole = optimize(ranked(pool), asked, estimated)
    found = stream.outcome()
    assert found.kept == whole.kept == tuple(each for each in sent if each is not None)
    assert found.removed == whole.removed
    assert found == whole


@given(chunks(), chunks(), wishes(stable=True))
def test_what_comes_later_changes_nothing_of_what_was_sent(pool: Chunks, more: Chunks, asked: Wishes) -> None:
    """For any chunks with others behind them: the same of them are sent."""
    _, alone = streamed(pool, asked)
    both = Chunks([*pool.texts, *more.texts], [0.0] * 0, [*pool.vectors, *more.vectors])
    _, among = streamed(both, asked)
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
    assert [each is not None for each in sent] == [True, True, False, False]
    assert [(each.stage, each.of) for each in stream.outcome().removed] == [("target_k", None), ("exact", 0)]
