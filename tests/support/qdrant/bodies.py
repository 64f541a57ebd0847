"""Strategies for whole conversations with a Qdrant server: collections, requests of every kind, and what answers them."""

from __future__ import annotations

from functools import cache
from typing import Any

from hypothesis import strategies as st

from support.exchanges.conversation import Conversation, spelled
from support.qdrant.model import Server, Stored

PATHS = {
    "query": "query",
    "query_batch": "query/batch",
    "search": "search",
    "search_batch": "search/batch",
    "recommend": "recommend",
    "recommend_batch": "recommend/batch",
    "discover": "discover",
    "discover_batch": "discover/batch",
}

# Names and texts that look like what the adapter searches for.
NAMES = ("", "dense", "vector", 'a"b', "größe", "second")
PAYLOAD_KEYS = ("text", "vector", 'x"vector', "points", "result", "id", "größe", "doc", '"vector":[', "dense")
PAYLOAD_TEXTS = (
    "1",
    "-0.0",
    "1E5",
    "18446744073709551615",
    "123456789012345678901234567890",
    "null",
    '"\\"vector\\":[1,2]"',
    '"\\\\"',
    '"]}\\""',
    '"\\ud800"',
    '"\\\\ud800"',
    '"größe 😀"',
    "[]",
    "{}",
    "[1,2,3]",
    '{"vector":[1,2]}',
    '{"vector":{"dense":[0.5,1]},"a":[{"vector":[]}]}',
    '[{"id":1,"version":3,"score":1.0,"vector":[0.1]}]',
    '{"points":[],"result":{"points":[]}}',
)
NUMBERS = ("0.1", "-2.5", "1e-7", "0.0", "3", "-0.0", "1e16", "0.10000000149011612")
SCORES = ("0.9", "1", "-3.5", "1e-7", "0.0", "null", "1.0e2")


NEVER = st.just(False)

# Strategies are made and checked once, not with each value that is drawn: that took more time than the values.
SOME_KEYS = st.lists(st.sampled_from(PAYLOAD_KEYS), unique=True, max_size=4)
SOME_TEXT = st.sampled_from(PAYLOAD_TEXTS)
SELECTED_KEYS = st.lists(st.sampled_from(["text", "doc", "vector"]), max_size=2)
SELECTIONS = st.one_of(
    st.sampled_from([None, False, True, "absent"]),
    SELECTED_KEYS,
    SELECTED_KEYS.map(lambda keys: {"include": keys}),
    SELECTED_KEYS.map(lambda keys: {"exclude": keys}),
)


def number_lists(size: int) -> st.SearchStrategy[str]:
    return st.lists(st.sampled_from(NUMBERS), min_size=size, max_size=size).map(lambda texts: f"[{','.join(texts)}]")


@cache
def vector_texts(kind: str) -> st.SearchStrategy[str]:
    if kind == "sparse":
        values = number_lists(2)
        return values.map(lambda text: f'{{"indices":[3,70000],"values":{text}}}')
    if kind == "multi":
        return st.lists(number_lists(2), min_size=1, max_size=3).map(lambda rows: f"[{','.join(rows)}]")
    return number_lists(3)


@st.composite
def stored_points(draw: st.DrawFn, schema: dict[str, str]) -> Stored:
    names = draw(st.permutations([name for name in schema if draw(st.integers(0, 4))]))
    keys = draw(SOME_KEYS)
    return Stored(
        id=draw(st.sampled_from(["0", "7", "18446744073709551615", '"5c56c793-69f3-4fbf-87e6-c4bf54c28c26"'])),
        score=draw(st.sampled_from(SCORES)),
        payload=tuple((key, draw(SOME_TEXT)) for key in keys),
        vectors=tuple((name, draw(vector_texts(schema[name]))) for name in names),
        shard_key=draw(st.sampled_from([None, None, '"a"', "1"])),
    )


@st.composite
def servers(draw: st.DrawFn, *, is_old: st.SearchStrategy[bool] = NEVER) -> tuple[Server, dict[str, str]]:
    names = draw(st.lists(st.sampled_from(NAMES), unique=True, min_size=1, max_size=3))
    # Sparse vectors always have a name.
    kinds = ["dense", "dense", "multi", "sparse"]
    schema = {name: draw(st.sampled_from(kinds if name else kinds[:3])) for name in names}
    points = tuple(draw(st.lists(stored_points(schema), max_size=7)))
    tail = draw(st.sampled_from([',"status":"ok","time":0.000154', ',"usage":{"a":[1]},"status":"ok","time":1e-06']))
    return Server(points=points, is_old=draw(is_old), tail=tail), schema


def inputs(kind: str) -> Any:
    return {"dense": [0.25, 1, -3.5], "sparse": {"indices": [1, 2], "values": [0.5, 1.0]}, "multi": [[0.5, 1.0]]}[kind]


@st.composite
def rankings(draw: st.DrawFn, name: str, schema: dict[str, str]) -> dict[str, Any]:
    """The members that say what is searched, for one item that is ours."""
    using = draw(st.sampled_from(sorted(schema)))
    vector = inputs(schema[using])
    named = {} if using == "" else {"using": using}
    if name == "recommend":
        return {"positive": [1, 2], "strategy": "best_score", **named}
    if name == "discover":
        return {"target": 1, "context": [{"positive": 2, "negative": 3}], **named}
    if name == "search":
        return {"vector": {"name": using, "vector": vector} if using else vector}
    prefetch = [{"query": vector, "limit": 50, **named}, {"prefetch": {"filter": {}}, "query": 3, **named}]
    return draw(
        st.sampled_from(
            [
                {"query": vector, **named},
                {"query": {"nearest": vector}, **named},
                {"query": {"nearest": 42, "mmr": None}, **named},
                {"query": "5c56c793-69f3-4fbf-87e6-c4bf54c28c26", **named},
                {"query": {"recommend": {"positive": [1]}}, **named},
                {"query": {"context": []}, **named},
                {"query": {"fusion": "rrf"}, "prefetch": prefetch},
                {"query": {"rrf": {"k": 2}}, "prefetch": prefetch[0]},
                {"query": {"formula": {"sum": ["$score"]}, "defaults": {}}, "prefetch": prefetch},
            ]
        )
    )


@cache
def selected_vectors(names: tuple[str, ...]) -> st.SearchStrategy[Any]:
    return st.one_of(st.sampled_from([None, False, True, "absent"]), st.lists(st.sampled_from(names), max_size=3))


@st.composite
def items(draw: st.DrawFn, name: str, schema: dict[str, str], *, ours: bool) -> dict[str, Any]:
    """One search. The vector names it selects exist."""
    item = draw(rankings(name, schema))
    if not ours:
        item = {"query": draw(st.sampled_from([{"sample": "random"}, {"nearest": [1.0], "mmr": {}}, None]))}
        if name != "query":
            item = {"vector": [1.0], "not_known": 1}
    spellings = ["limit"] if name == "query" else ["limit", "top"]
    limit = draw(st.sampled_from([None, 2, 3, 5] if name == "query" else [2, 3, 5]))
    selector = draw(st.sampled_from(["with_vector"] if name == "discover" else ["with_vector", "with_vectors"]))
    members = {
        **item,
        draw(st.sampled_from(spellings)): limit,
        "offset": draw(st.sampled_from([None, "absent", 0, 1, 4])),
        selector: draw(selected_vectors(tuple(sorted(schema)))),
        "with_payload": draw(SELECTIONS),
        "filter": draw(st.sampled_from(["absent", {"must": [{"key": "limit", "match": {"value": "offset"}}]}])),
    }
    present = [(key, value) for key, value in members.items() if value != "absent"]
    return dict(draw(st.permutations(present)))


@st.composite
def conversations(
    draw: st.DrawFn,
    *,
    operation: str | None = None,
    is_old: st.SearchStrategy[bool] = NEVER,
    extra: dict[str, Any] | None = None,
) -> Conversation:
    """A request of a kind that is ours (in a batch: at least one item), and the server's answers.

    ``extra`` is laid over every item: it fixes what a test wants fixed.
    """
    if operation is None:
        operation = draw(st.sampled_from(sorted(PATHS)))
    name, _, batch = operation.partition("_")
    server, schema = draw(servers(is_old=is_old))
    document: Any = _laid_over(draw(items(name, schema, ours=True)), extra)
    if batch:
        more = [
            _laid_over(draw(items(name, schema, ours=draw(st.booleans()))), extra)
            for _ in range(draw(st.integers(0, 3)))
        ]
        document = {"searches": draw(st.permutations([document, *more]))}
    body = draw(spelled(document))
    return Conversation(f"/collections/c/points/{PATHS[operation]}", body, lambda wide: server.answer(operation, wide))


def _laid_over(item: dict[str, Any], extra: dict[str, Any] | None) -> dict[str, Any]:
    if not extra:
        return item
    spellings = {"limit": "top", "with_vector": "with_vectors"}
    dropped = {spellings[key] for key in extra if key in spellings}
    return {**{key: value for key, value in item.items() if key not in dropped}, **extra}
