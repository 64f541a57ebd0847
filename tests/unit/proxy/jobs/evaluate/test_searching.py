"""A query through the proxy's own code: what comes back, what it was widened to, what is timed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.jobs.labelled_folders import (
    BY_TEXT,
    BY_VECTORS,
    COPY,
    CORPUS,
    QUERIES,
    VECTORS,
    A,
    B,
    C,
    D,
    labelled_folder,
)
from vecsieve.config.policy import PolicySettings
from vecsieve.config.problems import SettingsError
from vecsieve.proxy.jobs.evaluate import searching
from vecsieve.proxy.jobs.evaluate.reading import LabelledSet, Query, read_set, unit
from vecsieve.proxy.jobs.evaluate.searching import (
    Contender,
    Neighbours,
    Points,
    Trial,
    TrialOutcome,
    Upstream,
    contenders,
    json_floats,
    neighbours,
)
from vecsieve.proxy.search.policy import ResolvedPolicy, resolved
from vecsieve.proxy.selection.diversifiers.mmr import Mmr
from vecsieve.proxy.selection.policy import Fixed, Short, Tier, When

DISTINCT = [[1.0, 0.0, 0.0], [0.9, 0.0, 0.44], [0.8, 0.6, 0.0], [0.6, 0.0, 0.8], [0.0, 1.0, 0.0]]


class Recorder(Upstream):
    """Remembers what it was asked, and what it said."""

    def __init__(self, labelled: LabelledSet, query: int) -> None:
        super().__init__(Points(labelled), dict(neighbours(labelled, every=1))[query])
        self.requested: list[dict[str, Any]] = []
        self.stated: list[dict[str, Any]] = []

    async def answer(self, body: bytes) -> bytes:
        reply = await super().answer(body)
        self.requested.append(json.loads(body))
        self.stated.append(json.loads(reply))
        return reply


def ticking(step: float = 1.0) -> Callable[[], float]:
    """A clock that moves by a step each time it is read."""
    time = 0.0

    def clock() -> float:
        nonlocal time
        time += step
        return time

    return clock


def policy(text: str, pool: int | None = None) -> ResolvedPolicy:
    return contenders(given=[f"own={text}"], pool=pool)[0].policy


def searched(folder: Path, chosen: ResolvedPolicy, *, top_k: int = 3, **members: Any) -> tuple[TrialOutcome, Recorder]:
    labelled = read_set(labelled_folder(folder / "tiny", **members))
    upstream = Recorder(labelled, 0)
    trial = Trial(top_k=top_k, clock=ticking())
    return asyncio.run(trial.search(chosen, labelled.query_vectors[0], upstream)), upstream


def test_a_policy_that_reads_texts_gets_them_through_the_adapter(tmp_path: Path) -> None:
    # `a` and `b` say the same word for word and stand far apart: nothing but the text can tell.
    corpus = [CORPUS[A], {**CORPUS[COPY], "text": "other"}, {**CORPUS[B], "text": "ALPHA"}, *CORPUS[C:]]
    outcome, upstream = searched(tmp_path, policy(BY_TEXT), corpus=corpus, vectors=DISTINCT)
    assert outcome.rows == (A, COPY, C)
    assert "text" in upstream.requested[0]["with_payload"]
    assert {"text": "alpha"}.items() <= upstream.stated[0]["result"]["points"][0]["payload"].items()


@pytest.mark.parametrize("chosen", [BY_TEXT, BY_VECTORS])
def test_what_was_left_out_as_a_copy_is_known(tmp_path: Path, chosen: str) -> None:
    outcome, _ = searched(tmp_path, policy(chosen))
    assert (outcome.rows, outcome.dropped) == ((A, B, C), (COPY,))


def test_copies_below_the_page_are_no_drops_of_it(tmp_path: Path) -> None:
    vectors = [VECTORS[A], VECTORS[B], VECTORS[C], VECTORS[D], VECTORS[D]]
    outcome, _ = searched(tmp_path, policy(BY_VECTORS), vectors=vectors)
    assert (outcome.rows, outcome.dropped) == ((0, 1, 2), ())


def test_a_page_that_is_short_reaches_the_whole_pool(tmp_path: Path) -> None:
    vectors = [VECTORS[A], VECTORS[B], VECTORS[C], VECTORS[D], VECTORS[D]]
    chosen = policy(BY_VECTORS.replace("short: fill", "short: allow"))
    outcome, _ = searched(tmp_path, chosen, vectors=vectors, top_k=5)
    assert (outcome.rows, outcome.dropped) == ((0, 1, 2, 3), (4,))


def test_the_pool_is_what_the_policy_fetches_or_exactly_what_was_said(tmp_path: Path) -> None:
    assert searched(tmp_path / "a", policy(BY_VECTORS))[1].requested[0]["limit"] == 24
    assert searched(tmp_path / "b", policy(BY_VECTORS, pool=4))[1].requested[0]["limit"] == 4
    assert searched(tmp_path / "c", policy(BY_VECTORS, pool=777))[1].requested[0]["limit"] == 777


def test_a_policy_that_grows_its_pool_is_answered_again(tmp_path: Path) -> None:
    growing = BY_VECTORS.replace("short: fill", "short: grow_then_fill, fetch: {factor: 1.0, floor: 4}")
    corpus = [{**CORPUS[0], "id": str(row), "atoms": ["x"]} for row in range(9)]
    vectors = [[1.0, 0.0, 0.0]] * 8 + [[0.0, 1.0, 0.0]]
    queries = [{"subtopics": {"x": ["0"]}}] * 2
    outcome, upstream = searched(tmp_path, policy(growing), corpus=corpus, vectors=vectors, queries=queries, top_k=2)
    assert [request["limit"] for request in upstream.requested] == [4, 16]
    assert outcome.rows == (0, 8)


def test_a_closed_list_is_all_that_can_come_back(tmp_path: Path) -> None:
    queries = [{**QUERIES[0], "candidates": ["a", "a2", "d"]}, QUERIES[1]]
    assert searched(tmp_path / "fill", policy(BY_VECTORS), queries=queries)[0].rows == (A, COPY, D)
    allowed = policy(BY_VECTORS.replace("short: fill", "short: allow"))
    assert searched(tmp_path / "allow", allowed, queries=queries)[0].rows == (A, D)


def test_what_the_proxy_would_not_widen_is_answered_plainly(tmp_path: Path) -> None:
    capped = policy(BY_VECTORS.replace("short: fill", "short: fill, fetch: {floor: 2, cap: 2}"))
    outcome, upstream = searched(tmp_path, capped)
    assert outcome == TrialOutcome(rows=(A, COPY, B), added_seconds=0.0)
    assert upstream.requested[0]["limit"] == 3


def test_items_without_a_direction_are_answered_plainly(tmp_path: Path) -> None:
    # An empty pool of vectors: upstream's own order stands.
    outcome, _ = searched(tmp_path, policy(BY_VECTORS), vectors=[[0.0, 0.0, 0.0]] * 5)
    assert outcome.rows == (A, COPY, B)


def test_the_plain_answer_is_the_ranking_s_head(tmp_path: Path) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    upstream = Recorder(labelled, 1)
    outcome = asyncio.run(Trial(top_k=2, clock=ticking()).plain(labelled.query_vectors[1], upstream))
    assert outcome == TrialOutcome(rows=(D, B), added_seconds=0.0)
    assert (upstream.requested[0]["limit"], upstream.requested[0]["with_payload"]) == (2, False)


@pytest.mark.parametrize("step", [1.0, 0.25])
def test_time_is_that_of_all_but_the_database(tmp_path: Path, step: float) -> None:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    trial = Trial(top_k=3, clock=ticking(step))
    outcome = asyncio.run(trial.search(policy(BY_VECTORS), labelled.query_vectors[0], Recorder(labelled, 0)))
    assert outcome.added_seconds >= 3 * step  # three laps of choosing alone
    assert outcome.added_seconds % step == 0.0


# Exact neighbours: the order of a full sort by similarity and row, however few are asked for.


def test_ties_are_broken_by_row(tmp_path: Path) -> None:
    nearest = dict(neighbours(read_set(labelled_folder(tmp_path / "tiny")), every=1))
    assert nearest[0].first(5).tolist() == [A, COPY, B, C, D]
    assert nearest[1].first(5).tolist() == [D, B, A, COPY, C]


@given(st.lists(st.integers(-3, 3), min_size=1, max_size=40), st.integers(0, 45), st.booleans())
def test_the_first_few_are_the_head_of_a_full_sort(values: list[int], count: int, closed: bool) -> None:
    """Invariant: first(n) is the first n of sorted(rows, by falling similarity, then row), ties included."""
    rows = list(range(0, len(values), 2)) if closed else list(range(len(values)))
    nearest = Neighbours(
        similarities=np.array(values, np.float32) / np.float32(3.0),
        candidates=np.array(rows, np.intp) if closed else None,
    )
    assert nearest.first(count).tolist() == sorted(rows, key=lambda row: (-values[row], row))[:count]


@pytest.mark.parametrize("every", [1, 2, 3, 7, 100])
def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: int) -> None:
    labelled = read_set(
        labelled_folder(
            tmp_path / "tiny", queries=QUERIES[:1] * 11, query_vectors=[[1.0, row, 0.0] for row in range(11)]
        )
    )
    whole = list(neighbours(labelled, every=every))
    monkeypatch.setattr(searching, "BLOCK", 2)
    blocks = list(neighbours(labelled, every=every))
    assert [number for number, _ in blocks] == list(range(0, 11, every))
    assert [one.first(5).tolist() for _, one in blocks] == [one.first(5).tolist() for _, one in whole]
    for number, one in blocks:
        np.testing.assert_allclose(one.similarities, labelled.vectors @ labelled.query_vectors[number], rtol=1e-6)


@pytest.mark.parametrize("every", [1, 2, 3, 5, 9, 22])
@pytest.mark.parametrize("seed", range(5))
def test_copies_tie_however_many_queries_are_asked_at_once(seed: int, every: int) -> None:
    random = np.random.default_rng(seed)
    once = unit(random.normal(size=(23, 37)).astype(np.float32))
    labelled = LabelledSet(
        name="copies",
        items=(),
        queries=(Query(subtopics={}, relevant=frozenset(), candidates=None),) * 23,
        vectors=np.concatenate((once, once)),
        query_vectors=once,
    )
    whole = dict(neighbours(labelled, every=1))
    for number, some in neighbours(labelled, every=every):
        assert some.similarities.tobytes() == whole[number].similarities.tobytes()
        assert some.similarities[:23].tobytes() == some.similarities[23:].tobytes()


# Items as a server writes them: float32 to the last bit, payload as it stands in the file.


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False), max_size=20))
def test_floats_read_back_as_the_same_float32(values: list[float]) -> None:
    """Invariant: JSON text, read as doubles and rounded, gives the same 32 bits, sign of zero included."""
    row = np.array(values, np.float32)
    read = np.array(orjson.loads(json_floats(row)), np.float32)
    assert read.tobytes() == row.tobytes()


# The in-memory server: the lists, the windows and the selections that Qdrant gives, and a refusal of all else.


@pytest.fixture
def upstream(tmp_path: Path) -> Upstream:
    labelled = read_set(labelled_folder(tmp_path / "tiny"))
    return Upstream(Points(labelled), dict(neighbours(labelled, every=1))[0])


def points_of(upstream: Upstream, **members: object) -> list[dict[str, Any]]:
    body = json.dumps({"query": [1.0, 0.0, 0.0], **members}).encode()
    points: list[dict[str, Any]] = json.loads(asyncio.run(upstream.answer(body)))["result"]["points"]
    return points


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ({}, [A, COPY, B, C, D]),
        ({"limit": 2, "offset": 1}, [COPY, B]),
        ({"limit": 2, "offset": 4}, [D]),
        ({"limit": 2, "offset": 5}, []),
        ({"limit": 100}, [A, COPY, B, C, D]),
        ({"limit": 0}, []),
    ],
)
def test_a_window_is_cut_from_the_ranking(upstream: Upstream, members: dict[str, object], expected: list[int]) -> None:
    assert [point["id"] for point in points_of(upstream, **members)] == expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [(True, ["doc", "source", "text"]), (["text", "nowhere"], ["text"]), ([], []), (False, None)],
)
def test_a_point_has_the_fields_that_were_asked_for_and_never_its_labels(
    upstream: Upstream, selector: object, expected: list[str] | None
) -> None:
    bare, whole = (points_of(upstream, limit=1, with_payload=selector, with_vector=way)[0] for way in (False, [""]))
    assert (sorted(bare["payload"]) if "payload" in bare else None) == expected
    assert whole.pop("vector") == [1.0, 0.0, 0.0]
    assert whole == bare


@pytest.mark.parametrize(
    "members", [{"filter": {}}, {"with_vector": ["text"]}, {"with_payload": {"include": ["a"]}}, {"limit": "many"}]
)
def test_what_it_does_not_do_is_refused_loudly(upstream: Upstream, members: dict[str, object]) -> None:
    with pytest.raises(ValueError, match=r"with_vector|with_payload|unknown field|limit"):
        points_of(upstream, **members)


# Which policies are compared, and that what cannot be one is told where the user wrote it.


def names(compared: tuple[Contender, ...]) -> list[str]:
    return [contender.name for contender in compared]


def refusal(*given: str, config: Path | None = None) -> str:
    with pytest.raises(SettingsError) as caught:
        contenders(given=given, config=config)
    return str(caught.value)


PRESETS = ["exact", "meaning", "vectors", "classical"]


def test_the_usual_ones_are_the_presets() -> None:
    compared = contenders()
    assert names(compared) == ["default", *PRESETS]
    default, exact, meaning, vectors, classical = (contender.policy.selection for contender in compared)
    assert default == resolved(PolicySettings(), mode=None).selection
    assert [contender.texts for contender in (default, exact, meaning, vectors)] == [
        Tier.EDITED,
        Tier.EXACT,
        Tier.EDITED,
        None,
    ]
    assert (default.rewordings, meaning.rewordings is None) == (None, False)
    assert (classical.threshold, classical.when) == (Fixed(value=0.15), When.ALWAYS)
    assert isinstance(classical.diversifier, Mmr)


def test_a_configured_policy_is_compared_with_the_default_and_each_preset_over_it(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {threshold: {fixed: 0.07}, when: always, caps: {per_document: 3}}\n")
    compared = contenders(config=config)
    assert names(compared) == ["default", "configured", *PRESETS]
    default, configured, exact, meaning, *_ = (contender.policy.selection for contender in compared)
    assert (default.threshold, default.caps.per_document) == (None, None)
    assert (configured.threshold, configured.caps.per_document) == (Fixed(value=0.07), 3)
    assert [contender.policy.selection.caps.per_document for contender in compared[1:]] == [3] * 5
    assert (exact.threshold, exact.texts, meaning.texts) == (None, Tier.EXACT, Tier.EDITED)


def test_given_policies_are_laid_on_the_base_in_their_order(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {short: allow, when: always}\n")
    compared = contenders(given=["old=classical", "now={}", "b = {when: redundant}"], config=config)
    assert names(compared) == ["old", "now", "b"]
    assert [contender.policy.selection.short for contender in compared] == [Short.FILL, Short.ALLOW, Short.ALLOW]
    assert [contender.policy.selection.when for contender in compared] == [When.ALWAYS, When.ALWAYS, When.REDUNDANT]


def test_a_pool_is_exact_beyond_the_policy_s_own_bounds() -> None:
    made = contenders(given=["own={fetch: {cap: 50}}"], pool=300)[0].policy
    assert (made.exact_fetch, made.fetch.cap) == (300, 300)
    assert contenders(given=["own={}"])[0].policy.exact_fetch is None


@pytest.mark.parametrize("given_", ["", "classical", "=classical", " ={}"])
def test_what_has_no_name_is_told(given_: str) -> None:
    assert refusal(given_).startswith("--policy: wanted NAME=VALUE")


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        ("a=clasical", "--policy a: wanted a preset (default, exact, meaning, "),
        ("a={texts: equal}", "--policy a, texts: wanted "),
        ("a={certainty: 2}", "--policy a, certainty: wanted none, a number from 0 to 1, or {first: …, last: …}; saw 2"),
        ("a=[1]", "; saw [1]"),
        ("a=", "; saw null"),
        ("a=7", "; saw 7"),
        ("a={threshold: {fixed: 3}}", "--policy a, threshold.fixed: wanted "),
        ("a={treshold: {fixed: 0.1}}", "--policy a, treshold: "),
        ("a={when: sometimes, linkage: none}", "--policy a, when: "),
        ("a={when: [", "--policy a: wanted a preset"),
        ("a={when: always, when: always}", "--policy a, when: wanted the key once; saw it again"),
    ],
)
def test_what_is_no_policy_is_told_in_the_user_s_own_place(given_: str, expected: str) -> None:
    assert expected in refusal(given_)
    assert "rules" not in refusal(given_)


def test_every_fault_of_a_policy_is_told() -> None:
    assert refusal("a={when: sometimes, linkage: tight}").count("--policy a, ") == 2


@pytest.mark.parametrize(
    ("given_", "expected"),
    [
        (("a={}", "b={}", "a=classical"), "--policy: wanted a name of its own for each; saw a twice"),
        (("plain={}",), "--policy: wanted another name: the plain answer is always included; saw plain"),
    ],
)
def test_two_of_one_name_are_told(given_: tuple[str, ...], expected: str) -> None:
    assert refusal(*given_) == expected


def test_a_settings_file_that_is_wrong_is_told_as_ever(tmp_path: Path) -> None:
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {when: sometimes}\n")
    assert refusal(config=config).startswith(f"{config}:1: policy.when: wanted ")


def test_the_environment_has_no_say(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("VECSIEVE_POLICY_WHEN", "always")
    monkeypatch.setenv("VECSIEVE_EVAL_DATA", str(tmp_path))
    config = tmp_path / "settings.yaml"
    config.write_text("policy: {when: redundant}\n")
    assert contenders(config=config)[1].policy.selection.when is When.REDUNDANT


@given(st.text(max_size=40))
def test_any_text_is_a_policy_or_told(text: str) -> None:
    """Invariant: a contender of that name, or a SettingsError of printable lines."""
    try:
        labels = names(contenders(given=[f"own={text}"]))
    except SettingsError as error:
        labels = ["own"]
        lines = str(error).split("\n")
        assert all(line.isprintable() for line in lines), lines
    assert labels == ["own"]
