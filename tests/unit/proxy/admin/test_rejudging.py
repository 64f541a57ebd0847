"""A kept pool gives the same page as the pool itself, whichever policy chooses, and holds no text."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.texts import as_texts
from vecsieve.config.policy import PolicySettings
from vecsieve.config.presets import policy_of
from vecsieve.config.schema import RuleSettings
from vecsieve.proxy.admin.rejudging import COPY, KeptPool, Page, keeping, rejudged
from vecsieve.proxy.demo.corpus import load
from vecsieve.proxy.search.policy import resolved
from vecsieve.proxy.selection.certainty import SHIPPED
from vecsieve.proxy.selection.paged import paging
from vecsieve.proxy.selection.policy import Caps, Certain, Fixed, Policy, Relative, Short, When
from vecsieve.proxy.selection.single import select
from vecsieve.proxy.selection.values import Candidates, Fate, Metadata, Metric, Selection, finished

DEFAULT = resolved(PolicySettings(), mode=None).selection
CORPUS = load()
POOL, TOP_K = 40, 8


def of_preset(name: str) -> Policy:
    return resolved(policy_of(PolicySettings(), RuleSettings(preset=name)), mode=None).selection  # type: ignore[arg-type]  # - a preset's name


OTHERS: dict[str, Policy] = {
    "default": DEFAULT,
    "careful": of_preset("careful"),
    "exact": of_preset("exact"),
    "classical": of_preset("classical"),
    "tickets": of_preset("tickets"),
    "vectors": of_preset("vectors"),
    "lax": replace(DEFAULT, threshold=Certain(first=0.3, last=0.1)),
    "strict": replace(DEFAULT, threshold=Certain(first=1.0, last=1.0)),
    "fixed": replace(DEFAULT, threshold=Fixed(value=0.2)),
    "relative": replace(DEFAULT, threshold=Relative(factor=0.4, minimum=0.0, maximum=0.6)),
    "always": replace(DEFAULT, when=When.ALWAYS),
    "mmr": resolved(PolicySettings.model_validate({"mmr": {"lambda": 0.5}}), mode=None).selection,
    "raw mmr": resolved(
        PolicySettings.model_validate(
            {"mmr": {"lambda": 0.5, "relevance": "raw", "similarity": "raw"}, "order": "mmr"}
        ),
        mode=None,
    ).selection,
}


@cache
def demo_pool(question: int, size: int = POOL) -> Candidates:
    """What a search for one of the demo's questions fetches, with its texts."""
    query = CORPUS.question_vectors[question]
    similarities = CORPUS.vectors @ query
    rows = np.argsort(-similarities, kind="stable")[:size]
    chunks = [CORPUS.chunks[row] for row in rows.tolist()]
    known = Metadata(texts=as_texts([chunk.text for chunk in chunks]), titles=tuple(chunk.title for chunk in chunks))
    return Candidates(
        scores=similarities[rows].astype(np.float64),
        vectors=np.ascontiguousarray(CORPUS.vectors[rows]),
        metric=Metric.COSINE,
        query=query,
        metadata=known,
    )


def kept(candidates: Candidates, policy: Policy = DEFAULT, top_k: int = TOP_K, offset: int | None = None) -> KeptPool:
    return finished(keeping(candidates, top_k=top_k, policy=policy, offset=offset))


@cache
def kept_demo(question: int, size: int = POOL, offset: int | None = None) -> KeptPool:
    """What was kept does not depend on the policy that judges it anew."""
    return kept(demo_pool(question, size), offset=offset)


def paged(candidates: Candidates, policy: Policy, offset: int, top_k: int = TOP_K) -> Selection:
    return finished(paging(candidates, top_k=top_k, offset=offset, policy=policy, exhausted=True))


@pytest.mark.parametrize("name", OTHERS)
def test_a_kept_pool_of_real_texts_gives_the_page_that_the_pool_gives(name: str) -> None:
    policy, different = OTHERS[name], []
    for question in range(len(CORPUS.questions)):
        candidates = demo_pool(question)
        chosen = select(candidates, top_k=TOP_K, policy=policy)
        page = rejudged(kept_demo(question), policy)
        if page.keep.tolist() != chosen.keep.tolist():
            different.append(question)
    assert different == []


@cache
def in_a_plane(question: int, has_texts: bool) -> tuple[Candidates, KeptPool]:
    pool = demo_pool(question)
    plane = np.linalg.qr(np.random.default_rng(question).standard_normal((pool.vectors.shape[1], 6)))[0]
    flat = (pool.vectors @ plane @ plane.T).astype(np.float32)
    candidates = replace(pool, vectors=flat, metadata=pool.metadata if has_texts else Metadata())
    return candidates, kept(candidates)


@pytest.mark.parametrize("name", ["default", "tickets", "lax", "relative", "mmr"])
@pytest.mark.parametrize("has_texts", [True, False])
def test_what_chance_allows_is_narrowed_only_where_clusters_lean_on_vectors(name: str, has_texts: bool) -> None:
    """Vectors that lie in a plane of few dimensions: selection narrows after it has clustered, and so must the kept pool."""
    policy, narrowed, different = OTHERS[name], 0, []
    for question in range(len(CORPUS.questions)):
        candidates, kept_pool = in_a_plane(question, has_texts)
        chosen = select(candidates, top_k=TOP_K, policy=policy)
        narrowed += kept_pool.narrowed < kept_pool.largest
        if rejudged(kept_pool, policy).keep.tolist() != chosen.keep.tolist():
            different.append(question)
    assert narrowed > len(CORPUS.questions) / 2
    assert different == []


CAPS = Caps(per_cluster=1, per_document=2, per_source=3)
CAPPED: dict[str, Policy] = {
    "by the calibrated rule": replace(DEFAULT, caps=CAPS),
    "by document alone": replace(DEFAULT, caps=replace(CAPS, per_source=None)),
    "two of a cluster": replace(DEFAULT, caps=replace(CAPS, per_cluster=2)),
    "with MMR": replace(OTHERS["mmr"], caps=CAPS),
    "short": replace(DEFAULT, caps=replace(CAPS, per_document=1), short=Short.ALLOW),
}


@pytest.mark.parametrize("name", CAPPED)
def test_caps_hold_for_a_kept_pool_as_for_the_pool_itself(name: str) -> None:
    policy, different, filled_otherwise, capped = CAPPED[name], [], 0, 0
    titles = [chunk.title.partition(".")[0] for chunk in CORPUS.chunks]
    for question in range(len(CORPUS.questions)):
        pool = demo_pool(question)
        rows = np.argsort(-(CORPUS.vectors @ CORPUS.question_vectors[question]), kind="stable")[:POOL].tolist()
        documents = tuple(titles[row] if row % 7 else None for row in rows)
        sources = tuple(str(row % 5) for row in rows)
        candidates = replace(pool, metadata=replace(pool.metadata, documents=documents, sources=sources))
        chosen, page = select(candidates, top_k=TOP_K, policy=policy), rejudged(kept(candidates), policy)
        capped += int(np.count_nonzero(chosen.fates == Fate.CAPPED))
        picked = chosen.keep[chosen.fates[chosen.keep] == Fate.KEPT]
        if len(page.keep) != len(chosen.keep) or not np.isin(picked, page.keep).all():
            different.append(question)
        filled_otherwise += page.keep.tolist() != chosen.keep.tolist()
    assert capped > 20
    assert different == []
    # A selection may know the doubt of a pair that no cut allows by its bound, and fill by it; a kept pool has it in full.
    assert filled_otherwise <= 0.03 * len(CORPUS.questions)


@pytest.mark.parametrize("name", ["default", "careful", "exact", "lax", "vectors", "mmr"])
@pytest.mark.parametrize(("size", "offset"), [(50, 0), (50, 8), (100, 32)])
def test_a_page_by_offset_is_the_page_of_the_list(name: str, size: int, offset: int) -> None:
    policy, different = OTHERS[name], []
    for question in range(0, len(CORPUS.questions), 2):
        candidates = demo_pool(question, size)
        chosen = paged(candidates, policy, offset)
        page = rejudged(kept_demo(question, size, offset), policy)
        if page.keep.tolist() != chosen.keep.tolist():
            different.append(question)
    # Which words are rare, and which lines are headers, is read off the first 50 there and off the whole pool here.
    assert len(different) <= (0 if size == 50 else 1), different


def test_signals_of_the_policy_that_chose_count_for_it_alone() -> None:
    guards = replace(DEFAULT.guards, subjects=False, negation=False, numbers=False, templates=False)
    near = replace(DEFAULT, threshold=Fixed(value=0.0), text=of_preset("exact").text, guards=guards)
    without = replace(near, text=DEFAULT.text)
    assert near.text is not None
    loose = replace(near, text=replace(near.text, near=(("jaccard", 0.3),)))
    pages = dict.fromkeys(("near", "without", "loose"), 0)
    for question in range(0, len(CORPUS.questions), 3):
        candidates = demo_pool(question)
        pool = kept(candidates, loose)
        for name, policy in (("near", near), ("without", without), ("loose", loose)):
            chosen = select(candidates, top_k=TOP_K, policy=policy)
            assert rejudged(pool, policy).keep.tolist() == chosen.keep.tolist(), (name, question)
            pages[name] += chosen.distinct
    assert pages["loose"] < pages["near"] < pages["without"]


@pytest.mark.parametrize("order", [0, 1])
def test_texts_of_one_template_stay_apart_in_a_kept_pool(order: int) -> None:
    """Their heads need not be of the template: here the first result is none of it."""
    draw = np.random.default_rng(order)
    levels, places = ("Junior", "Senior", "Lead"), ("Paris", "Bonn", "Rome")
    jobs = [f"{level} Python developer in {place}" for level in levels for place in places]
    texts = ["All jobs of this week", *draw.permutation(jobs).tolist(), "Bees and violins", "Taxes on glaciers"]
    base = draw.normal(size=64)
    vectors = np.array(
        [base + draw.normal(scale=0.02 if " in " in text else 1.0, size=64) for text in texts], np.float32
    )
    scores = np.linspace(1.0, 0.5, len(texts))
    candidates = Candidates(
        scores=scores, vectors=vectors, metric=Metric.COSINE, metadata=Metadata(texts=as_texts([*texts]))
    )
    page = rejudged(kept(candidates), DEFAULT)
    assert page.keep.tolist() == select(candidates, top_k=TOP_K, policy=DEFAULT).keep.tolist() == list(range(TOP_K))


def test_what_was_dropped_and_filled_is_counted_as_selection_counts_it() -> None:
    for question in range(12):
        candidates = demo_pool(question)
        chosen, page = select(candidates, top_k=TOP_K, policy=DEFAULT), rejudged(kept(candidates), DEFAULT)
        if chosen.acted:  # behind a page without copies selection compares nothing
            assert page.labels.tolist() == chosen.labels.tolist()
        assert page.filled == int(np.count_nonzero(chosen.fates == Fate.FILLED))


@given(
    seed=st.integers(0, 2**32 - 1),
    n=st.integers(0, 70),
    families=st.tuples(st.sampled_from([3, 10]), st.sampled_from([0.02, 0.2])),
    top_k=st.integers(1, 12),
    name=st.sampled_from(["default", "careful", "vectors", "lax", "always"]),
    damaged=st.booleans(),
    tenants=st.booleans(),
)
def test_without_texts_too(
    seed: int, n: int, families: tuple[int, float], top_k: int, name: str, damaged: bool, tenants: bool
) -> None:
    """Invariant: for the calibrated rule, rejudged(keeping(pool), policy) keeps what select(pool, policy) keeps."""
    random, (size, spread) = np.random.default_rng(seed), families
    centres = random.standard_normal((max(1, n // size), 600))  # no plane of fewer dimensions narrows a cut
    vectors = centres[random.integers(0, len(centres), n)] + spread * random.standard_normal((n, 600))
    if damaged and n:
        vectors[random.integers(0, n)] = np.nan
    candidates = Candidates(
        scores=np.linspace(1.0, 0.5, n),
        vectors=vectors.astype(np.float32),
        metric=Metric.COSINE,
        tenants=random.integers(0, 2, n) if tenants else None,
    )
    policy = OTHERS[name]
    chosen = select(candidates, top_k=top_k, policy=policy)
    page = rejudged(kept(candidates, policy, top_k), policy)
    assert page.keep.tolist() == chosen.keep.tolist()


@pytest.mark.parametrize("spread", [0.02, 0.2])
def test_where_some_have_no_text_too(spread: float) -> None:
    """A tight cluster whose candidates partly have no text stays, of copies one result."""
    random = np.random.default_rng(7)
    vectors = random.standard_normal((5, 600)).repeat(10, axis=0) + spread * random.standard_normal((50, 600))
    texts = [None if number % 2 else f"{number} bees {'hum ' * number}" for number in range(50)]
    candidates = Candidates(
        scores=np.linspace(1.0, 0.5, 50),
        vectors=vectors.astype(np.float32),
        metric=Metric.COSINE,
        metadata=Metadata(texts=as_texts(texts)),
    )
    chosen = select(candidates, top_k=TOP_K, policy=DEFAULT)
    assert rejudged(kept(candidates), DEFAULT).keep.tolist() == chosen.keep.tolist()
    assert (chosen.keep.tolist() == list(range(TOP_K))) == (spread == 0.2)


def test_a_pool_of_forty_is_kept_in_nine_thousand_bytes_and_no_text_is_in_it() -> None:
    pool = kept(demo_pool(0))
    assert pool.size_bytes < 9000
    arrays = [value for name in KeptPool.__slots__ if isinstance(value := getattr(pool, name), np.ndarray)]
    assert sum(array.nbytes for array in arrays) <= pool.size_bytes
    assert all(array.dtype.kind in "fui" for array in arrays)
    assert all(array.base is None for array in arrays), "a view would hold what it is a view of"


def test_an_empty_pool_is_an_empty_page() -> None:
    nothing = Candidates(scores=np.empty(0), vectors=np.empty((0, 4), np.float32), metric=Metric.COSINE)
    page = rejudged(kept(nothing), DEFAULT)
    assert isinstance(page, Page)
    assert (page.keep.tolist(), page.labels.tolist(), page.filled) == ([], [], 0)


@pytest.mark.parametrize("has_texts", [True, False])
def test_what_weighed_most_is_known_of_each_candidate_that_repeats_a_result(has_texts: bool) -> None:
    """The features that are kept give the probability that decided, and the two subjects are told of that result alone."""
    policy = DEFAULT if has_texts else replace(DEFAULT, text=None)
    pool = finished(keeping(demo_pool(0), top_k=TOP_K, policy=policy))
    assert pool.standing is not None
    assert pool.features is not None
    copies = np.flatnonzero(pool.standing != np.arange(POOL))
    assert len(copies)
    rows, columns = np.triu_indices(POOL, 1)
    assert len(pool.features) == len(copies), "others have none"
    for row, features in zip(copies.tolist(), pool.features.astype(np.float64), strict=True):
        head = int(pool.standing[row])
        if has_texts:
            told = 1.0 / (1.0 + np.exp(-(features @ np.asarray(SHIPPED.texts))))
            at = np.flatnonzero((rows == head) & (columns == row))[0]
            assert pool.bits[at] & COPY or told == pytest.approx(1.0 - pool.doubt[at] / 65534, abs=0.01)
        assert 1 <= len(pool.why(row, head)) <= 2
        assert pool.why(row, head + 1) == ()
    assert all(pool.why(row, row) == () for row in range(POOL)), "a result repeats none"
    assert pool.why(POOL, 0) == ()


def test_pools_of_other_rules_have_no_features() -> None:
    pool = finished(keeping(demo_pool(0), top_k=TOP_K, policy=OTHERS["fixed"]))
    assert pool.features is None
    assert pool.why(1, 0) == ()
