"""No result is lost through the running proxy that says something beside its text; and copies leave, whatever tells them apart."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import orjson
import pytest
from quality.proxied_cases import scored

from support.process.stack import exchange, serve
from support.qdrant.embedded import start_embedded_process

Payload = dict[str, Any]

STEPS = "Open the settings, choose Security, and follow the link in the mail that you get within ten minutes."
NOTICE = "All information in this leaflet is given without guarantee, and the manufacturer may change it at any time."
SOUP = "Cook the lentils for twenty minutes, add the vinegar last, and serve the soup with bread from the day before."
MONDAY = "The lift is out of order until the parts from the factory in Bergamo have arrived and were fitted."

# Groups of results that all stay.
DIFFERENT: Mapping[str, list[Payload]] = {
    "two questions with one answer": [
        {"question": "How do I change my password?", "answer": STEPS},
        {"question": "How do I remove my second device?", "answer": STEPS},
    ],
    "a short text above the same notice": [
        {"text": f"Take {dose} mg.", "notice": NOTICE} for dose in (5, 10, 20, 40)
    ],
    "products with one description": [
        {"text": STEPS, "title": name, "price": 12} for name in ("Lamp Aurora", "Lamp Borealis")
    ],
    "two depots": [{"text": STEPS, "name": name} for name in ("North depot", "South depot")],
    "days of one event": [{"text": MONDAY, "event_date": day} for day in ("2026-01-05", "2026-03-02")],
    "a sentence in two contexts": [
        {"text": MONDAY, "window": f"In Hall A: {MONDAY} Use the stairs."},
        {"text": MONDAY, "window": f"In Hall B: {MONDAY} Use the ramp at the back."},
    ],
    "paragraphs in a list": [
        {"text": "Chapter 3. Care of the pump", "paragraphs": [SOUP, f"Part {number} is for the {kind} model."]}
        for number, kind in enumerate(("small", "large"))
    ],
    "a note in a string of JSON": [
        {"page_content": STEPS, "extra": json.dumps({"note": f"This holds for members of the {club} club."})}
        for club in ("chess", "rowing")
    ],
    "keys with dots": [
        {"text": STEPS, "for.whom": "Pupils of the lower school only"},
        {"text": STEPS, "for.whom": "Teachers and their assistants only"},
    ],
    "three members, of which two share each part": [
        {"text": STEPS, "comment": "It worked at once for me."},
        {"text": SOUP, "comment": "It was too salty for us."},
        {"text": STEPS, "comment": "It was too salty for us."},
    ],
}  # fmt: skip

# Groups of which one result stays.
COPIES: Mapping[str, list[Payload]] = {
    "sources": [{"text": STEPS, "source": name, "url": f"https://{name}.example/a"} for name in ("wiki", "handbook")],
    "files and pages": [
        {"page_content": SOUP, "metadata": {"file_name": f"the soups of {year}.pdf", "page": year}} for year in (1, 2)
    ],
    "titles, dates and ids": [
        {"text": MONDAY, "title": f"News of the week, page {number}", "created": f"2026-01-0{number}", "doc_id": day}
        for number, day in enumerate(("first", "second"), 1)
    ],
    "an equal question": [{"question": "How do I cook it?", "answer": SOUP, "page": n} for n in (1, 2)],
    "one that says less": [{"text": STEPS, "comment": "It worked at once for me."}, {"text": STEPS}],
    "a preview of a part": [{"text": f"{STEPS} {SOUP}", "preview": f"{STEPS[:40]} …"}, {"text": SOUP, "preview": f"{SOUP[:40]} …"}],
}  # fmt: skip

TEXTS = ("text", "page_content", "answer")
SUBJECTS = [
    f"{noun} {verb} behind the old mill, as the neighbours said to the reporter of the evening paper."
    for noun in ("A goat", "The mayor", "Our choir", "Some lorry", "Her kite")
    for verb in ("sleeps", "sings", "waits")
]


def bare(payloads: list[Payload]) -> list[Payload]:
    """The payloads with their texts alone."""
    return [{key: payload[key] for key in TEXTS if key in payload} for payload in payloads]


GROUPS = {**DIFFERENT, **COPIES, **{f"bare {name}": bare(payloads) for name, payloads in DIFFERENT.items()}}


@pytest.fixture(scope="module")
def proxy() -> Iterator[str]:
    with start_embedded_process() as engine, serve(engine) as (url, _):
        for number, payloads in enumerate(GROUPS.values()):
            key = next(key for key in TEXTS if key in payloads[0])
            fillers = [{key: text, "filler": True} for text in SUBJECTS]
            points = []
            for rank, payload in enumerate([*payloads, *fillers]):
                vector = np.random.default_rng(list(payload[key].encode())).normal(
                    size=24
                )  # equal texts have equal ones
                at = scored((vector / np.linalg.norm(vector)).astype(np.float32), rank)
                points.append({"id": rank, "vector": at, "payload": payload})
            shape = orjson.dumps({"vectors": {"size": 25, "distance": "Cosine"}})
            assert exchange(engine, "PUT", f"/collections/c{number}", shape).status == 200
            body = orjson.dumps({"points": points}, option=orjson.OPT_SERIALIZE_NUMPY)
            assert exchange(engine, "PUT", f"/collections/c{number}/points?wait=true", body).status == 200
        yield url


def page(proxy: str, name: str) -> list[Payload]:
    """The payloads of a group on its page, which has room for all of them, fillers behind."""
    size = len(GROUPS[name]) + 2
    search = {"query": [0.0] * 24 + [1.0], "limit": size, "with_payload": True}
    path = f"/collections/c{list(GROUPS).index(name)}/points/query"
    answer = exchange(proxy, "POST", path, orjson.dumps(search))
    assert answer.status == 200
    payloads = [point["payload"] for point in json.loads(answer.body)["result"]["points"]]
    assert len(payloads) == size
    return [payload for payload in payloads if "filler" not in payload]


@pytest.mark.parametrize("name", DIFFERENT)
def test_results_that_say_something_beside_their_texts_stay(proxy: str, name: str) -> None:
    """At first contact, and when pages are repeated. The same texts alone are copies."""
    for _ in range(12):
        assert page(proxy, name) == DIFFERENT[name]
    texts = {json.dumps(payload) for payload in bare(DIFFERENT[name])}
    assert len(page(proxy, f"bare {name}")) == len(texts)


@pytest.mark.parametrize("name", COPIES)
def test_copies_leave_whatever_their_sources(proxy: str, name: str) -> None:
    for _ in range(12):
        assert page(proxy, name) == COPIES[name][:1]
