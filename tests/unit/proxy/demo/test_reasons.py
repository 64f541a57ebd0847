"""The selection done once more: who stands for whom and why, whom a guard keeps apart, how near counted."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.demo_policies import FIXED, SHIPPED, choosing, cutting
from support.tiny_corpus import NEAR_A, A, B, C, D, answer, corpus_of
from vecsieve.proxy.demo.corpus import Corpus, load
from vecsieve.proxy.demo.database import Answer
from vecsieve.proxy.demo.reasons import Pool, Reasons, explain
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.selection.policy import Fixed, Growing
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
    assert (copy.rank, copy.stands_for_it, copy.link) == (2, 0, Link.DISTANCE)
    assert copy.similarity == pytest.approx(0.999, abs=1e-4)
    assert copy.cut == pytest.approx(0.1)
    assert seen.kept == (0, 2, 3)


def test_a_result_of_its_own_has_nobody_standing_for_it() -> None:
    seen = explained(corpus_of([A, NEAR_A, B]), answer(0, 1, 2), answer(0, 1))
    assert [seen.verdicts[row].stands_for_it for row in (0, 2)] == [None, None]
    assert [seen.verdicts[row].link for row in (0, 2)] == [Link.NONE, Link.NONE]


def test_texts_are_read_as_the_proxy_reads_them_out_of_payloads() -> None:
    half = (0.8, 0.6, 0.0, 0.0)  # 0.2 from A: too far by vector
    corpus = corpus_of([A, half, C, D], texts=[LONG, LONG.upper(), "other words stand here", "and others again there"])
    seen = explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2))
    assert seen.verdicts[1].link is Link.IDENTICAL
    without = choosing(dataclasses.replace(FIXED.selection, text=None))
    assert explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2), policy=without).verdicts[1].stands_for_it is None


def test_a_text_within_another_is_a_copy_by_its_share() -> None:
    half = (0.8, 0.6, 0.0, 0.0)
    corpus = corpus_of([A, half, C], texts=[LONG, LONG.removesuffix(" before the call"), "other words stand here"])
    copy = explained(corpus, answer(0, 1, 2), answer(0, 1)).verdicts[1]
    assert (copy.stands_for_it, copy.link) == (0, Link.CONTAINMENT)
    assert copy.similarity == pytest.approx(1.0)


@pytest.mark.parametrize(("texts", "veto"), [((BANS, LIFTS), Veto.NEGATION), ((LOWER, HIGHER), Veto.AMOUNT)])
def test_a_guard_names_itself_and_whom_it_keeps_apart(texts: tuple[str, str], veto: Veto) -> None:
    corpus = corpus_of([C, A, NEAR_A], texts=["quite another matter", *texts])
    kept = explained(corpus, answer(0, 1, 2), answer(0, 1, 2)).verdicts[2]
    assert (kept.stands_for_it, kept.veto, kept.apart_from) == (None, veto, (1,))


def test_a_guard_speaks_of_near_ones_only_and_of_the_nearest_first() -> None:
    nearer = (0.9995, 0.0316, 0.0, 0.0)
    far = (0.0, 1.0, 0.0, 0.0)
    texts = [f"The index opens {share} % lower on Monday" for share in ("0.10", "0.20", "0.30", "0.40")]
    corpus = corpus_of([far, A, nearer, NEAR_A], texts=texts)
    seen = explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2, 3))
    assert seen.verdicts[3].apart_from == (2, 1)


def test_the_cut_grows_with_the_results_that_stand_above() -> None:
    growing = cutting(Growing(factor=0.1, power=1.0, most=0.5, trusted=0.0, wary=1.0, minimum=0.01))
    seen = explained(corpus_of([A, A, B, C, D]), answer(0, 1, 2, 3, 4), answer(0, 1, 2, 3), policy=growing)
    median = seen.median
    assert median == pytest.approx(1.0)
    assert [seen.verdicts[row].cut for row in (1, 2, 3, 4)] == pytest.approx([0.1, 0.1, 0.2, 0.3])
    assert seen.cuts == pytest.approx((0.1, 0.3))


def test_two_short_texts_may_lie_farther_apart() -> None:
    corpus = corpus_of([A, NEAR_A, B], texts=["few words", "other words", "word " * 31])
    seen = explained(corpus, answer(0, 1, 2), answer(0, 1))
    assert seen.short == {0, 1}
    assert seen.cut(1, 0) == pytest.approx(0.1 * seen.short_factor) == pytest.approx(0.133)
    assert seen.cut(2, 0) == pytest.approx(0.1)
    assert seen.cut(7, 0) is None


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
        seen = explain(corpus, Pool(answer=ranking, first=4, policy=FIXED, known=known), page)
        assert list(seen.verdicts) == list(range(known))
        assert seen.kept == ((0, 3) if known > 3 else (0, 1))
        assert seen.median == explained(corpus, ranking, page, first=4).median


def test_the_direct_order_of_equal_texts_is_the_one_that_counts() -> None:
    corpus = corpus_of([A, A, B], texts=["one text", "one text", "another text"])
    seen = explained(corpus, answer(0, 1, 2), answer(1, 0))
    assert (seen.verdicts[1].stands_for_it, seen.verdicts[0].stands_for_it) == (None, 1)


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
        metadata=Metadata(texts=tuple(chunk.text for chunk in corpus.chunks)),
    )
    plain = select(candidates, top_k=len(direct.rows), policy=policy.selection)
    assert seen.kept == tuple(plain.keep.tolist())
    for verdict in seen.verdicts.values():
        head = verdict.stands_for_it
        assert head is None or seen.verdicts[head].stands_for_it is None
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
    assert [corpus.chunks[row].document for row in lstrip.apart_from] == ["builtins.str.rstrip"]
