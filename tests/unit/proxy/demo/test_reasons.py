"""The selection done once more: who stands for whom and why, and what would be missing without those that stay."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.jobs.demo_policies import FIXED, SHIPPED, cutting
from support.jobs.tiny_corpus import NEAR_A, A, B, C, D, answer, corpus_of
from support.selection.texts import as_texts
from vecsieve.proxy.demo.corpus import Corpus, load
from vecsieve.proxy.demo.database import Answer
from vecsieve.proxy.demo.reasons import Pool, Reasons, explain
from vecsieve.proxy.search.policy import ResolvedPolicy
from vecsieve.proxy.selection.policy import Fixed
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Link, Metadata, Metric

LOWER = "The index opens 0.28 % lower on Monday"
HIGHER = "The index opens 0.19 % lower on Monday"
LONG = "Insert item x in list a and keep it sorted. It is assumed that list a is sorted already before the call."

SENTENCES = (
    "Insert item x in list a and keep it sorted, whatever the items of the list are and however long it is.",
    "It is assumed that list a is sorted already before the call, because the place of the item is found by halving it.",
    "If x is there already, the place is to the right of all that are equal, so that the order of insertion is kept.",
    "Slice bounds lo and hi limit the part of the list that is searched, and by default the whole list is used.",
)


def explained(
    corpus: Corpus, pool: Answer, direct: Answer, *, policy: ResolvedPolicy = SHIPPED, first: int = 9
) -> Reasons:
    return explain(corpus, Pool(answer=pool, first=first, policy=policy), direct)


def test_a_copy_by_vector_names_who_stands_for_it_how_alike_it_is_and_how_near_counted() -> None:
    seen = explained(corpus_of([A, NEAR_A, B, C]), answer(0, 1, 2, 3), answer(0, 1, 2), policy=FIXED)
    copy = seen.verdicts[1]
    assert (copy.rank, copy.holders, copy.link) == (2, (0,), Link.DISTANCE)
    assert copy.similarity == pytest.approx(0.999, abs=1e-4)
    assert copy.cut == pytest.approx(0.9)
    assert seen.kept == (0, 2, 3)


def test_a_result_of_its_own_has_nobody_standing_for_it() -> None:
    seen = explained(corpus_of([A, NEAR_A, B]), answer(0, 1, 2), answer(0, 1), policy=FIXED)
    assert [(seen.verdicts[row].holders, seen.verdicts[row].link) for row in (0, 2)] == [((), Link.NONE)] * 2


def test_texts_are_read_as_the_proxy_reads_them_out_of_payloads() -> None:
    corpus = corpus_of([A, B, C, D], texts=[LONG, LONG, "Other words stand here", "and others again there"])
    seen = explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2))
    assert (seen.verdicts[1].link, seen.verdicts[1].but) == (Link.EQUAL, "")
    assert explained(corpus, answer(0, 1, 2, 3), answer(0, 1, 2), policy=FIXED).verdicts[1].holders == ()


def test_a_text_that_says_the_same_names_the_words_that_were_passed_over() -> None:
    corpus = corpus_of([A, B, C], texts=[LONG, LONG.replace("Insert item", "Insert the item"), "Other words"])
    copy = explained(corpus, answer(0, 1, 2), answer(0, 1)).verdicts[1]
    assert (copy.holders, copy.link, copy.but) == ((0,), Link.EQUAL, "'the'")


def test_a_text_within_another_is_in_it() -> None:
    corpus = corpus_of([A, B, C], texts=[f"{LONG} If it is there already, the place is after it.", LONG, "Other words"])
    copy = explained(corpus, answer(0, 1, 2), answer(0, 1)).verdicts[1]
    assert (copy.holders, copy.link, copy.similarity) == ((0,), Link.CONTAINED, 1.0)


def test_a_text_in_two_others_names_both() -> None:
    texts = [" ".join(SENTENCES[:3]), " ".join(SENTENCES[1:]), " ".join(SENTENCES), "Other words stand here."]
    seen = explained(corpus_of([A, B, C, D], texts=texts), answer(0, 1, 2, 3), answer(0, 1, 2))
    assert (seen.verdicts[2].holders, seen.verdicts[2].link) == ((0, 1), Link.JOINED)


def test_a_result_that_stays_names_what_would_be_missing_and_whom_it_is_like() -> None:
    corpus = corpus_of([C, A, NEAR_A], texts=["Quite another matter", LOWER, HIGHER])
    stays = explained(corpus, answer(0, 1, 2), answer(0, 1, 2)).verdicts[2]
    assert stays.holders == ()
    assert stays.like is not None
    assert (stays.like.row, stays.like.missing.words, stays.like.missing.instead) == (1, "0.19 %", "0.28 %")


def test_a_result_that_shares_nothing_is_like_none() -> None:
    corpus = corpus_of([C, A, B], texts=["Quite another matter", LOWER, LONG])
    assert [verdict.like for verdict in explained(corpus, answer(0, 1, 2), answer(0, 1)).verdicts.values()] == [
        None
    ] * 3


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
    assert (seen.verdicts[1].holders, seen.verdicts[0].holders) == ((), (1,))


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
        for head in verdict.holders:
            assert seen.verdicts[head].holders == ()
            assert seen.verdicts[head].rank < verdict.rank


def test_on_the_demos_own_corpus_lstrip_stays_beside_rstrip() -> None:
    corpus = load()
    scores = corpus.vectors @ corpus.question_vectors[1]
    order = np.argsort(-scores, kind="stable").tolist()

    def nearest(count: int) -> Answer:
        rows = tuple(order[:count])
        return Answer(rows=rows, scores=tuple(float(scores[row]) for row in rows), milliseconds=1.0)

    seen = explained(corpus, nearest(160), nearest(8), first=40)
    kept = [corpus.chunks[row].document for row in seen.kept]
    assert {"builtins.str.rstrip", "builtins.str.lstrip"} <= set(kept)
    like = seen.verdicts[seen.kept[kept.index("builtins.str.lstrip")]].like
    assert like is not None
    assert corpus.chunks[like.row].document == "builtins.str.rstrip"
    assert ("leading" in like.missing.words, "trailing" in like.missing.instead) == (True, True)
