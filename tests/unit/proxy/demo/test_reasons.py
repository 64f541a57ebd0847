"""The selection done once more: who stands for whom and why, whom a guard keeps apart, how near counted."""

from __future__ import annotations

import dataclasses

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.demo_policies import ANY_CHANCE, CONTAINING, FIXED, SHIPPED, choosing, cutting
from support.texts import as_texts
from support.tiny_corpus import NEAR_A, A, B, C, D, answer, corpus_of
from vecsieve.proxy.demo.corpus import Corpus, load
from vecsieve.proxy.demo.database import Answer
from vecsieve.proxy.demo.reasons import Pool, Reasons, explain
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.selection.policy import Certain, Fixed
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Link, Metadata, Metric, Veto

BANS = "The ministry bans exports of rice to all its neighbours"
LIFTS = "The ministry lifts its ban on exports of rice to all its neighbours"
LOWER = "The index opens 0.28 % lower on Monday"
HIGHER = "The index opens 0.19 % lower on Monday"
LONG = "insert item x in list a and keep it sorted assuming that list a is sorted already before the call"


def explained(
    corpus: Corpus, pool: Answer, direct: Answer, *, policy: ResolvedPolicy = FIXED, first: int = 9
) -> Reasons:
    return explain(corpus, Pool(answer=pool, first=first, policy=policy), direct)


def test_a_copy_by_vector_names_who_stands_for_it_how_alike_it_is_and_how_near_counted() -> None:
    seen = explained(corpus_of([A, NEAR_A, B, C]), answer(0, 1, 2, 3), answer(0, 1, 2))
    copy = seen.verdicts[1]
    assert (copy.rank, copy.representative, copy.link) == (2, 0, Link.DISTANCE)
    assert copy.similarity == pytest.approx(0.999, abs=1e-4)
    assert copy.cut == pytest.approx(0.9)
    assert seen.kept == (0, 2, 3)


def test_a_result_of_its_own_has_nobody_standing_for_it() -> None:
    seen = explained(corpus_of([A, NEAR_A, B]), answer(0, 1, 2), answer(0, 1))
    assert [seen.verdicts[row].representative for row in (0, 2)] == [None, None]
    assert [seen.verdicts[row].link for row in (0, 2)] == [Link.NONE, Link.NONE]


def test_texts_are_read_as_the_proxy_reads_them_out_of_payloads() -> None:
    half = (0.8, 0.6, 0.0, 0.0)  # 0.2 from A: too far by vector
    corpus = corpus_of([A, half, C, D], texts=[LONG, LONG.upper(), "other words stand here", "and others again there"])
    seen = explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2))
    assert seen.verdicts[1].link is Link.IDENTICAL
    without = choosing(dataclasses.replace(FIXED.selection, text=None))
    assert explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2), policy=without).verdicts[1].representative is None


def test_a_text_within_another_is_a_copy_by_its_share() -> None:
    half = (0.8, 0.6, 0.0, 0.0)
    corpus = corpus_of([A, half, C], texts=[LONG, LONG.removesuffix(" before the call"), "other words stand here"])
    copy = explained(corpus, answer(0, 1, 2), answer(0, 1), policy=CONTAINING).verdicts[1]
    assert (copy.representative, copy.link) == (0, Link.CONTAINMENT)
    assert copy.similarity == pytest.approx(1.0)


def test_by_the_calibrated_rule_a_text_within_another_is_a_copy_by_its_probability() -> None:
    more, other = (" ".join(f"{word}{chr(97 + place % 26)}" for place in range(26)) for word in ("kept", "left"))
    whole = f"{LONG} {more}"
    corpus = corpus_of(
        [A, NEAR_A, B, C], texts=[whole, whole.removesuffix(" keptz"), other, f"{other} again {more[:60]}"]
    )
    seen = explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2), policy=ANY_CHANCE)
    copy = seen.verdicts[1]
    assert (copy.representative, copy.link) == (0, Link.CONTAINMENT)
    assert copy.cut == pytest.approx(0.85)
    assert copy.cut <= copy.similarity <= 1.0


@pytest.mark.parametrize(("texts", "veto"), [((BANS, LIFTS), Veto.NEGATION), ((LOWER, HIGHER), Veto.AMOUNT)])
def test_a_guard_names_itself_and_whom_it_keeps_apart(texts: tuple[str, str], veto: Veto) -> None:
    corpus = corpus_of([C, A, NEAR_A], texts=["quite another matter", *texts])
    kept = explained(corpus, answer(0, 1, 2), answer(0, 1, 2)).verdicts[2]
    assert (kept.representative, kept.veto, kept.kept_apart_from) == (None, veto, (1,))


def test_a_guard_names_all_above_that_it_keeps_apart_the_nearest_first() -> None:
    nearer = (0.9995, 0.0316, 0.0, 0.0)
    far = (0.0, 1.0, 0.0, 0.0)
    texts = [f"The index opens {share} % lower on Monday" for share in ("0.10", "0.20", "0.30", "0.40")]
    corpus = corpus_of([far, A, nearer, NEAR_A], texts=texts)
    seen = explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2, 3))
    assert seen.verdicts[3].kept_apart_from == (2, 1, 0)


def test_the_certainty_that_is_wanted_falls_with_the_results_that_stand_above() -> None:
    falling = cutting(Certain(first=0.85, last=0.4))
    rows = [A, A, *np.eye(12)[1:12, :].tolist()]
    corpus = corpus_of([(*row, *[0.0] * (12 - len(row))) for row in rows])
    seen = explained(corpus, answer(*range(13)), answer(*range(10)), policy=falling, first=13)
    wanted = [seen.verdicts[row].cut for row in range(1, 13)]
    assert wanted[0] == wanted[1] == pytest.approx(0.85)
    assert wanted[1:8] == sorted(wanted[1:8], reverse=True)
    assert wanted[8:] == pytest.approx([0.4] * 4)
    assert seen.cuts == pytest.approx((0.85, 0.4))


def test_an_even_certainty_is_the_same_all_down_the_page() -> None:
    even = cutting(Certain(first=0.9, last=0.9))
    seen = explained(corpus_of([A, B, C, D]), answer(0, 1, 2, 3), answer(0, 1, 2), policy=even)
    assert [verdict.cut for verdict in seen.verdicts.values()] == pytest.approx([0.9] * 4)


def test_another_title_is_a_guard_of_its_own() -> None:
    corpus = corpus_of([A, NEAR_A, B])
    titled = tuple(
        msgspec.structs.replace(each, title=title)
        for each, title in zip(corpus.chunks, ("bisect.insort_left", "bisect.insort_right", "heapq"), strict=True)
    )
    seen = explained(dataclasses.replace(corpus, chunks=titled), answer(0, 1, 2), answer(0, 1, 2))
    assert (seen.verdicts[1].representative, seen.verdicts[1].veto) == (None, Veto.SUBJECT)
    assert seen.verdicts[1].kept_apart_from == (0,)


def test_a_pool_with_enough_distinct_results_is_judged_without_its_tail() -> None:
    seen = explained(corpus_of([A, B, C, D]), answer(0, 1, 2, 3), answer(0, 1), first=3)
    assert set(seen.verdicts) == {0, 1, 2}


def test_a_pool_that_lacks_distinct_results_is_judged_with_its_tail_and_measured_without() -> None:
    corpus = corpus_of([A, A, B, C], texts=["one text", "one text", "another text", "a third one"])
    seen = explained(corpus, answer(0, 1, 2, 3), answer(0, 1), first=2)
    assert set(seen.verdicts) == {0, 1, 2, 3}
    assert seen.kept == (0, 2)
    assert seen.median == 0.0


def test_a_pool_whose_size_is_known_is_judged_by_that_much_of_it_and_measured_as_ever() -> None:
    corpus = corpus_of([A, NEAR_A, NEAR_A, B, C, D])
    page, ranking = answer(0, 1), answer(0, 1, 2, 3, 4, 5)
    for known in (2, 3, 4, 6):
        seen = explain(corpus, Pool(answer=ranking, first=4, policy=FIXED, size=known), page)
        assert list(seen.verdicts) == list(range(known))
        assert seen.kept == ((0, 3) if known > 3 else (0, 1))
        assert seen.median == explained(corpus, ranking, page, first=4).median


def test_the_direct_order_of_equal_texts_is_the_one_that_counts() -> None:
    corpus = corpus_of([A, A, B], texts=["one text", "one text", "another text"])
    seen = explained(corpus, answer(0, 1, 2), answer(1, 0))
    assert (seen.verdicts[1].representative, seen.verdicts[0].representative) == (None, 1)


def test_an_empty_answer_has_no_reasons() -> None:
    seen = explained(corpus_of([A]), answer(), answer())
    assert (dict(seen.verdicts), seen.kept) == ({}, ())


@settings(max_examples=60)
@given(st.lists(st.sampled_from([A, NEAR_A, B, C, D]), min_size=1, max_size=8), st.integers(1, 8), st.floats(0.0, 0.5))
def test_what_is_explained_is_what_selection_chooses(
    rows: list[tuple[float, ...]], page: int, threshold: float
) -> None:
    """The rows kept are those of a plain call of select; every copy's stand-in is a result of its own, better ranked."""
    corpus = corpus_of(rows)
    pool = answer(*range(len(rows)))
    direct = answer(*range(min(page, len(rows))))
    policy = cutting(Fixed(value=threshold))
    seen = explained(corpus, pool, direct, policy=policy)
    candidates = Candidates(
        scores=np.asarray(pool.scores),
        vectors=corpus.vectors,
        metric=Metric.COSINE,
        metadata=Metadata(texts=as_texts(chunk.text for chunk in corpus.chunks)),
    )
    plain = select(candidates, top_k=len(direct.rows), policy=policy.selection)
    assert seen.kept == tuple(plain.keep.tolist())
    for verdict in seen.verdicts.values():
        head = verdict.representative
        assert head is None or seen.verdicts[head].representative is None
        assert head is None or seen.verdicts[head].rank < verdict.rank


def test_on_the_demos_own_corpus_a_guard_keeps_lstrip_from_rstrip() -> None:
    corpus = load()
    scores = corpus.vectors @ corpus.question_vectors[1]
    order = np.argsort(-scores, kind="stable").tolist()

    def nearest(count: int) -> Answer:
        rows = tuple(order[:count])
        return Answer(rows=rows, scores=tuple(float(scores[row]) for row in rows), milliseconds=1.0)

    seen = explained(corpus, nearest(160), nearest(8), policy=SHIPPED, first=40)
    kept = [corpus.chunks[row].document for row in seen.kept]
    assert {"builtins.str.rstrip", "builtins.str.lstrip"} <= set(kept)
    lstrip = seen.verdicts[seen.kept[kept.index("builtins.str.lstrip")]]
    assert lstrip.veto is Veto.NEGATION
    assert [corpus.chunks[row].document for row in lstrip.kept_apart_from] == ["builtins.str.rstrip"]
